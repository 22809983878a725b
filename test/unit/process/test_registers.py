"""What a stopped process runs, read from outside: places in files, and the names of functions there."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mucc.process.pausing import pause, resume
from mucc.process.registers import BYTES, Code, Place, working
from mucc.process.symbols import Symbols

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/syscall"), reason="needs /proc")

SOURCE = """
extern "C" __attribute__((noinline)) long turn_round(volatile long *stop) {
    long n = 0;
    while (!*stop) ++n;
    return n;
}
extern "C" long behind_it(long *at, long n) {
    for (long i = 0; i < n; ++i) at[i] = at[i] * 7919 + n / (at[i] | 1) - i % (n - i);
    return at[n - 1];
}
"""

RUNS = """
import ctypes, sys, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(flush=True)
ctypes.CDLL(sys.argv[1]).turn_round(ctypes.byref(ctypes.c_long(0)))
"""


MOVES = """
import ctypes, mmap, sys
libc, library = ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
for name in ("mmap", "mremap"):
    getattr(libc, name).restype = ctypes.c_void_p
print(flush=True)
input()
with open("/proc/self/maps") as file:
    found = [line.split()[0] for line in file if sys.argv[1] in line and "x" in line.split()[1]]
start, end = (int(one, 16) for one in found[0].split("-"))
void, size = ctypes.c_void_p, ctypes.c_size_t(end - start)
there = libc.mmap(None, size, 3, 0x22, -1, ctypes.c_long(0))
ctypes.memmove(there, start, end - start)
libc.mprotect(void(there), size, 5)
assert libc.mremap(void(there), size, size, 3, void(start)) == start
library.turn_round(ctypes.byref(ctypes.c_long(0)))
"""
"""Puts a copy in the place of the library's code, and runs it."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "turns.cpp").write_text(SOURCE)
    made = folder / "turns.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", str(made), str(folder / "turns.cpp")], check=True)
    return made


def test_threads_are_in_the_functions_that_they_compute_in(library: Path):
    with subprocess.Popen([sys.executable, "-c", RUNS, str(library)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline()
            until = time.monotonic() + 20
            names: list[str] = []
            threads: list[list[Place]] = []
            while "turn_round" not in names and time.monotonic() < until:
                stopped = pause(process.pid)
                threads = working(process.pid)
                resume(stopped)
                own = [p for places in threads for p in places[:1] if p.file == str(library)]
                names = [Symbols(str(library)).name(p.offset) for p in own]
            assert names == ["turn_round"], "and the thread that sleeps is none of them"
            callers = [os.path.basename(p.file) for p in threads[0][1:]]
            assert any("ffi" in name or "python" in name for name in callers)
        finally:
            process.kill()


def test_a_copy_in_the_place_of_code_is_that_code(library: Path):
    argv = [sys.executable, "-c", MOVES, str(library)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin and process.stdout and process.stdout.readline() == "\n"
            before = Code(process.pid)
            process.stdin.write("\n")
            process.stdin.flush()
            until, now, known = time.monotonic() + 20, Place("", 0), Place("", 0)
            while Symbols(str(library)).name(known.offset) != "turn_round" and time.monotonic() < until:
                stopped = pause(process.pid)
                threads = working(process.pid), working(process.pid, before)
                resume(stopped)
                now, known = (found[0][0] if found else Place("", 0) for found in threads)
            assert known.file == str(library) and not known.code
            assert not now.file and len(now.code) == BYTES
            at = Symbols(str(library)).find(now.code)
            assert at == known.offset, "and its bytes tell where they come from"
        finally:
            process.kill()


def test_a_process_that_has_ended_is_not_told_of():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with pytest.raises(OSError):
            working(process.pid)


def test_a_function_has_its_name_from_its_first_to_its_last_byte(library: Path):
    symbols = Symbols(str(library))
    found = {symbols.name(offset) for offset in range(os.path.getsize(library))}
    assert "turn_round" in found and "" in found
    # On x86-64 it lies in the file where it lies in memory, counted from where it was loaded.
    assert ctypes.CDLL(str(library)).turn_round


def test_bytes_are_found_in_code_alone(library: Path):
    symbols, data = Symbols(str(library)), library.read_bytes()
    assert symbols.find(data[:16]) is None and data[:4] == b"\x7fELF"


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"no machine code" * 100])
def test_what_is_no_machine_code_is_refused(tmp_path: Path, data: bytes):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(ValueError):
        Symbols(str(path))
