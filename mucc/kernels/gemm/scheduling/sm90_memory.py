"""Shared memory of a CUTLASS 4.2 Sm90 TMA warp-specialised kernel, byte for byte.

The functions mirror the C++ types: each computes the `sizeof` of one struct from its members, with
C++'s rules for padding. Sources, below `cutlass/`:

* `epilogue/collective/builders/sm90_builder.inl`: epilogue tile, stages of C and D
* `epilogue/collective/sm90_epilogue_tma_warpspecialized.hpp`: the epilogue's SharedStorage
* `epilogue/fusion/sm90_visitor_{load,store}_tma_warpspecialized.hpp`: the nodes' SharedStorage
* `gemm/collective/builders/sm90_common.inl`: swizzle atoms of operands
* `gemm/collective/sm90_mma_tma_gmma_{ss,rs}_warpspecialized.hpp`: the mainloop's SharedStorage
* `gemm/collective/sm90_sparse_mma_tma_gmma_ss_warpspecialized{,_fp8}.hpp`: the same of sparse operands
* `gemm/kernel/sm90_gemm_tma_warpspecialized{,_cooperative,_pingpong}.hpp`: the kernel's SharedStorage
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from math import gcd
from typing import NamedTuple

from mucc.kernels.gemm.scheduling.config import GemmConfig, Schedule

BARRIER = 8
"""Bytes of a cluster barrier; a pipeline stage has two, full and empty."""


class Layout(NamedTuple):
    """Size and alignment of a C++ type, in bytes."""

    size: int
    align: int


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def struct(members: Iterable[Layout], align: int = 1) -> Layout:
    """Return a struct of `members` in order, aligned to at least `align`."""
    size = 0
    for member in members:
        size = round_up(size, member.align) + member.size
        align = max(align, member.align)
    return Layout(round_up(max(size, 1), align), align)


def union(members: Iterable[Layout]) -> Layout:
    """Return a union of `members`."""
    layouts = list(members)
    align = max(m.align for m in layouts)
    return Layout(round_up(max(m.size for m in layouts), align), align)


def swizzle_alignment(inner_bytes: int) -> int:
    """Alignment of a buffer whose contiguous rows are `inner_bytes` long.

    The widest swizzle whose span divides the row is taken: 128, 64, 32 bytes or none; the pattern
    repeats after eight spans.
    """
    return next((8 * span for span in (128, 64, 32) if inner_bytes % span == 0), 128)


def pipeline(stages: int) -> Layout:
    """Barriers of a pipeline, as a member that CUTLASS aligns to 16 bytes."""
    return Layout(2 * BARRIER * stages, 16)


# Epilogue


def epilogue_tile(config: GemmConfig) -> tuple[int, int]:
    """Rows and columns that the epilogue handles at a time."""
    schedule = config.schedule
    m, n, _ = schedule.tile
    if schedule.epilogue_tile is not None:
        return schedule.epilogue_tile
    if schedule.mainloop == "cooperative":
        return min(m, 128), gcd(min(32, n), n)
    widest = 64 if config.problem.epilogue.destination == 1 and n % 64 == 0 else 32
    return min(m, 64), gcd(min(widest, n), n)


def staged_bytes(config: GemmConfig) -> int:
    """Bytes per element of the buffer that D is staged in; those of bf16 where nothing is stored as D."""
    return config.problem.epilogue.destination or 2


def epilogue_stages(config: GemmConfig) -> tuple[int, int]:
    """Pipeline stages for loading C (and auxiliary loads), and for storing D (and auxiliary stores)."""
    m, n, _ = config.schedule.tile
    em, en = epilogue_tile(config)
    tiles = (m // em) * (n // en)
    stages_d = min(tiles, 2)
    stages_c = min(tiles, 4)
    if reuses_source(config):
        stages_c = max(stages_c, stages_d + 1)
    return stages_c, stages_d


def reuses_source(config: GemmConfig) -> bool:
    """Whether D is staged where C was: elements of one size, but for those of 8 bits."""
    return config.problem.epilogue.source == staged_bytes(config) > 1


@cache
def epilogue_tensors(config: GemmConfig) -> Layout:
    """Return the tensors of the epilogue: C, D and the buffers of visitor nodes.

    Row vectors beside auxiliary matrices are padded as in the worst order of nodes; all else is exact.
    """
    problem = config.problem
    epilogue = problem.epilogue
    if problem.rights == 2 or problem.is_grouped or epilogue.ranges or epilogue.group:
        # Threads of mucc's own epilogue read and write further matrices.
        epilogue = replace(epilogue, source=None, aux_loads=(), aux_stores=())
        epilogue = replace(epilogue, aux_loads_by_columns=(), aux_stores_by_columns=())
        config = GemmConfig(problem._replace(epilogue=epilogue), config.schedule)
    em, en = epilogue_tile(config)
    stages_c, stages_d = epilogue_stages(config)

    def matrix(element: int, stages: int, *by_columns: bool) -> Layout:
        """Stages of a matrix, or of several that share them: the widest alignment counts."""
        align = max(swizzle_alignment((em if columns else en) * element) for columns in by_columns)
        return Layout(round_up(em * en * element * stages, align), align)

    along_c = epilogue.source_is_col_major
    along_d = epilogue.destination is not None and epilogue.destination_is_col_major
    d = staged_bytes(config)
    if epilogue.source is None:
        collective = struct([matrix(d, stages_d, along_d)])
    elif epilogue.source == epilogue.destination and reuses_source(config):
        collective = struct([matrix(d, stages_c, along_c, along_d)])
    else:
        collective = struct([matrix(epilogue.source, stages_c, along_c), matrix(d, stages_d, along_d)])

    loads = zip_longest(epilogue.aux_loads, epilogue.aux_loads_by_columns, fillvalue=False)
    stores = zip_longest(epilogue.aux_stores, epilogue.aux_stores_by_columns, fillvalue=False)
    nodes = [matrix(element, stages_c, by_columns) for element, by_columns in loads]
    nodes += [matrix(element, stages_d, by_columns) for element, by_columns in stores]
    nodes += [
        Layout(round_up(config.schedule.tile[1] * element, 16), 16) for element in epilogue.row_broadcasts
    ]
    align = max((node.align for node in nodes), default=1)
    thread = struct(Layout(round_up(node.size, align), align) for node in nodes)
    return struct([collective, thread])


def epilogue_storage(config: GemmConfig) -> Layout:
    """`CollectiveEpilogue::SharedStorage`: the carve-out that CUTLASS's automatic stage count uses."""
    return struct([epilogue_tensors(config), Layout(2 * BARRIER * epilogue_stages(config)[0], BARRIER)])


