"""Examine which tools this machine has for compiling and running kernels, for `mucc doctor`."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata

from mucc.build.cache import default_directory
from mucc.build.messages import BUILD_MEMORY_GB, available_memory_gb
from mucc.build.toolchain import discover, release
from mucc.build.toolchain.discover import INSTALL_HOST, INSTALL_NVCC, Tool
from mucc.diagnostics.core import DiagnosticError


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    `needed_for` is `build` (required to compile kernels), `run` or `comfort`. `mend` is the command or step
    that installs a missing tool.
    """

    name: str
    found: bool
    detail: str
    needed_for: str
    mend: str = ""


def examine(nvcc: str | None = None) -> list[Finding]:
    """Run all checks, without importing packages. Raises nothing."""
    return [
        _python(),
        _tool("host compiler", discover.find_host, discover.host_version, INSTALL_HOST),
        _tool("nvcc", lambda: discover.find_nvcc(nvcc), discover.nvcc_version, INSTALL_NVCC),
        _cudart(nvcc),
        _release(nvcc),
        _ptxas(nvcc),
        _nvrtc(nvcc),
        _tool("CUTLASS", discover.find_cutlass, discover.cutlass_version, INSTALL_NVCC),
        _memory(),
        _cache(),
        _isolation(),
        gpu(),
        _package("tvm-ffi", "apache-tvm-ffi", "run", "pip install apache-tvm-ffi"),
        _package("torch", "torch", "comfort", "pip install torch"),
    ]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    return Finding("python", ok, f"{version}  {sys.executable}", "build", "install Python 3.11 or newer")


def _tool(name: str, find: Callable[[], Tool | None], version: Callable[[str], str], mend: str) -> Finding:
    try:
        tool = find()
    except DiagnosticError as error:
        return Finding(name, False, error.diagnostics[0].message, "build", "mend or unset that setting")
    if tool is None:
        return Finding(name, False, "not found", "build", mend)
    number = version(tool.path)
    detail = f"{number}  {tool.path}  (from {tool.origin})"
    if number == "unknown":
        return Finding(
            name, False, f"found but does not work: {tool.path}  (from {tool.origin})", "build", mend
        )
    return Finding(name, True, detail, "build")


def _nvcc(explicit: str | None) -> Tool | None:
    try:
        return discover.find_nvcc(explicit)
    except DiagnosticError:
        return None


def _ptxas(nvcc: str | None) -> Finding:
    tool = _nvcc(nvcc)
    path = tool and os.path.join(discover.root(tool), "bin", "ptxas")
    if path is None or not os.access(path, os.X_OK):
        return Finding("ptxas", False, "not found beside nvcc", "build", INSTALL_NVCC)
    return Finding("ptxas", True, path, "build")


@cache
def _why_not_nvrtc(version: str) -> str:
    """Return why NVRTC cannot be used beside a release of nvcc, or nothing.

    Another process tries, because a library that fails to load could end this one.
    """
    import subprocess

    script = (
        "from mucc.build.toolchain import nvrtc; import sys; print(nvrtc.why_unusable(sys.argv[1]) or '')"
    )
    try:
        run = subprocess.run(
            [sys.executable, "-c", script, version], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return run.stdout.strip() if run.returncode == 0 else "it cannot be loaded"


def _nvrtc(nvcc: str | None) -> Finding:
    tool = _nvcc(nvcc)
    version = discover.nvcc_version(tool.path) if tool else "unknown"
    if reason := _why_not_nvrtc(version):
        detail = f"{reason}; new epilogues take half a second longer"
        return Finding("NVRTC", False, detail, "comfort", INSTALL_NVCC)
    return Finding("NVRTC", True, f"as nvcc {version}", "comfort")


def _cudart(nvcc: str | None) -> Finding:
    name = "cudart (static)"
    tool = _nvcc(nvcc)
    directory = tool and discover.library_directory(tool)
    if directory is None:
        return Finding(name, False, "libcudart_static.a not found", "build", INSTALL_NVCC)
    return Finding(name, True, directory, "build")


def _release(nvcc: str | None) -> Finding:
    """Check that the parts of the CUDA toolkit are of one release."""
    name = "CUDA release"
    if (tool := _nvcc(nvcc)) is None:
        return Finding(name, False, "unknown without nvcc", "build", INSTALL_NVCC)
    detail = release.listed(release.releases(tool)) or "unknown"
    if (wrong := release.inconsistency(tool)) is None:
        return Finding(name, True, detail, "build")
    return Finding(name, False, f"parts of different releases: {detail}", "build", wrong.helps[0])


def _memory() -> Finding:
    available = available_memory_gb()
    if available is None:
        return Finding("memory", True, "unknown", "comfort")
    detail = f"{available:.1f} GB available; compiling a kernel takes about {BUILD_MEMORY_GB:.0f} GB"
    return Finding("memory", available >= BUILD_MEMORY_GB, detail, "comfort", "free memory before compiling")


def _cache() -> Finding:
    directory = default_directory()
    existing = directory
    while not os.path.exists(existing) and (parent := os.path.dirname(existing)) != existing:
        existing = parent
    ok = os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)
    detail = directory if ok else f"cannot write {directory}"
    return Finding("cache", ok, detail, "comfort", "set MUCC_CACHE_DIR to a directory that can be written")


