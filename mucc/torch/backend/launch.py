"""Call kernels from torch graphs: convert dtypes and layouts, and fall back to PyTorch on errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.library.errors import MuccError
from mucc.runtime.build import MuccWarning
from mucc.runtime.views import call_anyhow


@dataclass(frozen=True)
class Result:
    """The form of a result in torch: its dtype if the kernel's differs, and the order of axes in memory."""

    dtype: Any | None
    order: tuple[int, ...] | None

    def of(self, value: Any) -> Any:
        """Convert a kernel's result."""
        if self.dtype is not None:
            value = value.to(self.dtype)
        if self.order is None:
            return value
        back = [self.order.index(axis) for axis in range(len(self.order))]
        return value.permute(self.order).contiguous().permute(back)


@dataclass
class Launch:
    """A callable kernel on torch tensors; returns a tensor or a tuple of tensors.

    `taken` has the dtype that each argument is converted to, or None. `reference` computes the same by
    PyTorch: for calls that the kernel refuses, such as extents that it cannot copy, unless `strict`. It
    takes the extents that come behind the arguments too.
    """

    name: str
    kernel: Callable[..., Any]
    taken: Sequence[Any | None]
    results: Sequence[Result]
    reference: Callable[..., Any]
    strict: bool = False
    warned: bool = False

    def __call__(self, *args: Any) -> Any:
        given = [a if dtype is None else a.to(dtype) for a, dtype in zip(args, self.taken, strict=False)]
        try:
            return self._finished(call_anyhow(self.kernel, given))
        except MuccError as error:
            return self._otherwise(error, args)

    def _finished(self, made: Any) -> Any:
        if len(self.results) == 1:
            return self.results[0].of(made)
        return tuple(r.of(m) for r, m in zip(self.results, made, strict=True))

    def _otherwise(self, error: MuccError, args: Sequence[Any]) -> Any:
        """Compute the results by PyTorch."""
        if self.strict:
            raise error
        if not self.warned:
            self.warned = True
            message = f"MU7063: PyTorch computes '{self.name}' for some arguments: {error}"
            warnings.warn(message, MuccWarning, stacklevel=2)
        return self.reference(*args)

    def function(self, name: str) -> Callable[..., Any]:
        """Make a function with a name of its own for calls in a graph."""

        def call(*args: Any) -> Any:
            return self(*args)

        call.__name__ = call.__qualname__ = name
        call.__module__ = "mucc.kernels"
        return call
