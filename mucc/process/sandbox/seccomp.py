"""Refuse system calls that reach the network, other processes, or the kernel, by a filter of seccomp."""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2

LOAD, EQUAL, ABOVE, ANY, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions: load a word, and skip if it equals, is not below, shares a bit with a number; return."""

ALLOW, REFUSE = 0x7FFF0000, 0x00050000
"""Answers of the filter; a refusal holds the number of an error."""

NUMBER, ARCHITECTURE, FIRST_ARGUMENT, THIRD_ARGUMENT = 0, 4, 16, 32
"""Where the filter finds what is called."""

NEW_NAMESPACES = 0x7E020080
"""Flags of `clone` that make namespaces."""

NO_FAMILY = 0xFFFFFFFF
"""What no family of sockets is."""

X32 = 0x40000000
"""The bit of calls by the x32 interface, which has numbers of its own."""

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

NAMES = {
    "x86_64": {
        "shmget": 29,
        "semget": 64,
        "msgget": 68,
        "mq_open": 240,
        "socket": 41,
        "setsockopt": 54,
        "setpriority": 141,
        "prlimit64": 302,
        "io_setup": 206,
        "clock_adjtime": 305,
        "clone": 56,
        "clone3": 435,
        "ptrace": 101,
        "syslog": 103,
        "personality": 135,
        "pivot_root": 155,
        "adjtimex": 159,
        "chroot": 161,
        "acct": 163,
        "settimeofday": 164,
        "mount": 165,
        "umount2": 166,
        "swapon": 167,
        "swapoff": 168,
        "reboot": 169,
        "sethostname": 170,
        "setdomainname": 171,
        "iopl": 172,
        "ioperm": 173,
        "init_module": 175,
        "delete_module": 176,
        "quotactl": 179,
        "clock_settime": 227,
        "kexec_load": 246,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "unshare": 272,
        "perf_event_open": 298,
        "open_by_handle_at": 304,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "finit_module": 313,
        "kexec_file_load": 320,
        "bpf": 321,
        "userfaultfd": 323,
    },
    "aarch64": {
        "shmget": 194,
        "semget": 190,
        "msgget": 186,
        "mq_open": 180,
        "socket": 198,
        "setsockopt": 208,
        "setpriority": 140,
        "prlimit64": 261,
        "io_setup": 0,
        "clock_adjtime": 266,
        "clone": 220,
        "clone3": 435,
        "ptrace": 117,
        "syslog": 116,
        "personality": 92,
        "pivot_root": 41,
        "adjtimex": 171,
        "chroot": 51,
        "acct": 89,
        "settimeofday": 170,
        "mount": 40,
        "umount2": 39,
        "swapon": 224,
        "swapoff": 225,
        "reboot": 142,
        "sethostname": 161,
        "setdomainname": 162,
        "init_module": 105,
        "delete_module": 106,
        "quotactl": 60,
        "clock_settime": 112,
        "kexec_load": 104,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "unshare": 97,
        "perf_event_open": 241,
        "open_by_handle_at": 265,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "finit_module": 273,
        "kexec_file_load": 294,
        "bpf": 280,
        "userfaultfd": 282,
    },
}
"""Numbers of system calls on each architecture, from the kernel's tables."""

SINCE_2019 = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 440, 442, 443, 448)
"""Calls with one number everywhere: io_uring, the making and moving of mounts, pidfd_getfd, process_madvise,
quotactl_fd, process_mrelease."""

INSPECTED = ("socket", "setsockopt", "setpriority", "prlimit64", "clone", "clone3")
"""Calls that are refused for some arguments, or by an error of their own."""

Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def program(machine: str, local: bool = True) -> list[Instruction] | None:
    """Return the filter for an architecture: code, instructions to skip if so and if not, number. None for
    unknown ones.

    Sockets of other families than AF_UNIX, new namespaces and the calls of `NAMES` are refused. `clone3` says
    that it is not there, because a filter cannot read its flags; C libraries then call `clone`. No socket may
    hold more than usual, as that is no process's memory (`tree.held`). No process sets limits of others, or
    priorities of groups and users: the judge may be among them. Without `local` all sockets but pairs
    are refused: services of the machine have names in the file system.
    """
    if machine not in NAMES:
        return None
    numbers = NAMES[machine]
    refused = REFUSE | errno.EPERM
    out: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT[machine]),
        (RETURN, 0, 0, refused),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        out += [(ABOVE, 0, 1, X32), (RETURN, 0, 0, refused)]
    for number in (*(n for name, n in numbers.items() if name not in INSPECTED), *SINCE_2019):
        out += [(EQUAL, 0, 1, number), (RETURN, 0, 0, refused)]
    out += [(EQUAL, 0, 1, numbers["clone3"]), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    family = int(socket.AF_UNIX) if local else NO_FAMILY
    allowed, not_allowed = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, refused)
    out += [(EQUAL, 0, 4, numbers["socket"]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    out += [(EQUAL, 0, 1, family), allowed, not_allowed]
    for name in ("prlimit64", "setpriority"):  # 0 is the process itself, and any one process
        out += [(EQUAL, 0, 4, numbers[name]), (LOAD, 0, 0, FIRST_ARGUMENT)]
        out += [(EQUAL, 0, 1, 0), allowed, not_allowed]
    out += [(EQUAL, 0, 4, numbers["setsockopt"]), (LOAD, 0, 0, THIRD_ARGUMENT)]
    out += [(EQUAL, 1, 0, socket.SO_SNDBUF), allowed, not_allowed]
    out += [(EQUAL, 0, 2, numbers["clone"]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    out += [(ANY, 1, 0, NEW_NAMESPACES), allowed, not_allowed]
    return out


def restrict(local: bool = True) -> bool:
    """Install the filter for this process and all that it starts; False where the kernel cannot."""
    found = program(platform.machine(), local)
    if found is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in found)
    compiled = _Program(len(found), code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(compiled), 0, 0) == 0