# Mainloop


def uses_register_operand(config: GemmConfig) -> bool:
    """Whether A goes through registers: 32-bit operands that are not both contiguous along K.

    Parts of operands are written so that they are.
    """
    problem = config.problem
    return (
        problem.element_bytes == 4
        and problem.compute != "tf32x3"
        and not (problem.a.k_major and problem.b.k_major)
    )


def transposes_b(config: GemmConfig) -> bool:
    """Whether the mainloop transposes B in shared memory: neither 32-bit operand is contiguous along K."""
    return uses_register_operand(config) and not config.problem.a.k_major and not config.problem.b.k_major


def scales_per_tile(config: GemmConfig) -> tuple[int, ...]:
    """Scales of A and B that a stage holds; none without block scales."""
    problem = config.problem
    if problem.blocks is None:
        return ()
    return config.schedule.tile[0] // problem.blocks[0], config.schedule.tile[1] // problem.blocks[1]


def mainloop_tensors(config: GemmConfig, stages: int) -> Layout:
    """Return the buffers of A and B for all stages, and of the metadata of a sparse A."""
    problem = config.problem
    m, _, k = config.schedule.tile
    n, element_bytes = config.columns, problem.element_bytes
    if problem.is_sparse:
        values = m * k * element_bytes // 2 * stages
        metadata = int(m * k * problem.a_bytes) * stages - values
        return struct(Layout(size, 128) for size in (values, n * k * element_bytes * stages, metadata))
    if problem.narrow is not None:
        rows = ((m, k * problem.a_bytes), (n, k * problem.b_bytes))
        buffers = [Layout(int(count * row) * stages, swizzle_alignment(int(row))) for count, row in rows]
        none = Layout(16, 16)  # CUTLASS's scales and zeros, of which there are none
        return struct([*buffers, none, none, Layout(told_bytes(config) * stages, BARRIER)])
    a, b = (extent * k * element_bytes * stages for extent in (m, n))
    if not uses_register_operand(config):
        scales = [Layout(4 * count * stages, 128) for count in scales_per_tile(config)]
        return struct([Layout(a, 16), Layout(b, 16), *scales], align=128)

    def align(k_major: bool) -> int:
        return swizzle_alignment(k * element_bytes) if k_major else 256

    align_a, align_b = align(problem.a.k_major), align(problem.b.k_major)
    return struct([Layout(round_up(a, align_a), align_a), Layout(round_up(b, align_b), align_b)])


