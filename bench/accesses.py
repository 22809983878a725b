"""Count what kernels ask of memory, from their PTX, without a GPU.

    python -m bench.accesses FILE.mcu ... [--dims M=4096,N=4096] [--blocks 16] [--sources]
    python -m bench.accesses --layers REGEX

`--layers` takes the forms of bench.layers. Some blocks of each launch run on the host, at the real extents,
and a line says what all of them take of one H100, in microseconds: `issue` of instructions of warps, `l1` of
lines of 128 bytes, `shared` of shared memory with bank conflicts, `l2` of the sectors that a block reads and
its warps write, and `dram` of all tensors at the bandwidth that a copy reaches. The largest bounds the
kernel. `used` is the share of the bytes in touched sectors that lanes ask for, and `ways` how many times as
long shared memory takes as without conflicts; `--sources` lists the instructions where these are bad. Latency
is not seen, nor what the caches keep for later. Products by CUTLASS, wgmma or mma.sync have no PTX that the
host knows, and blocks that wait for each other do not end.
"""

from __future__ import annotations

import argparse
import ctypes as ct
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import run_main
from bench.host.abi import CPU, CUDA, DTYPES, Device, DType, Tensor
from bench.host.program import HostError
from bench.host.ptx.machine import Counted, Machine, Traffic, host_library, ptx_of
from bench.host.ptx.text import PtxError
from mucc.compiler.driver import compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.library.signature import Arg, KernelInfo, Manifest
from mucc.target import get_target
from mucc.target.facts import Device as Card

TARGET, CARD = "sm_90a", "h100_sxm"
COPIED = 0.91
"""The share of the datasheet's bandwidth that a copy reaches: 3.05 of 3.35 TB/s."""

SECTOR = 32
SCHEDULERS = 4
ALIGNMENT = 512
POOR = 0.6
"""The share of touched bytes below which an instruction is listed."""


@dataclass(frozen=True)
class Rates:
    """Rates of all multiprocessors of a card together, per microsecond."""

    instructions: float
    l1_lines: float
    shared_cycles: float
    l2_bytes: float
    dram_bytes: float

    @classmethod
    def of_default_card(cls) -> Rates:
        card, sm = _card(), get_target(TARGET).facts.multiprocessor
        cycles = card.clock(sm) * 1e-6 * card.multiprocessors
        bandwidth = COPIED * card.datasheet["dram_bandwidth"] * 1e-6
        return cls(SCHEDULERS * cycles, cycles, cycles, sm.l2_bytes_per_cycle * cycles, bandwidth)


def _card() -> Card:
    return next(d for d in get_target(TARGET).facts.devices if d.key == CARD)


@dataclass(frozen=True)
class Cost:
    """Microseconds that a kernel takes of parts of the card, and how well it uses memory."""

    kernel: str
    threads: int
    blocks: int
    issue: float
    l1: float
    shared: float
    l2: float
    used: float
    ways: float
    poor: tuple[Traffic, ...]

    @classmethod
    def of(cls, counted: Counted, rates: Rates) -> Cost:
        scale = counted.blocks / max(counted.ran, 1)
        traffic = counted.traffic
        sectors = sum(t.sectors for t in traffic)
        least = sum(t.least for t in traffic)
        cycles = sum(t.cycles for t in traffic)
        named = sum(t.bytes for t in traffic if t.sectors)
        # Each store goes to L2, whatever of its sectors others write.
        written = sum(t.sectors for t in traffic if not t.name.removeprefix("yield.").startswith("ld"))
        return cls(
            counted.name,
            counted.threads,
            counted.blocks,
            scale * counted.instructions / rates.instructions,
            scale * sum(t.lines for t in traffic) / rates.l1_lines,
            scale * cycles / rates.shared_cycles,
            scale * (counted.sectors + written) * SECTOR / rates.l2_bytes,
            named / (SECTOR * sectors) if sectors else 1.0,
            cycles / least if least else 1.0,
            tuple(t for t in traffic if _is_poor(t, sectors, cycles)),
        )


def _is_poor(one: Traffic, sectors: int, cycles: int) -> bool:
    """Whether an instruction wastes a tenth of what the kernel takes of global or of shared memory."""
    wasted = one.sectors - one.bytes / SECTOR
    return (one.sectors > 0 and one.bytes < POOR * SECTOR * one.sectors and 10 * wasted > sectors) or (
        one.least > 0 and one.cycles > 1.5 * one.least and 10 * (one.cycles - one.least) > cycles
    )


