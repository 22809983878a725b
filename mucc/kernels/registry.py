"""Registry of the kinds of device kernels: a new kind is a folder of `mucc/kernels` and an entry here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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

Need = dict[str, int]
"""Operations by name, each with a number: a kernel has to have one of them that often, or more."""


def one_of(*names: str) -> Need:
    """Return the need of at least one of some operations."""
    return dict.fromkeys(names, 1)


def several(name: str) -> Need:
    """Return the need of more than one of an operation."""
    return {name: 2}


class Rewrite(NamedTuple):
    """A pass that few programs need. It is loaded for those with a kernel that meets all of its needs."""

    place: str
    """Its module and class."""
    needs: tuple[Need, ...]
    """What a `mu.kernel`, or a `cutlass.program`, has if the pass may change it."""

    def is_for(self, module: ModuleOp) -> bool:
        """Whether the module has a kernel that the pass may change."""
        kernels = (op for op in module.body.block.ops if op.regions)
        return any(self._may_change(Counter(inner.name for inner in kernel.walk())) for kernel in kernels)

    def _may_change(self, names: Counter[str]) -> bool:
        """Whether a kernel with so many of each operation, by name, meets all needs."""
        return all(any(names[name] >= least for name, least in need.items()) for need in self.needs)

    def made(self, **options: object) -> Pass:
        """Load the pass, and make it with those of the options that it has."""
        cls: type[Pass] = loaded(self.place)
        taken = signature(cls).parameters
        return cls(**{name: value for name, value in options.items() if name in taken})


class Entry(NamedTuple):
    """A kind, and what it is loaded for: most programs have kernels of two or three kinds."""

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


_PRODUCTS = ("mu.matmul", "mu.grouped_matmul")
_CONVOLUTIONS = ("mu.conv", "mu.conv_transpose")
_HAS_CONVOLUTION = (one_of(*_CONVOLUTIONS),)
_HAS_CONV_KERNEL = (one_of("cutlass.conv"),)

KINDS: dict[str, Entry] = {
    "attention": Entry(
        "mucc.kernels.attention.kind:AttentionKind",
        ("mu.attention", "mu.scored_attention", "mu.attention_logsumexp"),
        {
            "form-attention": Rewrite(
                "mucc.kernels.attention.form:FormAttention",
                (
                    several("mu.matmul")
                    | one_of("mu.attention", "mu.attention_logsumexp", "mu.attention_gradient"),
                ),
            )
        },
    ),
    "attention_backward": Entry(
        "mucc.kernels.attention_backward.kind:AttentionBackwardKind",
        ("mu.attention_backward",),
        {
            "form-attention-backward": Rewrite(
                "mucc.kernels.attention_backward.form:FormAttentionBackward",
                (one_of("mu.attention_gradient"),),
            )
        },
    ),
    "conv": Entry(
        "mucc.kernels.conv.kind:ConvKind",
        _CONVOLUTIONS,
        {
            "spread-means": Rewrite("mucc.kernels.conv.spread_means:SpreadMeans", _HAS_CONVOLUTION),
            "fold-averages": Rewrite(
                "mucc.kernels.conv.fold_averages:FoldAverages", (*_HAS_CONVOLUTION, one_of("mu.pool"))
            ),
            "divide-sums": Rewrite("mucc.kernels.conv.divide_sums:DivideSums", _HAS_CONVOLUTION),
            "prepare-convolutions": Rewrite(
                "mucc.kernels.conv.prepare:PrepareConvolutions", _HAS_CONVOLUTION
            ),
        },
        {"share-moments": Rewrite("mucc.kernels.conv.share_moments:ShareMoments", _HAS_CONVOLUTION)},
        {
            "join-concatenations": Rewrite(
                "mucc.kernels.conv.join_concatenations:JoinConcatenations",
                (one_of("cutlass.conv"), one_of("cutlass.map")),
            ),
            "split-channels": Rewrite("mucc.kernels.conv.split_channels:SplitChannels", _HAS_CONV_KERNEL),
        },
    ),
    "gemm": Entry(
        "mucc.kernels.gemm.kind:GemmKind",
        _PRODUCTS,
        {
            "mix-operands": Rewrite("mucc.kernels.gemm.mix_operands:MixOperands", (one_of("mu.matmul"),)),
            "divide-logsumexp": Rewrite(
                "mucc.kernels.gemm.divide_logsumexp:DivideLogSumExp", (one_of("mu.logsumexp"),)
            ),
        },
        {
            "pair-contractions": Rewrite(
                "mucc.kernels.gemm.pair_contractions:PairContractions",
                (several("mu.stage"), one_of(*_PRODUCTS)),
            )
        },
        {
            "join-rows": Rewrite(
                "mucc.kernels.gemm.join_rows:JoinRows", (one_of("cutlass.gemm"), one_of("cutlass.normalize"))
            ),
            "join-parts": Rewrite(
                "mucc.kernels.gemm.join_parts:JoinParts", (one_of("cutlass.gemm"), one_of("cutlass.reduce"))
            ),
        },
    ),
    "map": Entry(
        "mucc.kernels.map.kind:MapKind",
        ("", "mu.scatter"),
        stage_passes={"merge-maps": Rewrite("mucc.kernels.map.merge_maps:MergeMaps", (several("mu.stage"),))},
    ),
    "normalize": Entry("mucc.kernels.normalize.kind:NormalizeKind", ("mu.reduce",)),
    "pool": Entry(
        "mucc.kernels.pool.kind:PoolKind",
        ("mu.pool",),
        {"prepare-pools": Rewrite("mucc.kernels.pool.prepare:PreparePools", (one_of("mu.pool"),))},
    ),
    "reduce": Entry("mucc.kernels.reduce.kind:ReduceKind", ("mu.reduce", "mu.arg_reduce")),
    "scan": Entry("mucc.kernels.scan.kind:ScanKind", ("mu.scan",)),
    "sort": Entry("mucc.kernels.sort.kind:SortKind", ("mu.sort",)),
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
