"""Which layers confine a process on this machine, and how a process enters them."""

from __future__ import annotations

import ctypes
import os
import resource
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from mucc.process.sandbox import capabilities, landlock, namespaces, seccomp
from mucc.process.sandbox.modes import Layer
from mucc.process.sandbox.places import Common, Places, places

QUOTA = 2 << 30
"""Bytes that a confined process may keep in its folder."""

PROCESSES = 4096
"""Threads and processes in namespaces of their own, at a time."""

DESCRIPTORS = 4096
"""Files, pipes and sockets that a process may have open."""

GPU = "/dev/nvidiactl"
"""What the driver of NVIDIA's GPUs is reached through."""


def available() -> tuple[Layer, ...]:
    """Try which layers this machine allows, each in a process of its own. Takes some milliseconds, with a GPU
    about a second: a layer without which alone the driver works is left out."""
    with tempfile.TemporaryDirectory() as folder:
        tried: dict[Layer, Callable[[], object]] = {
            Layer.NAMESPACES: lambda: _confined(folder, [Layer.NAMESPACES], lambda: None),
            Layer.LANDLOCK: lambda: _needed(landlock.restrict(["/dev"], ["/"])),
            Layer.SECCOMP: lambda: _needed(seccomp.restrict()),
        }
        found = [layer for layer, attempt in tried.items() if _works(attempt)]
        if os.path.exists(GPU) and _works(use_gpu):
            found = _with_gpu(found, folder)
    return (*found, Layer.LIMITS)


def prepare(known: Common) -> namespaces.Begun:
    """Hide folders from this process, which is in new namespaces, before its own places are known.

    `enter` completes the file system. Raises OSError.
    """
    place = places("/", 0, known=known)
    return namespaces.Begun(place.hidden, place.kept)


def enter(
    place: Places,
    layers: Iterable[Layer],
    shared: Sequence[str] = (),
    begun: namespaces.Begun | None = None,
) -> int | None:
    """Confine this process for good, and give up all capabilities; it may read the files of `shared` too,
    named by descriptors. What was `begun` is not done again.

    With namespaces, which the caller has left its old ones for (`leave_namespaces`), it returns a descriptor
    of the folder, a file system in memory. Raises OSError where a layer that worked before does not.
    """
    chosen = set(layers)
    folder = None
    private = Layer.NAMESPACES in chosen
    # Namespaces show no private files; without them Landlock refuses to read these.
    readable = None if private else [*place.readable(), *shared]
    if private:
        folder = namespaces.lay_out(place, begun)
        _limit(resource.RLIMIT_NPROC, PROCESSES)
    capabilities.drop()
    if Layer.LANDLOCK in chosen:
        _needed(landlock.restrict(place.writable(private), readable))
    if Layer.SECCOMP in chosen:
        # Namespaces show no services, which have sockets; the driver of a GPU makes one, too.
        _needed(seccomp.restrict(local=private or os.path.exists(GPU)))
    if Layer.LIMITS in chosen:
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_NOFILE, DESCRIPTORS)
    return folder


def use_gpu() -> None:
    """Make a context on the first GPU, and use some memory of it. Raises OSError where that fails."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    calls = (
        lambda: cuda.cuInit(0),
        lambda: cuda.cuDeviceGet(ctypes.byref(device), 0),
        lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        lambda: cuda.cuCtxSetCurrent(context),
        lambda: cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)),
        lambda: cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(0), ctypes.c_size_t(1 << 20)),
        lambda: cuda.cuCtxSynchronize(),
    )
    _needed(all(call() == 0 for call in calls))


def _with_gpu(layers: Sequence[Layer], folder: str) -> list[Layer]:
    """Return the layers within which the GPU can be used: all, or all but one, or none."""
    less = [[one for one in layers if one is not left_out] for left_out in layers]
    for some in (list(layers), *less):
        if _works(lambda some=some: _confined(folder, some, use_gpu)):
            return some
    return []


def _limit(what: int, most: int) -> None:
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _confined(folder: str, layers: Sequence[Layer], attempt: Callable[[], object]) -> None:
    """Run a function in a process that layers confine. Raises OSError where it fails."""

    def confined() -> None:
        enter(places(folder, QUOTA), layers)
        attempt()

    if Layer.NAMESPACES in layers:
        namespaces.leave_namespaces()
    _needed(_works(confined))


def _needed(done: bool) -> None:
    if not done:
        raise OSError("the kernel cannot")


def _works(attempt: Callable[[], object]) -> bool:
    """Whether a function succeeds in a fork of this process."""
    pid = os.fork()
    if not pid:
        _exit_with(attempt)
    _, status = os.waitpid(pid, 0)
    return status == 0


def _exit_with(attempt: Callable[[], object]) -> None:
    """Run a function, and end this process by whether it succeeds."""
    status = 1
    with suppress(BaseException):
        attempt()
        status = 0
    os._exit(status)