class _Tensor:
    """A tensor of zeros in memory that the system gives when it is touched."""

    def __init__(self, arg: Arg, extents: Sequence[int]):
        code, bits = DTYPES[arg.dtype]
        self.bytes = int(np.prod(extents, dtype=np.int64)) * bits // 8
        self._memory = np.zeros(self.bytes + ALIGNMENT, np.uint8)
        address = -(-self._memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        n = len(extents)
        self._shape = (ct.c_int64 * n)(*extents)
        self.given = Tensor(address, Device(CUDA, 0), n, DType(code, bits, 1), self._shape, None, 0)


class _Number:
    def __init__(self) -> None:
        self.bytes = 0
        self._number = ct.c_float(1.0)
        self.given = Tensor(ct.addressof(self._number), Device(CPU, 0), 0, DType(2, 32, 1), None, None, 0)


def costs(text: str, dims: dict[str, int], blocks: int, folder: Path) -> tuple[list[Cost], float]:
    """Return the costs of the kernels of a program's first entry, and the microseconds of compulsory bytes.

    Raises DiagnosticError, PtxError, HostError, or ValueError where a kernel cannot run on the host.
    """
    compilation = compile_text(Source("k.mcu", text))
    parts = compilation.parts()
    if parts.skeletons:
        raise ValueError("it has a product of CUTLASS")
    loaded: Any = host_library(parts, folder)
    machine = Machine(folder)
    machine.library.ptx_clear()
    for image in parts.images:
        machine.load(0, ptx_of(image.source, has_kernels=True))
    loaded.on_host_runner(machine.library.ptx_launch)
    loaded.on_host_sm_count(_card().multiprocessors)
    info: KernelInfo = Manifest.parse(compilation.manifest).kernels[0]
    try:
        tensors = [
            _Number() if arg.role == "scalar" else _Tensor(arg, arg.extents(dims))
            for arg in (*info.inputs, *info.outputs)
        ]
    except KeyError as missing:
        raise ValueError(f"--dims has no extent of {missing.args[0]}") from None
    call = getattr(loaded, f"mucc_{info.name}")
    call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
    machine.count(blocks)
    try:
        given = (Tensor * len(tensors))(*(t.given for t in tensors))
        if call(given, len(tensors), None, 0, None):
            raise ValueError(loaded.mucc_last_error().decode())
        rates = Rates.of_default_card()
        found = [Cost.of(c, rates) for c in machine.counted()]
        return found, sum(t.bytes for t in tensors) / rates.dram_bytes
    finally:
        machine.count(0)


HEAD = (
    f"{'program and kernel':52} {'blocks':>8} {'issue':>7} {'l1':>7} {'shared':>7} {'l2':>7} {'dram':>7}"
    f" {'used':>5} {'ways':>5}"
)


def lines(name: str, found: Sequence[Cost], dram: float, *, sources: bool) -> Iterator[str]:
    """Yield a line for each kernel; `dram` is that of the whole program."""
    for cost in found:
        yield (
            f"{f'{name} {cost.kernel}'[:52]:52} {cost.blocks:8} {cost.issue:7.1f} {cost.l1:7.1f}"
            f" {cost.shared:7.1f} {cost.l2:7.1f} {dram:7.1f} {cost.used:5.2f} {cost.ways:5.2f}"
        )
        for one in cost.poor if sources else ():
            what = (
                f"{one.sectors / one.requests:.1f} sectors for {one.bytes / one.requests:.0f} bytes"
                if one.sectors
                else f"{one.cycles / one.requests:.1f} cycles instead of {one.least / one.requests:.1f}"
            )
            yield f"    {one.place:5} {one.name:16} {one.requests:8} requests, {what} each"


def _dims(text: str) -> dict[str, int]:
    pairs = re.findall(r"(\w+)=(\d+)", text)
    return {name: int(extent) for name, extent in pairs}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.mcu")
    parser.add_argument("--layers", metavar="REGEX")
    parser.add_argument("--dims", type=_dims, default={}, metavar="M=4096,...")
    parser.add_argument("--blocks", type=int, default=16, metavar="N")
    parser.add_argument("--sources", action="store_true")
    options = parser.parse_args()
    if not options.files and options.layers is None:
        parser.error("give programs, or --layers")
    programs = [(str(path), path.read_text(encoding="utf-8")) for path in options.files]
    if options.layers is not None:
        from bench.layers.__main__ import FORMS

        programs += [(form.key, form.text) for form in FORMS if re.search(options.layers, form.key)]
    print(HEAD)
    failed = 0
    for name, text in programs:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found, dram = costs(text, options.dims, options.blocks, Path(folder))
            except (DiagnosticError, PtxError, HostError, AssertionError, ValueError) as error:
                failed += 1
                print(f"{name}: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
        for line in lines(name, found, dram, sources=options.sources):
            print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main)
