"""Give a process namespaces of its own: no network, no other process in sight, a file system to read.

This does for a fork of a process what bubblewrap does for a program that it starts.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress

from mucc.process.sandbox.places import SCRATCH, TERMINALS, Places

NEW_USER, NEW_MOUNTS, NEW_PROCESSES = 0x10000000, 0x00020000, 0x20000000
NEW_NETWORK, NEW_IPC, NEW_HOSTNAME = 0x40000000, 0x08000000, 0x04000000
ALL = NEW_USER | NEW_MOUNTS | NEW_PROCESSES | NEW_NETWORK | NEW_IPC | NEW_HOSTNAME

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18

MOUNT_SETATTR, AT_RECURSIVE, ATTR_RDONLY, ATTR_NOSUID = 442, 0x8000, 1, 2
"""The system call that makes a tree of mounts read-only, since Linux 5.12."""

PR_SET_DUMPABLE = 4

SCRATCH_BYTES = 256 << 20
"""The most that each folder of scratch files holds."""

FILES = 1 << 16
"""The most files and folders in each file system in memory: each takes memory that counts as nobody's."""

LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
"""Links that programs expect in `/dev`."""

SHARED = "/dev/shm"
"""Where memory with a name lies that processes share."""

OF_THE_SYSTEM = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
"""Places in `/proc` that whoever is root changes the system by, without any capability."""


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_ns"))


def leave_namespaces() -> None:
    """Move this process, which has one thread, into new namespaces; children come into that of processes.

    Raises OSError where the system forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or /proc/self belongs to root
    _checked(libc.unshare(ALL), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


class Begun:
    """A file system in which folders are hidden but for some kept paths; `open` still finds hidden files."""

    def __init__(self, hidden: Iterable[str], kept: Iterable[str]):
        """Hide the folders, and mount a `/proc` and terminals of its own. Raises OSError."""
        self.kept = frozenset(kept)
        self._hidden = {path: os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in hidden}
        kept_ones = {path: self.open(path) for path in self.kept}
        _mount("none", "/", "", MS_REC | MS_PRIVATE)
        _read_only("/", AT_RECURSIVE)
        for path in self._hidden:
            _memory(path, SCRATCH_BYTES, 755)
        for path, descriptor in kept_ones.items():
            _bind(descriptor, path)
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        for path in filter(os.path.exists, OF_THE_SYSTEM):
            _mount(path, path, "", MS_BIND | MS_REC)
            _read_only(path, AT_RECURSIVE)
        self._add_to_devices()

    def _add_to_devices(self) -> None:
        """Add to `/dev`, where it was hidden, what is no device of the machine."""
        if "/dev" not in self._hidden:
            return
        os.mkdir(SHARED)
        _memory(SHARED, SCRATCH_BYTES, 1777)
        os.mkdir(TERMINALS)
        _mount("devpts", TERMINALS, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=600")
        for name, target in LINKS.items():
            os.symlink(target, f"/dev/{name}")

    def open(self, path: str, flags: int = os.O_PATH) -> int:
        """Open a path, hidden or not; returns a descriptor. Raises OSError."""
        for folder, descriptor in self._hidden.items():
            if path == folder or path.startswith(f"{folder}/"):
                within = os.path.relpath(path, folder)
                return os.open(within, flags | os.O_CLOEXEC, dir_fd=descriptor)
        return os.open(path, flags | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the descriptors of hidden folders."""
        for descriptor in self._hidden.values():
            os.close(descriptor)
        self._hidden.clear()


def lay_out(places: Places, begun: Begun | None = None) -> int:
    """Build the file system of a process in new namespaces, or complete the one that was `begun`.

    All is read-only but the scratch folders and `places.folder`, a file system in memory that starts with a
    copy of what lies there; returns a descriptor of it. Of hidden folders only what is kept is seen. Raises
    OSError.
    """
    begun = begun or Begun(places.hidden, places.kept)
    there = begun.open(places.folder, os.O_RDONLY | os.O_DIRECTORY)
    later = [path for path in places.kept if path not in begun.kept]
    kept = {path: begun.open(path) for path in (*later, *places.open)}
    begun.close()
    for path, descriptor in kept.items():
        _bind(descriptor, path)
    for path in places.hidden:
        if path not in SCRATCH:
            _read_only(path, 0)
    for path in places.open:
        _set_attributes(path, 0, clear=ATTR_RDONLY)
    os.makedirs(places.folder, exist_ok=True)
    _memory(places.folder, places.quota, 700)
    shutil.copytree(f"/proc/self/fd/{there}", places.folder, symlinks=True, dirs_exist_ok=True)
    os.close(there)
    os.chdir(places.folder)
    return os.open(places.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _memory(path: str, size: int, mode: int) -> None:
    """Mount a file system in memory of so many bytes; the mode has octal digits."""
    options = f"size={size},nr_inodes={FILES},mode={mode}"
    _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options)


def _bind(descriptor: int, path: str) -> None:
    """Show a file or folder at its place within a hidden folder."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    _mount(f"/proc/self/fd/{descriptor}", path, "", MS_BIND | MS_REC)
    os.close(descriptor)


def _read_only(path: str, flags: int) -> None:
    _set_attributes(path, flags, ATTR_RDONLY | ATTR_NOSUID)


def _set_attributes(path: str, flags: int, made: int = 0, clear: int = 0) -> None:
    """Change the attributes of a mount, and of those beneath it if the flags say so."""
    libc = ctypes.CDLL(None, use_errno=True)
    wanted = _Attributes(made, clear, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    found = libc.syscall(
        ctypes.c_long(MOUNT_SETATTR),
        ctypes.c_int(-100),
        os.fsencode(path),
        ctypes.c_uint(flags),
        ctypes.byref(wanted),
        size,
    )
    _checked(found, f"mount_setattr {path}")


def _mount(source: str, path: str, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [os.fsencode(source), os.fsencode(path), kind.encode() or None]
    found = libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None)
    _checked(found, f"mount {path}")


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
