"""Contractions around CUTLASS 2.x mainloops: what fits a target, and what is worth trying.

The kernel is `mucc/multistage.cuh`, for every target from Ampere on: a block computes one tile, its warps
load operands through cp.async (or, where rows are aligned to 2 bytes only, through registers) and multiply
with mma.sync, or for f32 without tensor cores. Here is what follows from a tile: warps and shared memory.
Sources, below `cutlass/gemm/threadblock/`: `default_mma_core_{sm80,sm75,simt}.h`, `mma_base.h`.
"""

from __future__ import annotations

from typing import NamedTuple

from mucc.kernels.gemm.scheduling.config import GemmConfig, Problem, operand_bytes

MAINLOOP = "multistage"

COMPUTES = ("bf16", "f16", "tf32", "tf32x3", "f32")

SIDES = (32, 64, 128, 256)
"""What M and N of a tile may be."""

WARP_TILES = ((64, 64), (64, 32), (32, 64), (32, 32))
"""Tiles of a warp, the largest first."""

SMALLER = {"tf32x3": 2048, "f32": 2048}
"""The area of a warp's tile that suits a format, where it is less than 64x64: splitting operands takes
registers, and without tensor cores more warps hide more."""

INSTRUCTION_K = {"bf16": 16, "f16": 16, "tf32": 8, "tf32x3": 8, "f32": 1}
"""K of one multiplication: `mma.sync.m16n8k16` and `m16n8k8`, or none."""


def warp_tile(compute: str, tile: tuple[int, int, int]) -> tuple[int, int] | None:
    """Rows and columns of a warp: those that make four to eight warps of a tile, or else two.

    Larger ones read less from shared memory, up to the area that suits the format. None where none fit.
    """
    m, n, _ = tile
    fitting = [(w, h) for w, h in WARP_TILES if m % w == 0 and n % h == 0]
    suited = SMALLER.get(compute, 4096)

    def warps(warp: tuple[int, int]) -> int:
        return (m // warp[0]) * (n // warp[1])

    small = [warp for warp in fitting if warp[0] * warp[1] <= suited]
    large = [warp for warp in fitting if warp not in small]
    for least in (4, 2):
        for warp in (*small, *reversed(large)):
            if least <= warps(warp) <= 8:
                return warp
    return None


def depths(compute: str) -> tuple[int, ...]:
    """Return the possible K of a tile: 64 or 128 bytes; for f32 without tensor cores 8 elements."""
    if compute == "f32":
        return (8,)
    size = operand_bytes(compute)
    return 64 // size, 128 // size


def least_side(config: GemmConfig, k_major: bool) -> int:
    """Return the least M or N of a tile: 128 bytes for tensor cores if rows of the operand lie along it."""
    problem = config.problem
    if k_major or problem.compute == "f32":
        return SIDES[0]
    return max(SIDES[0], 128 // problem.element_bytes)


MOST_COPIES = 64
"""Copies of an operand that a thread can have in a stage: it keeps a bit for each, in four words of 16."""


def copies(config: GemmConfig) -> int:
    """How many copies of an operand a thread has in a stage, of the one that has more."""
    problem = config.problem
    warp = warp_tile(problem.compute, config.schedule.tile)
    assert warp is not None
    m, n, k = config.schedule.tile
    threads = 32 * (m // warp[0]) * (n // warp[1])
    single = problem.compute == "f32"
    element = problem.element_bytes
    bytes = [element if single else operand.granule for operand in problem.operands]
    return max(side * k * element // size for side, size in zip((m, n), bytes, strict=True)) // threads


def through_registers(config: GemmConfig) -> bool:
    """Whether operands are too unaligned for cp.async, which copies 4 bytes at least."""
    return min(config.problem.a.granule, config.problem.b.granule) < 4


def least_stages(config: GemmConfig) -> int:
    """Two, but of tf32 three: CUTLASS's mainloop of two stages would multiply its operands in f16."""
    return 3 if config.problem.compute in ("tf32", "tf32x3") else 2


# Shared memory


class Buffer(NamedTuple):
    """The tile in shared memory, between the product and what follows: lines of so many floats."""

    lines: int
    pitch: int

    @property
    def bytes(self) -> int:
        return 4 * self.lines * self.pitch


def operand_storage(config: GemmConfig, stages: int) -> int:
    """`MmaBase::SharedStorage` in bytes."""
    problem = config.problem
    m, n, k = config.schedule.tile
    if problem.compute == "f32" and stages == 2:
        # Elements are transposed on their way to shared memory: padding keeps them in different banks.
        padding = 32 // k
        m, n = m + padding * problem.a.k_major, n + padding * problem.b.k_major
    return (m + n) * k * stages * problem.element_bytes


def buffer(config: GemmConfig, stages: int) -> Buffer:
    """Return the part of the tile that is in shared memory at a time:
    `mucc::multistage::Kernel::piece_lines`.
    """
    problem = config.problem
    m, n, _ = config.schedule.tile
    warp = warp_tile(problem.compute, config.schedule.tile)
    assert warp is not None
    columns = problem.epilogue.destination_is_col_major
    side, along, whole = (n, m, warp[1]) if columns else (m, n, warp[0])
    pitch = along + (4 if columns else 8)
    least = 8 if columns else 16
    if problem.compute == "f32":
        # Lanes lie 4x8 with 4x4 results each; in two stages 8x4 where a warp is taller than wide.
        tall = stages == 2 and warp[0] > warp[1]
        least = 16 if tall is columns else 32
    lines = whole
    while 4 * side // whole * lines * pitch > operand_storage(config, stages) and lines // 2 >= least:
        lines //= 2
    return Buffer(side // whole * lines, pitch)


def smem_bytes(config: GemmConfig, stages: int) -> int:
    """Bytes of shared memory of a block: the operands' stages, and later the tile."""
    used = max(operand_storage(config, stages), buffer(config, stages).bytes)
    return -(-used // 16) * 16


def max_stages(config: GemmConfig, capacity: int) -> int:
    """Return the most stages that fit into `capacity` bytes; operands in registers have two."""
    if warp_tile(config.problem.compute, config.schedule.tile) is None or min(config.schedule.tile) < 1:
        return 0
    stages = 2 if through_registers(config) else capacity // max(operand_storage(config, 1), 1)
    while stages and smem_bytes(config, stages) > capacity:
        stages -= 1
    return stages


# Choice


def can(problem: Problem) -> bool:
    """Whether the family has a kernel for a problem, with some schedule."""
    plain = problem.rights == 1 and not problem.is_grouped and not problem.is_sparse
    return problem.compute in COMPUTES and plain
