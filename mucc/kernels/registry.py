"""Registry of the kinds of device kernels: a new kind is a folder of `mucc/kernels` and an entry here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.rewriting import Pass
from mucc.kernels.interface import Kind

Names = Counter[str]
"""How often a kernel or a program has each operation, by name."""


Condition = Callable[[Names], bool]


def has(*any_of: str) -> Condition:
    """Say whether there is one of some operations."""

    def found(names: Names) -> bool:
        return any(names[name] for name in any_of)

    return found


def has_several(name: str) -> Condition:
    """Say whether there is more than one of an operation."""

    def found(names: Names) -> bool:
        return names[name] > 1

    return found


def both(one: Condition, other: Condition) -> Condition:
    """Say whether two conditions hold of a kernel."""
    return lambda names: one(names) and other(names)


def either(one: Condition, other: Condition) -> Condition:
    """Say whether one of two conditions holds of a kernel."""
    return lambda names: one(names) or other(names)


class Rewrite(NamedTuple):
    """A pass: its module and class, and which kernels it may change. It is loaded for programs with such."""

    place: str
    concerns: Condition

    def is_for(self, module: ModuleOp) -> bool:
        """Whether the module has a kernel that the pass may change."""
        kernels = (op for op in module.body.block.ops if op.regions)
        return any(self.concerns(Counter(inner.name for inner in kernel.walk())) for kernel in kernels)

    def made(self, **options: object) -> Pass:
        """Load the pass, and make it with those options that it has."""
        made: type[Pass] = loaded(self.place)
        taken = signature(made).parameters
        return made(**{name: value for name, value in options.items() if name in taken})


class Place(NamedTuple):
    """Where a kind is, and when it is loaded: most programs have kernels of two or three kinds."""

    kind: str
    """Its module and class."""
    computes: tuple[str, ...]
    """Operations of which `Kind.claims` may claim some; "" stands for pointwise work alone."""
    operand_passes: Mapping[str, Rewrite] = MappingProxyType({})
    """Passes that prepare operations for its kernels, before composites are taken apart, by name."""
    stage_passes: Mapping[str, Rewrite] = MappingProxyType({})
    """Passes that rewrite stages, once these are formed."""
    kernel_passes: Mapping[str, Rewrite] = MappingProxyType({})
    """Passes that rewrite lowered kernels, once their pointwise work is in bodies."""

    @property
    def passes(self) -> Mapping[str, Rewrite]:
        """All of its passes by name."""
        return {**self.operand_passes, **self.stage_passes, **self.kernel_passes}


_CONVOLUTIONS = ("mu.conv", "mu.conv_transpose")
_PRODUCTS = ("mu.matmul", "mu.grouped_matmul")
_ATTENTION = ("mu.attention", "mu.attention_logsumexp", "mu.attention_gradient")

KINDS: dict[str, Place] = {
    "attention": Place(
        "mucc.kernels.attention.kind:AttentionKind",
        ("mu.attention", "mu.scored_attention", "mu.paged_attention", "mu.attention_logsumexp"),
        {
            "form-attention": Rewrite(
                "mucc.kernels.attention.form:FormAttention",
                either(has_several("mu.matmul"), has(*_ATTENTION)),
            )
        },
    ),
    "attention_backward": Place(
        "mucc.kernels.attention_backward.kind:AttentionBackwardKind",
        ("mu.attention_backward",),
        {
            "form-attention-backward": Rewrite(
                "mucc.kernels.attention_backward.form:FormAttentionBackward", has("mu.attention_gradient")
            )
        },
    ),
    "conv": Place(
        "mucc.kernels.conv.kind:ConvKind",
        _CONVOLUTIONS,
        {
            "spread-means": Rewrite("mucc.kernels.conv.spread_means:SpreadMeans", has(*_CONVOLUTIONS)),
            "fold-averages": Rewrite("mucc.kernels.conv.fold_averages:FoldAverages", has(*_CONVOLUTIONS)),
            "divide-sums": Rewrite("mucc.kernels.conv.divide_sums:DivideSums", has(*_CONVOLUTIONS)),
            "prepare-convolutions": Rewrite(
                "mucc.kernels.conv.prepare:PrepareConvolutions", has(*_CONVOLUTIONS)
            ),
        },
        {"share-moments": Rewrite("mucc.kernels.conv.share_moments:ShareMoments", has(*_CONVOLUTIONS))},
    ),
    "gemm": Place(
        "mucc.kernels.gemm.kind:GemmKind",
        _PRODUCTS,
        {
            "mix-operands": Rewrite("mucc.kernels.gemm.mix_operands:MixOperands", has(*_PRODUCTS)),
            "divide-logsumexp": Rewrite(
                "mucc.kernels.gemm.divide_logsumexp:DivideLogSumExp", has("mu.logsumexp")
            ),
        },
        {
            "pair-contractions": Rewrite(
                "mucc.kernels.gemm.pair_contractions:PairContractions", has_several("mu.stage")
            )
        },
        {
            "join-rows": Rewrite("mucc.kernels.gemm.join_rows:JoinRows", has("cutlass.normalize")),
            "join-parts": Rewrite("mucc.kernels.gemm.join_parts:JoinParts", has("cutlass.reduce")),
        },
    ),
    "map": Place(
        "mucc.kernels.map.kind:MapKind",
        ("", "mu.scatter"),
        stage_passes={
            "merge-maps": Rewrite("mucc.kernels.map.merge_maps:MergeMaps", has_several("mu.stage"))
        },
    ),
    "normalize": Place("mucc.kernels.normalize.kind:NormalizeKind", ("mu.reduce",)),
    "pool": Place(
        "mucc.kernels.pool.kind:PoolKind",
        ("mu.pool",),
        {"prepare-pools": Rewrite("mucc.kernels.pool.prepare:PreparePools", has("mu.pool"))},
    ),
    "reduce": Place("mucc.kernels.reduce.kind:ReduceKind", ("mu.reduce", "mu.arg_reduce")),
    "scan": Place("mucc.kernels.scan.kind:ScanKind", ("mu.scan",)),
    "sort": Place("mucc.kernels.sort.kind:SortKind", ("mu.sort",)),
}
"""Kinds by name, in the order in which they are asked what they claim."""


def loaded(place: str) -> Any:
    """Import the class of a `module:class`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def named(name: str) -> Kind[Any]:
    """Return the kind of a name."""
    return loaded(KINDS[name].kind)()


