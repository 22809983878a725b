"""Shared memory of a CUTLASS 4.2 Sm100 TMA warp-specialised kernel: an upper bound, close to the exact size.

Sources, below `cutlass/`:

* `epilogue/collective/builders/sm100_builder.inl`: epilogue tile, stages of C and D
* `epilogue/collective/sm100_epilogue_tma_warpspecialized.hpp`: the epilogue's SharedStorage
* `gemm/collective/sm100_mma_warpspecialized.hpp`: the mainloop's SharedStorage
* `gemm/kernel/sm100_gemm_tma_warpspecialized.hpp`: the kernel's SharedStorage
"""

from __future__ import annotations

from functools import cache

from mucc.kernels.gemm.scheduling.config import GemmConfig
from mucc.kernels.gemm.scheduling.sm90_memory import BARRIER, round_up, staged_bytes

PAIR = "two_sm"
"""The mainloop in which two blocks work on one instruction's tile."""

ALIGNMENT = 1024
"""Eight rows of the widest swizzle: no buffer needs more."""

FIXED = 512
"""More than the barriers of the scheduler and the accumulators, and the scheduler's answers, take."""


def epilogue_tile(config: GemmConfig) -> tuple[int, int]:
    """Rows and columns that the epilogue handles at a time; a pair's with 64 rows are in two halves."""
    m, n, _ = config.schedule.tile
    source, destination = config.problem.epilogue.source, staged_bytes(config)
    halves = 2 if config.schedule.mainloop == PAIR and m == 64 else 1
    widest = max(source or 0, destination)
    if source is None:
        columns = 4096 // m
    elif widest == 4:
        columns = 16 if m > 64 and n <= 128 else 32
    elif widest == 2:
        columns = 32 if n <= 128 else 64
    else:
        columns = 64
    narrowest = min(source or 4, destination)
    least = 8 if config.problem.epilogue.destination_is_col_major else 16 // narrowest
    return m, min(n, max(columns, least * halves))


def epilogue_stages(config: GemmConfig) -> tuple[int, int]:
    """Pipeline stages for loading C (and auxiliary loads), and for storing D (and auxiliary stores)."""
    m, n, _ = config.schedule.tile
    rows, columns = epilogue_tile(config)
    tiles = (m // rows) * -(-n // columns)
    stages_d = min(tiles, 2)
    stages_c = min(tiles, 4)
    return (stages_c if config.problem.epilogue.source == 1 else max(stages_c, stages_d + 1)), stages_d


@cache
def epilogue_bytes(config: GemmConfig) -> int:
    """Return the bytes of the buffers of C, D and the visitor nodes."""
    epilogue = config.problem.epilogue
    rows, columns = epilogue_tile(config)
    stages_c, stages_d = epilogue_stages(config)
    loads = [x for x in (epilogue.source, *epilogue.aux_loads) if x]
    stores = [staged_bytes(config), *epilogue.aux_stores]
    total = sum(round_up(rows * columns * x * stages_c, ALIGNMENT) for x in loads)
    total += sum(round_up(rows * columns * x * stages_d, ALIGNMENT) for x in stores)
    return total + sum(round_up(config.schedule.tile[1] * x, 16) for x in epilogue.row_broadcasts)


def stage_bytes(config: GemmConfig) -> int:
    """Bytes that one more pipeline stage takes, barriers included. Of a pair, each block keeps half of B."""
    m, n, k = config.schedule.tile
    columns = n // 2 if config.schedule.mainloop == PAIR else n
    return (m + columns) * k * config.problem.element_bytes + 2 * BARRIER


def kernel_storage(config: GemmConfig, stages: int) -> int:
    """Bytes of shared memory with so many mainloop stages."""
    stages_c, _ = epilogue_stages(config)
    barriers = FIXED + 2 * BARRIER * stages_c
    tensors = round_up(epilogue_bytes(config), ALIGNMENT) + stages * stage_bytes(config)
    return round_up(barriers, ALIGNMENT) + tensors


def max_stages(config: GemmConfig, capacity: int) -> int:
    """Return the most mainloop stages that fit into `capacity` bytes; 0 if not even one does."""
    return max(0, (capacity - kernel_storage(config, 0)) // stage_bytes(config))
