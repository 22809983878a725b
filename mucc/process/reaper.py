"""End the compilers of a mucc process that was killed by SIGKILL.

SIGKILL leaves no time to clean up, and a compiler whose parent is gone goes on for a minute with
gigabytes of memory. PR_SET_PDEATHSIG does not help: it reaches the direct child only (not nvcc's
cicc), and asks for code between fork and exec, which makes starting a process 5 to 100 times slower
(0.6 ms become 3 ms, or 48 ms where mucc itself has 1.5 GB). So a shell sleeps at the end of a pipe,
in a session of its own: the pipe closes when mucc ends, however it ends, and the shell then kills
the process groups and removes the folders that it was told of.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Generator

from mucc.files import unfinished

SHELL = "/bin/sh"

SCRIPT = """
trap '' HUP INT QUIT TERM
groups=
folders=
without() {
  rest=
  for word in $1; do [ "$word" = "$2" ] || rest="$rest $word"; done
}
while read -r verb key path; do
  case $verb in
    watch) groups="$groups $key" ;;
    forget) without "$groups" "$key"; groups=$rest ;;
    enter) folders="$folders $key"; eval "path_$key=\\$path" ;;
    leave) without "$folders" "$key"; folders=$rest ;;
  esac
done
[ -n "$groups$folders" ] || exit 0
for group in $groups; do kill -9 "-$group"; done
for pause in 0 0.2 2; do
  sleep $pause
  for key in $folders; do
    eval "path=\\$path_$key"
    for process in /proc/[0-9]*; do
      [ "$process/cwd" -ef "$path" ] && kill -9 "${process#/proc/}"
    done
    case $pause$path in 0/*) ;; */mucc-*) rm -rf -- "$path" ;; esac
  done
done
"""
"""A process that was started, but not yet announced, is known by the folder that it works in. All is done
several times, because what was killed may be in the midst of starting a process or writing a file.
"""

pid: int | None = None
"""The process number of the shell; None if it is not running."""

_lock = threading.Lock()
_pipe: int | None = None


def watch(group: int) -> None:
    """Register a process group to be killed when this process ends."""
    _tell(f"watch {group}\n")


def forget(group: int) -> None:
    """Unregister a process group before waiting for it, after which its number may be reused."""
    _tell(f"forget {group}\n", start=False)


@contextlib.contextmanager
def temporary_folder(parent: str) -> Generator[str]:
    """Create a temporary folder, removed at the end. Raises OSError if it cannot be created.

    If this process is killed, the folder goes too, and with it any process that works in it. A forked child
    leaves the folder of its parent alone.
    """
    owner = os.getpid()
    # Announced before it exists: mkdtemp would leave a gap between the two.
    key = os.urandom(8).hex()
    path = os.path.join(os.path.abspath(parent), f"mucc-{key}")
    if "\n" not in path:
        _tell(f"enter {key} {path}\n")
    try:
        unfinished.create(path, lambda: os.mkdir(path, 0o700) or path)
        yield path
    finally:
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)
        unfinished.settled(path)
        _tell(f"leave {key}\n", start=False)


def dismiss() -> None:
    """Kill the shell, when nothing is registered any more."""
    if pid is not None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _tell(order: str, *, start: bool = True) -> None:
    """Send an order to the shell, ignoring failures: a build must not fail without this guard."""
    global _pipe
    data = order.encode("utf-8", errors="surrogateescape")
    with _lock, contextlib.suppress(OSError, NotImplementedError):
        if _pipe is not None:
            with contextlib.suppress(OSError):  # somebody killed the guard
                os.write(_pipe, data)
                return
            os.close(_pipe)
            _pipe = None
        if start:
            _pipe = _start()
            os.write(_pipe, data)


def _start() -> int:
    """Start the shell, and return the writing end of its pipe."""
    global pid
    reading, writing = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        # Not by Popen, whose objects complain when the interpreter ends before their process.
        pid = os.posix_spawn(
            SHELL,
            ["mucc-guard", "-c", f"cd /\n{SCRIPT}"],
            {"PATH": "/usr/bin:/bin"},
            file_actions=actions,
            setsid=True,
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing


def _after_fork() -> None:
    """Close the pipe in a forked child, which must neither keep it open nor use it."""
    global _pipe, _lock, pid
    _lock, pid = threading.Lock(), None
    if _pipe is not None:
        with contextlib.suppress(OSError):
            os.close(_pipe)
        _pipe = None


os.register_at_fork(after_in_child=_after_fork)
