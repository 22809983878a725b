"""Read the data file of a target: limits of schedules, rates of a multiprocessor, cards."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"
"""The folder of data files: `<target>.toml`, and `devices/<card>.toml` for the cards they name."""

WIDEST_ACCESS = 16
"""Bytes of the widest memory access."""


class Limits(NamedTuple):
    """The limits of schedules on a target. Sizes are in bytes unless the name says otherwise."""

    shared_memory: int
    """Shared memory of one thread block."""
    accumulator_registers: int
    """32-bit registers of one consumer thread for accumulators and operands."""
    cluster_blocks: int
    """Thread blocks in a portable cluster."""
    copy_extent: int
    """Elements along one axis of a box that TMA moves; 0 where kernels use none."""
    copy_granule: int
    """Alignment of the contiguous extent of what TMA moves."""
    swizzles: tuple[int, ...]
    """Swizzles of the persistent scheduler."""
    splits: int
    """Parts that K may be divided into."""
    tensor_columns: int = 0
    """Columns of tensor memory, where accumulators lie; 0 where there is none."""


class Multiprocessor(NamedTuple):
    """One multiprocessor. Rates are results per clock cycle."""

    shared_memory: int
    """Bytes of shared memory of all blocks that run at the same time."""
    reserved_per_block: int
    """Bytes of it that each block takes besides its own."""
    registers: int
    """32-bit registers of all threads that run at the same time."""
    fp32_per_cycle: int
    special_per_cycle: int
    tensor_flops_per_cycle: Mapping[str, int]
    """Dense tensor-core FLOPs per cycle of one multiprocessor, by compute type; a multiply-add is two."""
    l2_bytes_per_cycle: int
    """The bytes per cycle that a multiprocessor can load from L2."""
    mma_sync_share: float = 1.0
    """The fraction of the tensor cores' rates that mma.sync reaches."""
    wgmma: bool = False
    """Whether warpgroups multiply tiles from shared memory (`wgmma`), which TMA loads."""

    def blocks_with(self, shared_memory: int) -> int:
        """Return how many blocks of so many bytes of shared memory it has room for."""
        return self.shared_memory // (shared_memory + self.reserved_per_block)

    @property
    def computes(self) -> tuple[str, ...]:
        """The formats in which contractions multiply."""
        return (*self.tensor_flops_per_cycle, "tf32x3", "f32")

    def flops_per_cycle(self, compute: str) -> float:
        """Return operations per cycle of contractions in a format; 1 for an unsupported one."""
        match compute:
            case "f32":
                return 2 * self.fp32_per_cycle
            case "tf32x3":
                return self.tensor_flops_per_cycle["tf32"] / 3
            case _:
                return self.tensor_flops_per_cycle.get(compute, 1)


class Device(NamedTuple):
    """A card of a target.

    `datasheet` is what the maker states, `measured` what a benchmark reached on such a card: operations
    per second by compute type, and `dram_bandwidth` in bytes per second.
    """

    key: str
    """The short name, that of the data file: `h200`."""
    name: str
    """The driver's name of the card."""
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    datasheet: Mapping[str, float]
    measured: Mapping[str, float]
    clusters: Mapping[str, int] = MappingProxyType({})
    """How many clusters of so many blocks (by number as text) run at the same time, one block per
    multiprocessor."""

    def clock(self, sm: Multiprocessor) -> float:
        """Return the clock in Hz at which the datasheet's rates hold; `sm` is the target's multiprocessor."""
        return self.datasheet["bf16"] / sm.tensor_flops_per_cycle["bf16"] / self.multiprocessors


class Facts(NamedTuple):
    """The contents of a target's data file. The first device is the one that defaults are chosen for."""

    name: str
    title: str
    limits: Limits
    multiprocessor: Multiprocessor
    devices: tuple[Device, ...]
    aliases: tuple[str, ...] = ()
    """Other names: of the architecture, chips and cards, and compute capabilities that run its code."""
    cost: Mapping[str, Any] = MappingProxyType({})
    """Constants of the target's cost model."""

    def shared_memory_of_each(self, blocks: int) -> int:
        """Return the bytes of shared memory that each of so many blocks of a multiprocessor may use."""
        sm = self.multiprocessor
        return min(self.limits.shared_memory, sm.shared_memory // blocks - sm.reserved_per_block)


def load_facts(name: str) -> Facts:
    """Read a target's data file. Raises `TypeError` where a table lacks a key or has one too many."""
    table = _table(name)
    limits: dict[str, Any] = table["limits"]
    limits["swizzles"] = tuple(limits["swizzles"])
    devices: list[str] = table["devices"]
    return Facts(
        table["name"],
        table["title"],
        Limits(**limits),
        Multiprocessor(**table["multiprocessor"]),
        tuple(Device(key=key, **_table(f"devices/{key}")) for key in devices),
        tuple(table["aliases"]),
        table.get("cost", {}),
    )


def _table(name: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


class Target:
    """A kind of GPU. Its facts are read on first use."""

    def __init__(self, name: str):
        self.name = name

    @cached_property
    def facts(self) -> Facts:
        return load_facts(self.name)

    @property
    def smem_bytes(self) -> int:
        """Bytes of shared memory that one thread block may use."""
        return self.facts.limits.shared_memory

    @property
    def has_wgmma(self) -> bool:
        """Whether warpgroups multiply tiles that TMA loads."""
        return self.facts.multiprocessor.wgmma

    @property
    def copy_granule(self) -> int:
        """Bytes that the contiguous extent of every matrix must be a multiple of."""
        return self.facts.limits.copy_granule

    @property
    def has_clusters(self) -> bool:
        """Whether thread blocks form clusters, which read each other's shared memory."""
        return self.facts.limits.cluster_blocks > 1
