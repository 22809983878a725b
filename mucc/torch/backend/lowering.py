"""Lower calls of kernels in Inductor: it allocates the results, and calls a launcher in one line of code.

Without this, Inductor calls the operator `run_kernel` through torch's dispatcher. That costs the host 8 to
18 us more for each call, and memory of results is neither planned nor used again.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from mucc.torch.backend.operator import RUN_KERNEL, STORE_KERNEL, Request
from mucc.torch.backend.versions import LOWERING, is_known, missing, parts_of, torch_version

log = logging.getLogger("mucc.torch")

IMPORT = "from mucc.torch.backend.launcher import Launcher as MuccLauncher"
"""What generated code imports."""


@cache
def lower_kernels() -> bool:
    """Register the lowering with Inductor, once; returns whether this version of torch has what it needs.

    If not, Inductor calls `run_kernel`, as it calls all operators that it does not know.
    """
    version = torch_version()
    if not is_known(version):
        log.info("Inductor calls kernels through torch's dispatcher: torch %s is not known", version)
        return False
    if lacking := missing(LOWERING):
        log.info("Inductor calls kernels through torch's dispatcher: there is no %s", ", ".join(lacking))
        return False
    _register()
    return True


def _register() -> None:
    ir: Any = importlib.import_module("torch._inductor.ir")
    lowering: Any = importlib.import_module("torch._inductor.lowering")
    virtual: Any = importlib.import_module("torch._inductor.virtualized").V
    contiguous, shape_of = ir.ExternKernel.require_contiguous, ir.convert_shape_to_inductor
    make_buffer, box = lowering.empty_strided, ir.TensorBox.create
    through_operator = lowering.fallback_handler(RUN_KERNEL, add_to_fallback_set=False)
    layout_of, results_layout = ir.FallbackKernel.tensor_to_layout, ir.MultiOutputLayout
    fallback: Any = ir.FallbackKernel
    multi_output: Any = ir.MultiOutput

    class KernelCall(fallback):
        """A call of `run_kernel` that is written as a call of a launcher, behind the results' allocations."""

        def codegen(self, wrapper: Any) -> None:
            self.codegen_comment(wrapper)
            # Inductor does not allocate what nothing reads, but the kernel stores it.
            unread = [r.get_name() for r in self.outputs if r.get_name() in virtual.graph.removed_buffers]
            for result in self.outputs:
                if result.get_name() in unread:
                    wrapper.writeline(wrapper.make_buffer_allocation(result))
                else:
                    wrapper.codegen_allocation(result)
            (request,) = self.constant_args
            tensors = ", ".join(t.codegen_reference() for t in [*self.inputs, *self.outputs])
            # The call is a variable, which Inductor deletes as it does the list of an operator's results.
            wrapper.writeline(f"{self.get_name()} = {_launcher(wrapper, request)}.launch({tensors})")
            for name in unread:
                wrapper.writeline(f"del {name}")

    class Result(multi_output):
        """A result of a kernel: a buffer of Inductor's that the call of the kernel has stored to."""

        def codegen(self, wrapper: Any) -> None:
            pass

        def should_allocate(self) -> bool:
            return True

    def lower(tensors: Sequence[Any], request: str) -> list[Any]:
        given = [contiguous(t) for t in tensors]
        if not _is_python(virtual.graph):
            return stored(given, request)
        try:
            return launched(given, request)
        except Exception as error:
            log.info("Inductor calls a kernel through torch's dispatcher: %r", error)
            return through_operator(given, request)

    def launched(given: Sequence[Any], request: str) -> list[Any]:
        """Call a launcher, with buffers of Inductor's for the results."""
        with virtual.graph.fake_mode:
            processed = fallback.process_kernel(RUN_KERNEL, given, request)
        values, inputs, others, unflatten = parts_of(processed)
        graph, layout = virtual.graph, results_layout(device=values[0].device)
        held = len(graph.operations), len(graph.buffers)
        try:
            call = KernelCall(layout, RUN_KERNEL, inputs, others, unflatten)
            call.outputs = [Result(layout_of(v), call, [(list, n)]) for n, v in enumerate(values)]
            return [box(result) for result in call.outputs]
        except Exception:
            _forget(graph, *held)
            raise

    def stored(given: Sequence[Any], request: str) -> list[Any]:
        """Call the operator that stores, for code in C++, which has no calls that return lists."""
        results = [
            make_buffer(shape_of(v.shape), shape_of(v.stride()), dtype=v.dtype, device=v.device)
            for v in virtual.graph.current_node.meta["val"]
        ]
        fallback.create(STORE_KERNEL, given, results, Request.of(request).letters)
        return results

    lowering.register_lowering(RUN_KERNEL, type_promotion_kind=None)(lower)


def _forget(graph: Any, operations: int, buffers: int) -> None:
    """Remove from a graph all but its first operations and buffers, as before they were registered."""
    for operation in graph.operations[operations:]:
        graph.name_to_op.pop(operation.operation_name, None)
    for buffer in graph.buffers[buffers:]:
        graph.name_to_buffer.pop(buffer.get_name(), None)
    del graph.operations[operations:], graph.buffers[buffers:]


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