def kinds() -> tuple[Kind[Any], ...]:
    """Load all kinds, and return them in the order of the table."""
    return tuple(map(named, KINDS))


@cache
def computing(operation: str) -> tuple[Kind[Any], ...]:
    """Return the kinds that may claim an operation; "" stands for pointwise work alone."""
    return tuple(named(name) for name, place in KINDS.items() if operation in place.computes)


def kind_of(op: DeviceKernelOp) -> Kind[Any]:
    """Return the kind of a device kernel."""
    return named(op.name.removeprefix("cutlass."))


def claimant(anchor: AnchorOp | None, target: str | None = None) -> Kind[Any] | None:
    """Return the first kind that claims an operation for a target, or for any; None if no kind does."""
    asked = computing("" if anchor is None else anchor.name)
    return next((kind for kind in asked if kind.claims(anchor, target)), None)


def kind_of_stage(stage: StageOp, target: str) -> Kind[Any]:
    """Return the kind of kernel that a stage becomes. Raises ValueError if no kind claims its anchor."""
    if (kind := claimant(stage.anchor, target)) is None:
        raise ValueError(f"no kind of kernel claims a {stage.kind.data} stage on {target}")
    return kind


def kernels_of(module: ModuleOp) -> Iterator[tuple[ProgramOp, DeviceKernelOp]]:
    """Every device kernel of a module, with the program that launches it."""
    for program in module.body.block.ops:
        if isinstance(program, ProgramOp):
            for kernel in program.kernels:
                yield program, kernel
