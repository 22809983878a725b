"""Check whether functions that an audit relies on were replaced. Imports torch."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

torch: Any = importlib.import_module("torch")
DeviceContext: Any = importlib.import_module("torch.utils._device").DeviceContext
"""The mode that `torch.set_default_device` leaves on: it computes nothing."""

OWNERS = (
    "time",
    "json",
    "ctypes",
    "socket",
    "socket.socket",
    "builtins",
    "torch",
    "torch.Tensor",
    "torch.cuda",
    "torch.cuda.Event",
    "torch.cuda.Stream",
    "torch.cuda.CUDAGraph",
    "torch.random",
    "torch.mps",
    "torch.mtia",
    "torch.xpu",
    "torch.testing",
    "torch.nn.Parameter",
    "torch.utils._device.DeviceContext",
    "torch.linalg",
    "torch.nn.functional",
    "torch.profiler",
    "torch.profiler.profile",
    "torch.autograd.profiler.profile",
    "torch.utils._pytree",
    "random",
    "random.SystemRandom",
)
"""Modules and classes outside of mucc whose functions are compared with a snapshot."""

OWN = "mucc.agent."
"""The prefix of modules that solutions must not change. All their members are compared with a snapshot,
classes and values that are no functions included: a module in a variable, a pattern, a table."""

REPLACED_BY_TORCH = ("torch.manual_seed",)
"""Functions that parts of torch itself wrap when they are loaded; others may not."""

OPERATORS = (
    "empty.memory_format",
    "uniform_",
    "normal_",
    "random_",
    "copy_",
    "clone",
    "sum",
    "amax",
    "equal",
    "mm",
    "mul.Tensor",
    "index.Tensor",
)
"""ATen operators whose registered kernels are compared with what they were."""


def sealed() -> Callable[[Mapping[str, object]], list[str]]:
    """Return a copy of `changed`, which goes on as it is when functions of this module get other code."""
    own: dict[str, Any] = dict(globals())
    for name, value in globals().items():
        if isinstance(value, FunctionType):
            own[name] = FunctionType(value.__code__, own, name, value.__defaults__)
    return own["changed"]


def snapshot() -> dict[str, object]:
    """Functions by name, and the registrations of operators as text."""
    found: dict[str, object] = {}
    for owner in OWNERS:
        for name, value in _members(owner).items():
            if f"{owner}.{name}" in REPLACED_BY_TORCH:
                found[f"{owner}.{name}"] = "torch" if _is_torchs(value) else value
            elif callable(value):
                found.update(_with_code(f"{owner}.{name}", value))
    for owner, members in _own():
        for name, value in members.items():
            if not name.startswith("__") or callable(value):
                found.update(_with_code(f"{owner}.{name}", value))
    for name in OPERATORS:
        found[f"aten::{name}"] = torch._C._dispatch_dump(f"aten::{name}")
    return found


def _with_code(name: str, value: object) -> dict[str, object]:
    """Return what is compared of a value: itself, a function's code, and the contents of a table as text."""
    found = {name: value}
    if isinstance(value, FunctionType):
        found[f"the code of {name}"] = value.__code__
    elif isinstance(value, (dict, list, set)):
        found[f"what is in {name}"] = repr(value)  # pyright: ignore[reportUnknownArgumentType]
    return found


def _own() -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the modules of `OWN` and the classes that these define, with their members."""
    for module in [n for n in sys.modules if n.startswith(OWN)]:
        members: Mapping[str, object] = getattr(sys.modules[module], "__dict__", {})
        yield module, members
        for name, value in list(members.items()):
            if isinstance(value, type) and value.__module__ == module:
                yield f"{module}.{name}", vars(value)


def _is_torchs(value: Any) -> bool:
    """Whether the code of a function is in a file of torch."""
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    folder = os.path.dirname(str(torch.__file__)) + os.sep
    return code is not None and code.co_filename.startswith(folder)


def _members(owner: str) -> Mapping[str, Any]:
    head, *rest = owner.split(".")
    value: Any = importlib.import_module(head)
    name = head
    for part in rest:
        name = f"{name}.{part}"
        value = getattr(value, part, None) or sys.modules.get(name)
    found: Mapping[str, Any] = getattr(value, "__dict__", {})
    return found


def changed(before: Mapping[str, object]) -> list[str]:
    """Return the names that stand for something else than before, and modes that were left switched on."""
    now = snapshot()
    names = [name for name, value in before.items() if not _same(now.get(name), value)]
    if not all(type(mode) is DeviceContext for mode in torch.overrides._get_current_function_mode_stack()):
        names.append("a mode for torch_function is on")
    if torch._C._len_torch_dispatch_stack():
        names.append("a mode for torch_dispatch is on")
    return sorted(names)


def shadowed(*objects: object) -> list[str]:
    """Return the functions that objects have instead of those of their classes."""
    return [
        f"{name} of a {type(one).__name__}"
        for one in objects
        for name in sorted(getattr(one, "__dict__", {}))
        if callable(getattr(type(one), name, None))
    ]


def _same(now: object, before: object) -> bool:
    return now == before if isinstance(before, str) else now is before
