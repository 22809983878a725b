"""Find compilers and headers on this machine, without importing their packages.

nvcc comes from, in this order: an explicit path (`--nvcc` or MUCC_NVCC), the pip packages of the extra
`mucc[nvcc]` wherever Python finds packages, a CUDA toolkit (CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda*).
The CUTLASS headers come from MUCC_CUTLASS, or the pip package nvidia-cutlass. For a host with another
processor than this machine, the compiler is TRIPLE-g++ on PATH, and the static CUDA runtime that of
MUCC_CROSS_CUDART or of the toolkit's folder for that host.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import cache

from mucc.build.toolchain.flags import HOSTS
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.files.package import INCLUDES, PACKAGE, SUPPORT

INSTALL_NVCC = "pip install 'mucc[nvcc]'"
"""The command that installs nvcc, its parts and the CUTLASS headers."""

NVCC_PLACES = "the pip packages, CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda*"

INSTALL_HOST = "apt-get install g++"

INCLUDE_FLAGS = tuple(f"-I{{mucc}}/{os.path.relpath(path, PACKAGE)}" for path in INCLUDES)
"""The include flags for mucc's own headers in the commands of jobs."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool on this machine: its path, and the setting or place where it was found.

    `path` is an executable, or an include directory for headers.
    """

    path: str
    origin: str


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The tools that a build needs: nvcc, the CUTLASS headers, the host compiler.

    `cross` is the host that libraries are for where its processor is another one than this machine's, such as
    `aarch64-linux-gnu`; empty otherwise.
    """

    nvcc: Tool
    cutlass: Tool
    host: Tool
    cross: str = ""

    @property
    def root(self) -> str:
        """The directory that holds nvcc's `bin`."""
        return root(self.nvcc)

    def tools(self) -> dict[str, str]:
        """Return the paths of the placeholders in commands of jobs; empty for missing tools."""
        cuda = self.root
        paths = {
            "nvcc": self.nvcc.path,
            "ptxas": os.path.join(cuda, "bin", "ptxas"),
            "fatbinary": os.path.join(cuda, "bin", "fatbinary"),
            "cxx": self.host.path,
            "cutlass": self.cutlass.path,
            "mucc": PACKAGE,
            "support": SUPPORT,
            "cuda": os.path.join(cuda, "include"),
            "cudart": library_directory(self.nvcc, self.cross) or "",
        }
        # Jobs run in other working directories.
        return {name: path and os.path.abspath(path) for name, path in paths.items()}

    def versions(self) -> tuple[str, str, str]:
        """Return the versions of nvcc, CUTLASS and the host compiler, by running the compilers."""
        host = host_version(self.host.path, self.cross)
        return nvcc_version(self.nvcc.path), cutlass_version(self.cutlass.path), host

    def fingerprint(self) -> tuple[str, ...]:
        """Return a fingerprint of the tools from file sizes and times, within microseconds."""
        ptxas = os.path.join(self.root, "bin", "ptxas")
        header = os.path.join(self.cutlass.path, "cutlass", "version.h")
        return tuple(_stat(p) for p in (self.nvcc.path, ptxas, header, self.host.path))


def root(nvcc: Tool) -> str:
    """Return the directory that holds nvcc's `bin`."""
    return os.path.dirname(os.path.dirname(os.path.realpath(nvcc.path)))


def library_directory(nvcc: Tool, cross: str = "") -> str | None:
    """Find the directory with libcudart_static.a: `lib64` of a toolkit, `lib` of the pip packages.

    For another host `cross` it is MUCC_CROSS_CUDART, or the folder for that host in a toolkit.
    """
    places = ["lib64", "lib", *(f"targets/{name}/lib" for name in HOSTS.values())]
    if cross:
        places = [*filter(None, [os.environ.get("MUCC_CROSS_CUDART")]), f"targets/{HOSTS[cross]}/lib"]
    for name in places:
        directory = os.path.join(root(nvcc), name)
        if os.path.exists(os.path.join(directory, "libcudart_static.a")):
            return directory
    return None


