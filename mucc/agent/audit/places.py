"""Whose code threads of a candidate's process are in while that is stopped, as the system tells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from mucc.api.processes import Place, Symbols

SHARED_BY_ALL = re.compile(
    r"(libc|libm|libmvec|ld|ld-linux[\w-]*|libpthread|libstdc\+\+|libgcc_s|libgomp[\w-]*|libi?omp5?|libcuda|libcudart)[.-]"
)
"""Libraries that work for whoever calls them, by their files' names: that caller counts."""

OF_GPUS = re.compile(r"libcu(blas|blasLt|dnn\w*|sparse|sparseLt)[.-]")
"""Files of NVIDIA's libraries that start products on GPUs, which PyTorch calls."""

PYTORCHS = re.compile(
    r"/(torch/lib|torch\.libs)/lib(torch|torch_cpu|torch_cuda\w*|mkl\w*|dnnl|openblas\w*)[.-]"
)
"""Files of PyTorch that compute."""

PRODUCTS = re.compile(
    r"^libcu|mkl_(blas|xblas|sparse|lapack)|gemm|gemv|dnnl|cblas_|xnn_|conv_?\dd|convolution", re.I
)
"""Matches the mangled names of functions that multiply matrices or convolve."""

COMPUTES = re.compile(
    r"2at6native\d{1,2}(AVX|DEFAULT|SVE|ZVECTOR|VSX|NEON)|mkl_|dnnl|xnn_|fbgemm|qnnpack|Sleef|pocketfft|lapack|[sdcz]dot_"
)
"""Matches the mangled names of other functions of PyTorch that compute."""

MOVES = re.compile(r"copy|fill|memcpy|memset|transpose|cat_|stack_|arange", re.I)
"""Matches names among these of functions that only copy or fill memory."""


@dataclass(frozen=True)
class Look:
    """What was seen when a timed call was stopped: the functions of PyTorch's that threads computed in.

    `hidden` says that the system did not tell any more, which it did before the solution was loaded.
    `started` says that there were processes which the call had started.
    """

    case: str
    functions: tuple[str, ...] = ()
    hidden: bool = False
    started: bool = False

    @property
    def has_product(self) -> bool:
        """Whether some of them multiply matrices or convolve."""
        return any(map(PRODUCTS.search, self.functions))


def computing(threads: Iterable[Sequence[Place]], originals: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the functions of PyTorch's that threads compute in (`registers.working`), by mangled names.

    Code in no file is looked for in `originals`, files that it may be a copy of.
    """
    found = (function_of(places, originals) for places in threads)
    return tuple(sorted({name for name in found if name and does_compute(name)}))


def does_compute(function: str) -> bool:
    """Whether a function computes something: products, or other arithmetic that is no copy."""
    return bool(PRODUCTS.search(function) or (COMPUTES.search(function) and not MOVES.search(function)))


def function_of(places: Sequence[Place], originals: Sequence[str] = ()) -> str:
    """Return the function of PyTorch's that a thread is in, itself, in a copy, or by what PyTorch calls.

    Code that was made in memory belongs to whoever calls it, if it is no copy of code in `originals`. Returns
    "" where a thread is in other code.
    """
    if places and places[0].code:
        for path in originals:
            if name := _copied(path, places[0].code):
                return name
    for n, place in enumerate(places):
        file = os.path.basename(place.file)
        if not file or SHARED_BY_ALL.match(file):
            continue
        if OF_GPUS.match(file):
            return file
        if not PYTORCHS.search(place.file):
            return ""
        return _name(place.file, place.offset - (n > 0))  # a return address is behind the call
    return ""


def _name(path: str, offset: int) -> str:
    symbols = _symbols(path)
    return symbols.name(offset) if symbols else ""


@cache
def _copied(path: str, code: bytes) -> str:
    symbols = _symbols(path)
    at = symbols.find(code) if symbols else None
    return "" if symbols is None or at is None else symbols.name(at)


@cache
def _symbols(path: str) -> Symbols | None:
    try:
        return Symbols(path)
    except (OSError, ValueError):
        return None