def told_bytes(config: GemmConfig) -> int:
    """Bytes of a stage for its place, by which scales are found (`mucc::gemm::MixedMainloop`)."""
    return 8 if config.problem.narrow and config.problem.narrow.group else 0


def stage_bytes(config: GemmConfig) -> int:
    """Bytes that one more pipeline stage takes, barriers included."""
    m, _, k = config.schedule.tile
    scales = 4 * sum(scales_per_tile(config))
    operands = int(m * k * config.problem.a_bytes) + int(config.columns * k * config.problem.b_bytes)
    return round_up(operands + scales, 128) + 2 * BARRIER + told_bytes(config)


# Kernel


def kernel_storage(config: GemmConfig, stages: int) -> int:
    """`GemmKernel::SharedStorageSize` in bytes."""
    mainloop, epilogue = mainloop_tensors(config, stages), epilogue_tensors(config)
    barriers = [pipeline(stages), pipeline(epilogue_stages(config)[0])]
    if config.schedule.mainloop == "warpspecialized":
        # Such a kernel is not persistent: its epilogue takes over the mainloop's memory.
        return struct([union([mainloop, epilogue]), struct(barriers, align=16)]).size
    if config.schedule.mainloop == "pingpong":
        barriers.append(Layout(4 * BARRIER, 16))  # order of the two consumers, in mainloop and epilogue
    barriers.append(Layout(2 * BARRIER, 16))  # order of the two loading warps
    scheduler = Layout(1, 16)  # an empty class
    tensors = struct([epilogue, mainloop], align=128)
    return struct([struct(barriers, align=16), scheduler, tensors]).size


def max_stages(config: GemmConfig, capacity: int) -> int:
    """Return the most mainloop stages that fit into `capacity` bytes; 0 if not even one does."""
    problem, schedule = config.problem, config.schedule
    # Problems of all extents share what is counted.
    problem = problem._replace(m=None, n=None, k=None, batch=None)
    plain = Schedule(schedule.tile, mainloop=schedule.mainloop, epilogue_tile=schedule.epilogue_tile)
    return _max_stages(GemmConfig(problem, plain), capacity)


@cache
def _max_stages(config: GemmConfig, capacity: int) -> int:
    if (least := kernel_storage(config, 0)) > capacity:
        return 0
    spare = capacity if config.schedule.mainloop == "warpspecialized" else capacity - least
    stages = spare // stage_bytes(config) + 2
    while kernel_storage(config, stages) > capacity:
        stages -= 1
    return stages
