"""Versions of PyTorch: what the backend uses that is not documented, and what differs between them.

A version that lacks something of `USED` is one for which Inductor compiles all graphs (`alone.py`). Without
something of `LOWERING`, or where it is not `KNOWN`, Inductor calls kernels by an operator (`lowering.py`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

Names = Mapping[str, Sequence[str]]
"""Names by the module that has them; "a.b" is an attribute of an attribute."""

USED: Names = {
    "functorch.compile": ("make_boxed_func",),
    "torch._dispatch.python": ("enable_python_dispatcher",),
    "torch._dynamo.pgo": ("get_code_state",),
    "torch._functorch.config": ("enable_autograd_cache", "patch"),
    "torch._guards": ("TracingContext.try_get", "detect_fake_mode", "tracing"),
    "torch._inductor": ("list_mode_options", "list_options"),
    "torch._inductor.compile_fx": ("compile_fx", "compile_fx_inner", "fake_tensor_prop", "view_to_reshape"),
    "torch._inductor.config": (
        *("fx_graph_cache", "joint_custom_pre_pass", "patch", "post_grad_custom_pre_pass"),
        *("save_config_portable", "triton.cudagraphs"),
    ),
    "torch._inductor.constant_folding": ("replace_node_with_constant",),
    "torch._inductor.custom_graph_pass": ("CustomGraphPass",),
    "torch._inductor.freezing_utils": ("enter_freezing",),
    "torch._subclasses.fake_tensor": (
        *("DataDependentOutputException", "DynamicOutputShapeException"),
        *("FakeTensor", "FakeTensorMode", "unset_fake_temporarily"),
    ),
    "torch._subclasses.functional_tensor": ("FunctionalTensor", "FunctionalTensorMode"),
    "torch.fx.passes.fake_tensor_prop": ("FakeTensorProp.propagate_dont_convert_inputs",),
}
"""Undocumented names of PyTorch that the backend cannot do without, by module."""

LOWERING: Names = {
    "torch._inductor.codegen.wrapper": (
        *("PythonWrapperCodegen.codegen_allocation", "PythonWrapperCodegen.define_kernel"),
        *("PythonWrapperCodegen.make_buffer_allocation", "PythonWrapperCodegen.next_kernel_suffix"),
    ),
    "torch._inductor.ir": (
        *("ExternKernel.require_contiguous", "FallbackKernel.process_kernel"),
        *("FallbackKernel.tensor_to_layout", "MultiOutput", "MultiOutputLayout", "TensorBox.create"),
        "convert_shape_to_inductor",
    ),
    "torch._inductor.lowering": ("empty_strided", "fallback_handler", "register_lowering"),
    "torch._inductor.virtualized": ("V",),
}
"""Undocumented names of Inductor that direct calls of kernels in its code need beside those."""

KNOWN = ((2, 11), (2, 14))
"""The first and the last version of torch with which the lowering (`lowering.py`) is known to work: 2.11 on
an H100, and all of them without a GPU. Classes of Inductor's that are not documented may do another thing in
others, by the same names."""

PARTS = ("example_output", "tensor_args", "non_tensor_args", "unflatten_args")
"""What Inductor finds of a call that it does not know, as torch 2.14 names it."""


def torch_version() -> str:
    """Return the version of torch, such as "2.11.0+cu130"."""
    return importlib.import_module("torch").__version__


def is_known(version: str) -> bool:
    """Whether the lowering is known to work with a version of torch."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and KNOWN[0] <= (int(found[1]), int(found[2])) <= KNOWN[1]


def missing(names: Names) -> list[str]:
    """Return which of some names this version of torch does not have, with their modules."""
    found: list[str] = []
    for module, wanted in names.items():
        try:
            owner = importlib.import_module(module)
        except ImportError:
            found.append(module)
            continue
        found += [f"{module}.{name}" for name in wanted if not _has(owner, name)]
    return found


def _has(owner: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


def parts_of(processed: Any) -> tuple[Any, Any, Any, Any]:
    """Return `PARTS` of what `FallbackKernel.process_kernel` returns.

    Up to torch 2.13 that is a tuple which begins with them. Raises AttributeError where it is neither.
    """
    if not isinstance(processed, tuple):
        values, inputs, others, unflatten = (getattr(processed, name) for name in PARTS)
        return values, inputs, others, unflatten
    values, inputs, others, unflatten, *_ = cast("tuple[Any, ...]", processed)
    return values, inputs, others, unflatten
