"""Handle tensors in plain attributes of modules, which torch.export does not treat as state."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

torch: Any = importlib.import_module("torch")


def attributes_of(module: Any) -> dict[str, Any]:
    """Find tensor attributes of a module and its submodules other than parameters and buffers, by path."""
    return {f"{path}{'.' if path else ''}{name}": value for path, _, name, value in _attributes(module)}


def state_of(module: Any) -> dict[str, Any]:
    """Return the tensors that a call of a module may change, by path."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
        **attributes_of(module),
    }


def _attributes(module: Any) -> Iterator[tuple[str, Any, str, Any]]:
    for path, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            continue
        for name, value in list(_own(part).items()):
            if isinstance(value, torch.Tensor) and not hasattr(part.__class__, name):
                yield path, part, name, value


def _own(part: Any) -> dict[str, Any]:
    own: dict[str, Any] = part.__dict__
    return own


@contextmanager
def attributes_as_buffers(module: Any) -> Generator[None]:
    """Register plain attributes as buffers temporarily; restore attributes and buffers at the end."""
    parts = list(module.modules())
    saved = [(_own(part), dict(_own(part)), dict(part._buffers)) for part in parts]
    added = [(part, name, value) for _, part, name, value in _attributes(module)]
    persistent = [set(part._non_persistent_buffers_set) for part in parts]
    try:
        for part, name, value in added:
            del _own(part)[name]
            part.register_buffer(name, value, persistent=False)
        yield
    finally:
        for part, (attributes, before, buffers), names in zip(parts, saved, persistent, strict=True):
            part._buffers.clear()
            part._buffers.update(buffers)
            part._non_persistent_buffers_set.clear()
            part._non_persistent_buffers_set.update(names)
            attributes.clear()
            attributes.update(before)
