"""Load a kernel library."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mucc.files.process_lock import ProcessLock
from mucc.library.errors import MuccRuntimeError
from mucc.library.manifest_json import ManifestJson
from mucc.library.signature import Manifest
from mucc.runtime.elf import read_manifest
from mucc.runtime.kernel import Kernel


class Module:
    """A loaded kernel library: one attribute per kernel.

    `manifest` is the library's description as a dictionary, `info` the same with types, `kernels` the
    kernels in order, `path` where it was loaded from. `module["name"]` also reaches a kernel whose name one
    of these hides.
    """

    def __init__(self, path: Path, info: Manifest, ffi: Any):
        self.path = path
        self.info = info
        self._ffi = ffi  # keeps the library loaded
        functions = {k.name: getattr(ffi, k.ffi) for k in info.kernels}
        if os.environ.get("MUCC_NVTX"):
            from mucc.runtime.launches import annotated

            functions = annotated(path, functions)
        self._kernels = {
            k.name: Kernel(
                k,
                functions[k.name],
                getattr(ffi, f"{k.ffi}_workspace"),
                info.digest,
                getattr(ffi, f"{k.ffi}_entry") if k.entries else None,
            )
            for k in info.kernels
        }
        for kernel in self._kernels.values():
            if not hasattr(self, kernel.name):
                setattr(self, kernel.name, kernel)

    @property
    def manifest(self) -> ManifestJson:
        """The manifest, as parsed from JSON."""
        return self.info.json

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels in the order of the source."""
        return tuple(self._kernels.values())

    def __getitem__(self, name: str) -> Kernel:
        if (kernel := self._kernels.get(name)) is None:
            raise MuccRuntimeError(
                "MU6037", f"'{self.path}' has no kernel '{name}', it has {', '.join(self._kernels)}"
            )
        return kernel

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except MuccRuntimeError as error:
            # What getattr, hasattr and copy expect of a missing attribute.
            raise AttributeError(str(error)) from None

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self._kernels.values())

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._kernels})

    def __repr__(self) -> str:
        lines = [
            f"<mucc.Module {str(self.path)!r} for {self.info.target}",
            *(f"    {k.info.signature}" for k in self),
        ]
        return "\n".join(lines) + ">"


_loaded: dict[str, tuple[int, int, int]] = {}
_lock = ProcessLock()


def load(path: str | os.PathLike[str]) -> Module:
    """Load a kernel library that `mucc -o kernel.so` made.

    The file is checked before any code in it runs. Raises `MuccRuntimeError` MU6030 to MU6036.
    """
    found = Path(path)
    if "\0" not in str(path):  # such a name has no place; reading it says so
        found = found.resolve()
    info = read_manifest(found)
    tvm_ffi: Any = importlib.import_module("tvm_ffi")

    try:
        with _lock.held():
            ffi = _open(found, tvm_ffi.load_module)
        return Module(found, info, ffi)
    except Exception as error:
        raise MuccRuntimeError("MU6036", f"cannot load '{found}': {error}") from error


def _open(path: Path, open_library: Any) -> Any:
    """Open the library. Of a file that was built anew since it was last opened, the system's loader would
    hand out the old code, since it goes by name: such a file is opened through a copy."""
    stat = path.stat()
    identity = (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
    if _loaded.setdefault(str(path), identity) == identity:
        return open_library(str(path))
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        return open_library(shutil.copy(path, Path(folder) / path.name))