def _isolation() -> Finding:
    """Check which layers can confine the processes that run problem files and candidates."""
    from mucc.process.sandbox.layers import available
    from mucc.process.sandbox.modes import GUARDS

    found = available()
    missing = [layer for layer in GUARDS if layer not in found]
    detail = ", ".join(layer.value for layer in found)
    if not missing:
        return Finding("isolation", True, detail, "comfort")
    lacks = "; ".join(f"no {layer.value}, which ensures {layer.meaning}" for layer in missing)
    mend = "use Linux 5.13 or newer, and allow user namespaces; containers often forbid them"
    return Finding("isolation", False, f"{detail}; {lacks}", "comfort", mend)


def gpu() -> Finding:
    """Return the GPUs, asked of the driver library itself: containers often lack nvidia-smi."""
    mend = "run on a machine with an NVIDIA GPU and driver; compiling needs none"
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Finding("GPU", False, "no NVIDIA driver", "run", mend)
    count, driver = ctypes.c_int(), ctypes.c_int()
    if (
        cuda.cuInit(0)
        or cuda.cuDriverGetVersion(ctypes.byref(driver))
        or cuda.cuDeviceGetCount(ctypes.byref(count))
    ):
        return Finding("GPU", False, "the driver does not answer", "run", mend)
    names: list[str] = []
    for device in range(count.value):
        name, major, minor = ctypes.create_string_buffer(100), ctypes.c_int(), ctypes.c_int()
        cuda.cuDeviceGetName(name, 100, device)
        cuda.cuDeviceGetAttribute(
            ctypes.byref(major), 75, device
        )  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)  # …_MINOR
        names.append(f"{name.value.decode(errors='replace')} (sm_{major.value}{minor.value})")
    if not names:
        return Finding("GPU", False, "the driver sees no GPU", "run", mend)
    version = f"{driver.value // 1000}.{driver.value % 1000 // 10}"
    return Finding("GPU", True, f"{', '.join(names)}; driver for CUDA {version}", "run")


def installed(*distributions: str) -> dict[str, str]:
    """Return the versions of the given distributions that are installed."""
    found: dict[str, str] = {}
    for name in distributions:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def gpu_memory() -> int | None:
    """Return the memory of the first GPU in bytes, without creating a context; None without a GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, total = ctypes.c_int(), ctypes.c_size_t()
    if (
        cuda.cuInit(0)
        or cuda.cuDeviceGet(ctypes.byref(device), 0)
        or cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    ):
        return None
    return total.value


def _package(name: str, distribution: str, needed_for: str, mend: str) -> Finding:
    if (version := installed(distribution).get(distribution)) is None:
        return Finding(name, False, "not installed", needed_for, mend)
    return Finding(name, True, version, needed_for)
