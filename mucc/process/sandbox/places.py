"""What a confined process may read and write, as all layers see it."""

from __future__ import annotations

import os
import pwd
import re
import site
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

PRIVATE = ("/home", "/root", "/tmp", "/var/tmp", "/run", "/dev", "/mnt", "/media", "/srv")
"""Folders with files of users, of other processes, sockets of services, and devices of the machine."""

SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
"""Those of them that programs expect to be able to write."""

TOOLS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_HOME", "CUDA_PATH", "MUCC_NVCC", "CPATH")
"""Variables that name folders of programs and libraries."""

DRIVERS = ("/run/nvidia-persistenced", "/run/nvidia-fabricmanager")
"""Sockets that the driver of a GPU looks for."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dxg")
"""Devices that a process may use. Others are disks, consoles, and terminals of users, which root may open
without any capability."""

GPUS = re.compile(r"nvidia")
"""Matches the names of further devices that it may use: those of a GPU."""

TERMINALS = "/dev/pts"
"""Terminals, those of namespaces of their own: whoever opens one of a user reads what is typed there."""

OWN = "/proc/self"
"""What a process may write in `/proc`; whoever is root may set variables of the kernel elsewhere in it."""


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a confined process: it writes in `folder`, and of `hidden` folders it sees only `kept`.

    `quota` is in bytes, of `folder`. `open` are folders of the machine that it may write as well.
    """

    folder: str
    hidden: tuple[str, ...]
    kept: tuple[str, ...]
    quota: int
    open: tuple[str, ...] = ()

    def readable(self) -> list[str]:
        """Return the largest trees outside of hidden folders, and what is kept of these."""
        return [*_outside("/", self.hidden), *self.kept, *self.open, self.folder]

    def writable(self, scratch: bool) -> list[str]:
        """Return the trees that may be written, `scratch` folders among them where they are private."""
        devices = [path for path in self.kept if _within(path, "/dev")]
        return [self.folder, *self.open, *((*SCRATCH, TERMINALS) if scratch else ()), *devices, OWN]


@dataclass(frozen=True, slots=True)
class Common:
    """The places that all confined processes share: users' folders, hidden folders, and those of programs."""

    homes: tuple[str, ...]
    hidden: frozenset[str]
    programs: frozenset[str]


def common() -> Common:
    """Find the places that all confined processes share."""
    homes = _homes()
    hidden = {os.path.realpath(path) for path in (*PRIVATE, *homes) if os.path.isdir(path)}
    hidden = {path for path in hidden if path != "/" and hidden.isdisjoint(_above(path))}
    programs = _existing((*_programs(), *_devices(), *DRIVERS))
    return Common(tuple(homes), frozenset(hidden), frozenset(programs))


def places(
    folder: str,
    quota: int,
    extra: Sequence[str] = (),
    writable: Sequence[str] = (),
    known: Common | None = None,
) -> Places:
    """Find the places of a process that works in `folder`.

    It may read the files and folders of `extra`, and write in those of `writable`. `known` is an earlier
    result of `common`.
    """
    known = known or common()
    kept, hidden = known.programs.union(_existing(extra)), known.hidden
    # Where a hidden folder as a whole would be kept, the programs that were named lie beside private files.
    whole = {path for home in known.homes for path in (home, *_above(home))}
    lies_within = _Beneath(hidden)
    needed = {path for path in kept if path not in whole and (path in hidden or lies_within(path))}
    nested = _Beneath(needed)
    needed = {path for path in needed if not nested(path)}
    shared = tuple(os.path.realpath(path) for path in writable if os.path.isdir(path))
    return Places(os.path.realpath(folder), tuple(sorted(hidden)), tuple(sorted(needed)), quota, shared)


class _Beneath:
    """Whether paths lie beneath some folders, with one look-up for each folder of the paths."""

    def __init__(self, folders: Iterable[str]):
        self._folders = frozenset(folders)
        self._found: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        folder = os.path.dirname(path)
        if folder not in self._found:
            self._found[folder] = not self._folders.isdisjoint(_above(path))
        return self._found[folder]


def _existing(paths: Iterable[str]) -> Iterator[str]:
    """Yield those of the paths that exist, without links; each folder is looked up once."""
    folders: dict[str, str] = {}
    for path in paths:
        head, tail = os.path.split(path)
        if tail in ("", os.curdir, os.pardir):
            head, tail = os.path.split(os.path.realpath(path))
        if head not in folders:
            folders[head] = os.path.realpath(head)
        found = os.path.join(folders[head], tail)
        with suppress(OSError):
            if stat.S_ISLNK(os.lstat(found).st_mode):
                found = os.path.realpath(found, strict=True)
            yield found


def _homes() -> list[str]:
    """Return the home folders of the user, by the variable and by the list of users."""
    found = [os.path.expanduser("~")]
    with suppress(KeyError):
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    return [os.path.realpath(home) for home in found if os.path.isabs(home) and home != "/"]


def _programs() -> list[str]:
    """Return where Python, its packages, this program and its tools lie."""
    named = [part for name in TOOLS for part in os.environ.get(name, "").split(os.pathsep)]
    python = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), *sys.path]
    return [path for path in (*python, site.getusersitepackages(), *named) if os.path.isabs(path)]


def _devices() -> list[str]:
    """Return the devices that a process may use, there or not."""
    found: list[str] = []
    with suppress(OSError):
        found = [f"/dev/{name}" for name in os.listdir("/dev") if GPUS.match(name)]
    return [*DEVICES, *found]


def _outside(root: str, hidden: Iterable[str]) -> list[str]:
    """Return the largest trees beneath `root` that hold nothing hidden."""
    if root in hidden:
        return []
    if not any(_within(path, root) for path in hidden):
        return [root]
    found: list[str] = []
    with suppress(OSError):
        for name in sorted(os.listdir(root)):
            path = os.path.join(root, name)
            if not os.path.islink(path):
                found += _outside(path, hidden)
    return found


def _above(path: str) -> Iterator[str]:
    """Yield the folders that an absolute path lies in, the innermost first."""
    while (folder := os.path.dirname(path)) != path:
        yield folder
        path = folder


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
