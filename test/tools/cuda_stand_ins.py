"""Lets a PyTorch that is built for CUDA be imported without CUDA's libraries, on a machine without a GPU.

    python test/tools/cuda_stand_ins.py env/lib/python3.11/site-packages

PyPI has PyTorch for Linux with CUDA alone, and the libraries that it names take gigabytes. Without a GPU none
of their functions computes anything, but the loader wants all of them. So for each missing library an empty
one is made beside PyTorch's own, whose functions return the error of a machine without a device. Needs gcc,
nm and readelf. It is for tests in an environment of their own: never use it where PyTorch is used otherwise.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST = ("libtorch_python.so", "libtorch_cuda_linalg.so", "libtorch_global_deps.so")
"""Libraries of PyTorch that it loads, and by which the loader finds all others."""

NO_DEVICE = 100
"""What CUDA's functions return where no device is."""

Missing = dict[str, dict[str, list[str]]]
"""The functions of each missing library, by the version that its users ask for."""


def missing(lib: Path) -> Missing:
    """Return what PyTorch's folder of libraries needs, and neither has nor finds on this machine."""
    found: Missing = {}
    asked: dict[str, tuple[str, str]] = {}
    own: set[str] = set()
    todo, seen = [name for name in FIRST if (lib / name).exists()], set[str]()
    while todo:
        if (name := todo.pop()) in seen:
            continue
        seen.add(name)
        if (path := lib / name).exists():
            needs, symbols, has = _read(path)
            todo += needs
            asked.update(symbols)
            own |= has
        elif not _is_here(name):
            found[name] = {}
    here = ctypes.CDLL(None)
    for symbol, (library, version) in asked.items():
        if not found or symbol in own or hasattr(here, symbol):
            continue
        if library not in found:  # it is asked for by its name alone, so that any library may have it
            library, version = min(found), ""
        found[library].setdefault(version, []).append(symbol)
    return found


def _read(path: Path) -> tuple[list[str], dict[str, tuple[str, str]], set[str]]:
    """Return the libraries that one needs, the symbols it asks for with library and version, and its own."""
    needs = re.findall(r"NEEDED.*\[(.*?)\]", _output("readelf", "-dW", path))
    libraries: dict[str, str] = {}
    library = ""
    for line in _output("readelf", "-VW", path).splitlines():
        if named := re.search(r"File: (\S+)", line):
            library = named[1]
        elif named := re.search(r"Name: (\S+)\s+Flags", line):
            libraries.setdefault(named[1], library)
    asked: dict[str, tuple[str, str]] = {}
    own: set[str] = set()
    for kind, name in re.findall(r"^(?:[0-9a-f]+)?\s+(\w) (\S+)$", _output("nm", "-D", path), re.MULTILINE):
        symbol, _, version = name.partition("@")
        version = version.lstrip("@")
        if kind == "U":
            asked[symbol] = libraries.get(version, ""), version
        elif kind not in "wv":
            own.add(symbol)
    return needs, asked, own


def _is_here(name: str) -> bool:
    try:
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _output(*command: str | Path) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout


def stand_in(lib: Path) -> list[str]:
    """Make the libraries that are missing; returns their names. Raises CalledProcessError."""
    made = missing(lib)
    for name, versions in made.items():
        with tempfile.TemporaryDirectory(prefix="mucc-stand-in-") as folder:
            source, script = Path(folder, "source.c"), Path(folder, "versions")
            functions = (f"long {s}(void) {{ return {NO_DEVICE}; }}" for v in versions.values() for s in v)
            source.write_text("\n".join(functions) + "\n")
            named = ((v, "; ".join(symbols)) for v, symbols in versions.items() if v)
            script.write_text("".join(f"{v} {{ global: {symbols}; }};\n" for v, symbols in named))
            options = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{name}"]
            if any(versions):
                options.append(f"-Wl,--version-script={script}")
            _output("gcc", *options, "-o", lib / name, source)
    return sorted(made)


def main() -> int:
    """Make them for the PyTorch of one folder of packages."""
    if len(sys.argv) != 2 or not (lib := Path(sys.argv[1], "torch/lib")).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(stand_in(lib)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
