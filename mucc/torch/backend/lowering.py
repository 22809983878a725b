"""Lower calls of kernels in Inductor: it allocates the results, and calls a launcher in one line of code.

Without this, Inductor calls the operator `run_kernel` through torch's dispatcher. That costs the host 8 to
10 us more for each call, and memory of results is neither planned nor used again.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from mucc.torch.backend.operator import RUN_KERNEL, STORE_KERNEL, Request

log = logging.getLogger("mucc.torch")

IMPORT = "from mucc.torch.backend.launcher import Launcher as MuccLauncher"
"""What generated code imports."""


@cache
def lower_kernels() -> bool:
    """Register the lowering with Inductor, once; returns whether this version of torch has what it needs.

    If not, Inductor calls `run_kernel`, as it calls all operators that it does not know.
    """
    try:
        _register()
    except (ImportError, AttributeError) as error:
        log.info("Inductor calls kernels through torch's dispatcher: %s", error)
        return False
    return True


def _register() -> None:
    ir: Any = importlib.import_module("torch._inductor.ir")
    lowering: Any = importlib.import_module("torch._inductor.lowering")
    virtual: Any = importlib.import_module("torch._inductor.virtualized").V
    contiguous, shape_of = ir.ExternKernel.require_contiguous, ir.convert_shape_to_inductor
    make_buffer = lowering.empty_strided
    fallback: Any = ir.FallbackKernel

    class KernelCall(fallback):
        """A call of `store_kernel` that Python code makes as a call of a launcher."""

        def codegen(self, wrapper: Any) -> None:
            if not _is_python(virtual.graph):
                fallback.codegen(self, wrapper)
                return
            self.codegen_comment(wrapper)
            (request,) = self.constant_args
            arguments = ", ".join(t.codegen_reference() for t in self.inputs)
            wrapper.writeline(f"{_launcher(wrapper, request)}.launch({arguments})")

    def lower(tensors: Sequence[Any], request: str) -> list[Any]:
        given = [contiguous(t) for t in tensors]
        results = [
            make_buffer(shape_of(v.shape), shape_of(v.stride()), dtype=v.dtype, device=v.device)
            for v in virtual.graph.current_node.meta["val"]
        ]
        text = request if _is_python(virtual.graph) else Request.of(request).letters
        KernelCall.create(STORE_KERNEL, given, results, text)
        return results

    lowering.register_lowering(RUN_KERNEL, type_promotion_kind=None)(lower)


def _is_python(graph: Any) -> bool:
    """Whether the code of a graph is Python, not C++ or another graph."""
    return not (graph.cpp_wrapper or getattr(graph, "fx_wrapper", False))


def _launcher(wrapper: Any, request: str) -> str:
    """Define the launcher of a request in generated code, once; returns its name."""
    wrapper.add_import_once(IMPORT)
    body = f"MuccLauncher({request!r})"
    if (name := wrapper.src_to_kernel.get(body)) is None:
        name = wrapper.src_to_kernel[body] = f"mucc_kernel_{wrapper.next_kernel_suffix()}"
        wrapper.define_kernel(name, body, gpu=False)
    return name
