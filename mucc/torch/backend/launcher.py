"""Launch kernels from the code that Inductor generates.

A module of such code makes a `Launcher` for each kernel, from the text of its request. It calls `launch` with
the tensors that the kernel reads, then those that it writes, which Inductor has allocated. From the second
call on this is the library's entry behind one Python function, without torch's dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mucc.library.errors import MuccError, translated
from mucc.runtime.kernel import Kernel
from mucc.torch.backend.operator import Request, kernel_of, signature_of, store_request
from mucc.torch.importer.capture import torch

Launch = Callable[..., None]
Refused = Callable[[Sequence[Any], Exception], None]


class Launcher:
    """One kernel of generated code.

    `launch(*tensors, *results)` runs it on contiguous tensors of one device, on the current stream, and
    returns nothing. The first call loads the library. A call that the library refuses is computed by the
    operator, and copied into the results. Raises as the operator does.
    """

    def __init__(self, request: str):
        self._request = request
        self.launch: Launch = self._first

    def _first(self, *args: Any) -> None:
        kernel = kernel_of(self._request)
        self.launch = self._store if kernel is None else launch_of(kernel, self._refused)
        self.launch(*args)

    def _refused(self, args: Sequence[Any], error: Exception) -> None:
        if not isinstance(translated(error), MuccError):
            raise error
        self._store(*args)

    def _store(self, *args: Any) -> None:
        count = len(signature_of(Request.of(self._request).program).results)
        store_request(args[:-count], args[-count:], self._request)


def launch_of(kernel: Kernel, refused: Refused) -> Launch:
    """Return the shortest function that launches a kernel; exceptions go to `refused`."""
    entry = kernel.ffi
    if kernel.info.workspace:
        return _with_workspace(kernel, refused)

    def launch(*args: Any) -> None:
        try:
            entry(*args)
        except Exception as error:
            refused(args, error)

    return launch


def _with_workspace(kernel: Kernel, refused: Refused) -> Launch:
    """Return such a function that allocates a workspace for each call, as the pools of CUDA graphs need.

    Where all extents are fixed, its size is that of the first call, until the library refuses it.
    """
    entry, bytes_of = kernel.ffi, kernel.ffi_workspace
    is_fixed = None not in kernel.info.dims.values()
    known = 0

    def launch(*args: Any) -> None:
        nonlocal known
        try:
            size = known or bytes_of(*args)
            if not size:
                entry(*args)
                return
            if is_fixed:
                known = size
            entry(*args, args[-1].new_empty(size, dtype=torch.uint8))
        except Exception as error:
            known = 0
            refused(args, error)

    return launch
