"""Options of the torch.compile backend."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mucc.diagnostics.core import Diagnostic, DiagnosticError, did_you_mean
from mucc.library.dims import LARGEST

CHOICES = {
    "fallback": ("eager", "error"),
    "compute": (None, "f32", "tf32", "tf32x3"),
    "round": ("fused", "eager"),
    "regions": ("expected", "all"),
    "rest": ("inductor", "eager"),
}

CUDA_GRAPHS = "triton.cudagraphs"
"""Inductor's setting for CUDA graphs."""

KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "target": ("the name of a target", lambda v: v is None or isinstance(v, str)),
    "mode": ("the name of a mode", lambda v: isinstance(v, str)),
    "schedules": ("a dict of settings by the names of kernels", lambda v: _is_mapping(v, str)),
    "margin": ("a number", lambda v: type(v) in (int, float) and v == v),
    "measure": ("True, False or None", lambda v: v is None or isinstance(v, bool)),
    "verify": ("True, False or None", lambda v: v is None or isinstance(v, bool)),
    "background": ("True or False", lambda v: isinstance(v, bool)),
    "interpret": ("True or False", lambda v: isinstance(v, bool)),
    "inductor": ("a dict of options of Inductor", lambda v: _is_mapping(v, object)),
}
"""What values of options are, in words and as a test; `CHOICES` has those of the others."""

MARGIN = 0.05
"""The least gain, as a share of the time that a kernel takes, for which mucc takes a region."""


@dataclass(frozen=True)
class Options:
    """Options of compiling graphs.

    `target` is one of `mucc targets`; left out it is that of the tensors' GPU. `mode` is one of
    torch.compile's. `compute` is the format of f32 products; left out it is what torch is set up to. With
    `round="eager"` the result of each operation on 16-bit floats is rounded, as PyTorch does it; else only
    what is stored and what the model converts. `schedules` has settings by the name of a kernel
    (`mucc.explain` shows names). With `fallback="error"` what cannot be compiled for a reason that lies in
    mucc or its toolchain raises; else Inductor compiles it, with a warning.

    With `measure`, which modes of Inductor's autotuning turn on, regions that might win are compiled both
    ways and timed on the card, and those that win are taken; times are kept in the tuning database.
    `regions` are those where a gain of more than `margin`, a share of the kernel's time, is expected, or
    "all" that mucc compiles. The rest is compiled by Inductor, or, for tests, called by PyTorch, operation by
    operation (`rest="eager"`). Open extents without a declared range have that of `sizes`, by which kernels
    get several schedules; without it, one for the size that was seen first. With `background`, calls are
    served by Inductor alone while kernels are built, and graphs of fixed extents are compiled anew with them
    then. With `verify`, which `measure` and `background` turn on, a graph of fixed extents is timed at its
    first call with mucc and without it, and what is faster runs; times are kept too. `interpret` runs kernels
    by mucc's interpreter, on tensors anywhere: slow, and right by definition. `inductor` has Inductor's own
    options.
    """

    target: str | None = None
    mode: str = "default"
    compute: str | None = None
    round: str = "fused"
    schedules: Mapping[str, str] = field(default_factory=dict[str, str])
    fallback: str = "eager"
    regions: str = "expected"
    margin: float = MARGIN
    rest: str = "inductor"
    measure: bool | None = None
    background: bool = False
    verify: bool | None = None
    sizes: tuple[int, int] | None = None
    interpret: bool = False
    inductor: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(given: Mapping[str, Any]) -> Options:
        """Build options from names and values. Raises DiagnosticError MU7062 for unknown or illegal ones.

        What mucc does not have is an option of Inductor, if that has it.
        """
        names = [f.name for f in dataclasses.fields(Options)]
        own: dict[str, Any] = {}
        for name, value in given.items():
            words, is_one = KINDS.get(name, ("", None))
            if is_one is not None and not is_one(value):
                raise _error(f"{name}={value!r} is not {words}")
        inductor: dict[str, Any] = dict(given.get("inductor", {}))
        for name, value in given.items():
            if name not in names:
                _known_to_inductor(name, names)
                inductor[name.replace("-", "_")] = value
                continue
            if name in CHOICES and value not in CHOICES[name]:
                listed = ", ".join(repr(c) for c in CHOICES[name])
                raise _error(f"{name}={value!r} is none of {listed}")
            own[name] = value
        own["inductor"] = inductor
        if (sizes := own.get("sizes")) is not None:
            own["sizes"] = _range_of(sizes)
        options = Options(**own)
        modes = _inductor().list_mode_options()
        if options.mode not in modes:
            raise _error(f"mode={options.mode!r} is none of {', '.join(map(repr, modes))}")
        if options.target is not None:
            from mucc.target import get_target

            get_target(options.target)
        return options

    @property
    def measures(self) -> bool:
        """Whether regions are measured."""
        return self.measure if self.measure is not None else self.mode.startswith("max-autotune")

    @property
    def verifies(self) -> bool:
        """Whether graphs are timed with mucc and without it."""
        by_default = (self.measures or self.background) and not self.interpret
        return by_default if self.verify is None else self.verify

    @property
    def has_cuda_graphs(self) -> bool:
        """Whether Inductor runs graphs as CUDA graphs."""
        return bool(self.config.get(CUDA_GRAPHS, _inductor().config.triton.cudagraphs))

    @property
    def without_cuda_graphs(self) -> Options:
        """The same options without CUDA graphs."""
        return dataclasses.replace(self, inductor={**self.inductor, CUDA_GRAPHS: False})

    @property
    def config(self) -> dict[str, Any]:
        """Inductor's settings: those of the mode, and its own options."""
        return {**_inductor().list_mode_options(self.mode), **self.inductor}


def _range_of(sizes: Any) -> tuple[int, int]:
    """Return the range of `sizes`. Raises DiagnosticError MU7062 for anything but two sizes in order."""
    match sizes:
        case (int(first), int(last)) if 1 <= first <= last <= LARGEST:
            return first, last
        case _:
            raise _error(f"sizes={sizes!r} is no range of extents", "write sizes=(1, 4096)")


def _inductor() -> Any:
    return importlib.import_module("torch._inductor")


def _known_to_inductor(name: str, names: list[str]) -> None:
    """Raise DiagnosticError MU7062 if Inductor has no such option."""
    if name.replace("-", "_") in _inductor().list_options():
        return
    close = did_you_mean(name, names)
    raise _error(
        f"neither mucc nor Inductor has an option '{name}'",
        f"did you mean '{close}'?" if close else f"options are {', '.join(names)}, and those of Inductor",
    )


def _error(message: str, *helps: str) -> DiagnosticError:
    """Make an error that has its advice in the message: dynamo prints nothing else of a backend's errors."""
    return DiagnosticError(Diagnostic("MU7062", "; ".join((message, *helps))))


def _is_mapping(value: Any, kind: type) -> bool:
    """Whether a value is a mapping of names to values of a kind."""
    if not isinstance(value, Mapping):
        return False
    items = cast("Mapping[object, object]", value).items()
    return all(isinstance(k, str) and isinstance(v, kind) for k, v in items)