def other_host(triple: str) -> str:
    """Return a host of HOSTS where its processor is another one than this machine's.

    Empty for this machine, which an empty `triple` is too.
    """
    return "" if triple.partition("-")[0] == os.uname().machine else triple


def _stat(path: str) -> str:
    try:
        info = os.stat(path)
    except OSError:
        return f"{path} missing"
    return f"{path} {info.st_size} {info.st_mtime_ns}"


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _package_directories(*parts: str) -> list[str]:
    """Find the existing directories `<parts>` on Python's path: site-packages, PYTHONPATH and others."""
    paths = (os.path.join(os.path.abspath(p), *parts) for p in sys.path)
    return [p for p in dict.fromkeys(paths) if os.path.isdir(p)]


def find_nvcc(explicit: str | None = None) -> Tool | None:
    """Find nvcc; None without one. Raises MU5105 for an explicit path without nvcc."""
    for value, origin in ((explicit, "--nvcc"), (os.environ.get("MUCC_NVCC"), "MUCC_NVCC")):
        if value:
            path = os.path.join(value, "bin", "nvcc") if os.path.isdir(value) else value
            if os.sep not in path:
                path = shutil.which(path) or path
            if not _executable(path):
                raise DiagnosticError(
                    Diagnostic(
                        "MU5105",
                        f"{origin} says '{value}', but there is no nvcc",
                        helps=("give the path of an nvcc executable or of a CUDA toolkit",),
                    )
                )
            return Tool(path, origin)
    for directory in _package_directories("nvidia"):
        for name in sorted((n for n in os.listdir(directory) if n.startswith("cu")), reverse=True):
            if _executable(path := os.path.join(directory, name, "bin", "nvcc")):
                return Tool(path, "pip")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if (home := os.environ.get(variable)) and _executable(path := os.path.join(home, "bin", "nvcc")):
            return Tool(path, variable)
    if path := shutil.which("nvcc"):
        return Tool(path, "PATH")
    return _system_toolkit()


def _system_toolkit() -> Tool | None:
    """Find the default, or else the newest toolkit in /usr/local."""
    try:
        names = [n for n in os.listdir("/usr/local") if n == "cuda" or n.startswith("cuda-")]
    except OSError:
        return None
    names.sort(key=lambda n: (n == "cuda", [int(d) for d in re.findall(r"\d+", n)]), reverse=True)
    paths = (f"/usr/local/{name}/bin/nvcc" for name in names)
    return next((Tool(path, "CUDA toolkit") for path in paths if _executable(path)), None)


def find_cutlass() -> Tool | None:
    """Find the include directory of CUTLASS; None without one. Raises MU5105 for a wrong MUCC_CUTLASS."""
    if value := os.environ.get("MUCC_CUTLASS"):
        for path in (value, os.path.join(value, "include")):
            if os.path.exists(os.path.join(path, "cutlass", "version.h")):
                return Tool(path, "MUCC_CUTLASS")
        raise DiagnosticError(
            Diagnostic(
                "MU5105",
                f"MUCC_CUTLASS says '{value}', but there is no cutlass/version.h",
                helps=("give the path of a CUTLASS checkout or of its include directory",),
            )
        )
    for path in _package_directories("cutlass_library", "source", "include"):
        if os.path.exists(os.path.join(path, "cutlass", "version.h")):
            return Tool(path, "pip")
    return None


def find_host(cross: str = "") -> Tool | None:
    """Find the C++ compiler for this machine or another host; None without one.

    Raises MU5105 for a wrong MUCC_CXX or NVCC_CCBIN, which name the compiler for this machine.
    """
    if cross:
        path = shutil.which(f"{cross}-g++")
        return Tool(path, "PATH") if path else None
    for variable in ("MUCC_CXX", "NVCC_CCBIN"):
        if value := os.environ.get(variable):
            if path := shutil.which(value):
                return Tool(path, variable)
            raise DiagnosticError(
                Diagnostic("MU5105", f"{variable} says '{value}', but there is no such program")
            )
    path = shutil.which("g++") or shutil.which("c++")
    return Tool(path, "PATH") if path else None


MISSING = frozenset({"MU5101", "MU5102", "MU5103", "MU5196"})
"""The codes of `find_toolchain` for missing tools."""


