"""The machine that runs PTX on the host: g++ compiles it once for all programs."""

from __future__ import annotations

import ctypes as ct
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.host import compiled
from bench.host.program import INCLUDE, HostError, included, library
from bench.host.ptx.text import translate
from mucc.build.toolchain import nvrtc
from mucc.compiler.emit import Parts
from mucc.files.package import INCLUDES

HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall")


def ptx_of(source: str, *, has_kernels: bool = False) -> str:
    """Compile C++ to PTX by NVRTC."""
    return nvrtc.compile_ptx(source, target="sm_90a", include=INCLUDES, has_kernels=has_kernels).ptx


class Traffic(NamedTuple):
    """What the warps of the blocks that ran asked of memory at one instruction.

    `bytes` are those that lanes name, each counted once. `sectors` of 32 bytes and
    `lines` of 128 are those of each request to global memory, added up. `cycles` is how long shared memory
    takes, and `least` how long without bank conflicts.
    """

    place: int
    name: str
    requests: int
    bytes: int
    sectors: int
    lines: int
    cycles: int
    least: int


@dataclass
class Counted:
    """What the launches of a kernel took: `instructions` are those of warps in the blocks that `ran`, and
    `sectors` what each of these blocks read of global memory, added up."""

    name: str
    launches: int
    blocks: int
    ran: int
    threads: int
    shared: int
    instructions: int
    sectors: int
    traffic: list[Traffic] = field(default_factory=list[Traffic])


class Machine:
    """The machine for PTX, with the kernels that were loaded last. Raises HostError without g++."""

    def __init__(self, folder: Path) -> None:
        self.library = ct.CDLL(str(_built(folder)))
        for door in ("ptx_load", "ptx_launch", "ptx_counted"):
            getattr(self.library, door).restype = ct.c_char_p
        self.library.ptx_seed.argtypes = [ct.c_uint64]
        self.library.ptx_executed.restype = ct.c_uint64

    def load(self, form: int, ptx: str) -> None:
        """Load the kernels of a module. Raises AssertionError, which names what is not known."""
        self.library.ptx_use(form)
        wrong = self.library.ptx_load(translate(ptx).encode())
        assert not wrong, wrong.decode()

    def report(self, ptx: str, kernel: str, threads: int) -> str:
        """Run one block of a kernel whose parameter is a pointer to 256 bytes; returns what is wrong."""
        if wrong := self.library.ptx_load(translate(ptx).encode()):
            return wrong.decode()
        memory = (ct.c_uint64 * 32)()
        pointer = ct.c_void_p(ct.addressof(memory))
        given = (ct.c_void_p * 1)(ct.addressof(pointer))
        wrong = self.library.ptx_launch(kernel.encode(), (ct.c_uint * 3)(1, 1, 1), threads, 1, 0, given)
        return (wrong or b"").decode()

    def launches(self, kernel: str) -> int:
        """Return how often a kernel was launched, in all forms."""
        return self.library.ptx_launches(kernel.encode())

    def count(self, blocks: int) -> None:
        """Count what launches take from now on, of which at most so many blocks run; 0 ends that."""
        self.library.ptx_count(blocks)

    def counted(self) -> list[Counted]:
        """Return what was counted, by kernel."""
        found: list[Counted] = []
        for line in self.library.ptx_counted().decode().splitlines():
            kind, name, *words = line.split()
            if kind == "kernel":
                launches, blocks, ran, threads, shared, instructions, sectors = map(int, words)
                found.append(Counted(name, launches, blocks, ran, threads, shared, instructions, sectors))
            else:
                operation, *numbers = words
                found[-1].traffic.append(Traffic(int(name), operation, *map(int, numbers)))
        return found


def _built(folder: Path) -> Path:
    """Build the machine to a folder, or copy what an earlier run built of the same files."""
    if not (gxx := shutil.which("g++")):
        raise HostError("there is no g++")
    source = (HERE / "ptx_host.cpp").read_text(encoding="utf-8")

    def build(made: Path) -> None:
        command = [gxx, *FLAGS, str(HERE / "ptx_host.cpp"), "-o", str(made)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise HostError(built.stderr[:4000])

    headers = compiled.included(source, (HERE, INCLUDE))
    return compiled.library((compiled.version(gxx), FLAGS, source), folder / "ptx.so", build, headers)


def host_library(parts: Parts, folder: Path) -> ct.CDLL:
    """Compile the host code of a program, without its kernels. Raises HostError."""
    assert not parts.skeletons, "kernels of CUTLASS have no PTX here"
    lines = ['#include "prelude.h"', *included("".join(image.source for image in parts.images))]
    lines += [
        f'extern "C" unsigned char const {symbol}[] = {{0}};'
        for image in parts.images
        for symbol in image.symbols
    ]
    if not (gxx := shutil.which("g++")):
        raise HostError("there is no g++")
    library(gxx, "\n".join([*lines, parts.program, ""]), folder / "k.so")
    loaded = ct.CDLL(str(folder / "k.so"))
    loaded.mucc_last_error.restype = ct.c_char_p
    return loaded