def present_versions(nvcc: str | None = None, host: str = "") -> tuple[str | None, str | None, str | None]:
    """Return versions as `Toolchain.versions`, with None for missing tools. Raises MU5105."""
    cross = other_host(host)
    compiler, headers, found = find_nvcc(nvcc), find_cutlass(), find_host(cross)
    return (
        compiler and nvcc_version(compiler.path),
        headers and cutlass_version(headers.path),
        found and host_version(found.path, cross),
    )


def find_toolchain(nvcc: str | None = None, host: str = "") -> Toolchain:
    """Find the toolchain for this machine, or for the host `host` of HOSTS.

    Raises MU5101 to MU5103 and MU5196, one for each missing tool, and MU5197 for a missing CUDA runtime.
    """
    cross = other_host(host)
    compiler, headers, found = find_nvcc(nvcc), find_cutlass(), find_host(cross)
    if compiler and headers and found:
        if cross and library_directory(compiler, cross) is None:
            raise DiagnosticError(_no_runtime(cross))
        return Toolchain(compiler, headers, found, cross)
    missing: list[Diagnostic] = []
    if compiler is None:
        missing.append(
            Diagnostic(
                "MU5101",
                "nvcc was not found",
                notes=(f"looked at --nvcc, MUCC_NVCC, {NVCC_PLACES}",),
                helps=(INSTALL_NVCC,),
            )
        )
    if headers is None:
        missing.append(
            Diagnostic(
                "MU5102",
                "the CUTLASS headers were not found",
                notes=("looked at MUCC_CUTLASS and the pip package nvidia-cutlass",),
                helps=(INSTALL_NVCC,),
            )
        )
    if found is None and cross:
        missing.append(
            Diagnostic(
                "MU5196",
                f"there is no C++ compiler for {cross}",
                notes=(f"looked for {cross}-g++ on PATH",),
                helps=(f"{INSTALL_HOST}-{cross}",),
            )
        )
    elif found is None:
        missing.append(
            Diagnostic(
                "MU5103",
                "no host C++ compiler was found: nvcc needs one",
                notes=("looked at MUCC_CXX, NVCC_CCBIN, and g++ and c++ on PATH",),
                helps=(INSTALL_HOST,),
            )
        )
    raise DiagnosticError(missing)


def _no_runtime(cross: str) -> Diagnostic:
    platform = f"--platform manylinux2014_{cross.partition('-')[0]}"
    wheel = f"pip download --no-deps --only-binary=:all: {platform} nvidia-cuda-runtime"
    return Diagnostic(
        "MU5197",
        f"there is no CUDA runtime for {cross}: libcudart_static.a is linked into libraries",
        notes=(f"looked at MUCC_CROSS_CUDART, and at targets/{HOSTS[cross]}/lib of the CUDA toolkit",),
        helps=(f"`{wheel}`, unzip it, and set MUCC_CROSS_CUDART to the folder of libcudart_static.a in it",),
    )


@cache
def _first_output(*command: str) -> str:
    """Return the output of a command; empty if it cannot be run."""
    import subprocess

    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout


def nvcc_version(path: str) -> str:
    """Return the version of an nvcc, such as `13.0.88`; `unknown` if it cannot be run."""
    found = re.search(r"release [\d.]+, V([\d.]+)", _first_output(path, "--version"))
    return found[1] if found else "unknown"


def host_version(path: str, cross: str = "") -> str:
    """Return the version of a g++, such as `12.2.0`, with the host `cross` where it compiles for another one.

    `unknown` if it cannot be run.
    """
    version = _first_output(path, "-dumpfullversion", "-dumpversion").strip() or "unknown"
    return f"{version} for {cross}" if cross else version


def cutlass_version(include: str) -> str:
    """Return the version of CUTLASS headers, such as `4.2.0`; `unknown` if they cannot be read."""
    try:
        with open(os.path.join(include, "cutlass", "version.h"), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return "unknown"
    return ".".join(re.findall(r"#define CUTLASS_(?:MAJOR|MINOR|PATCH) (\d+)", text)) or "unknown"
