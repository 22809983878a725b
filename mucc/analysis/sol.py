"""Speed-of-light (SOL) analysis of a `mu` kernel: its bound on a card, fused and as staged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from xdsl.dialects.builtin import StringAttr, bf16, f16, f32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mucc.analysis.bound import DRAM, Bound, Rates
from mucc.analysis.counts import operations, tensor_bytes, work
from mucc.analysis.products import Term, products, term
from mucc.analysis.structure import GENERAL, Structure, Structures, product_share
from mucc.dialects.mu.ops.attention import ScoringOp
from mucc.dialects.mu.ops.contraction import Compute, ContractionOp, MatmulOp
from mucc.dialects.mu.ops.conv import ConvolutionOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import VIEWS
from mucc.dialects.mu.types import Shaped, TensorType, dtype_bits, dtype_name
from mucc.library import extents
from mucc.library.signature import evaluate

Dims = Mapping[str, int]


DECLARED = "as declared"
"""The name of the bound with the program's own arithmetic."""


def f32_products_in(compute: Compute) -> str:
    """Name the bound with f32 products computed in a format."""
    return f"f32 products in {compute.value}"


class StageBound(NamedTuple):
    """A stage: the bytes its kernel reads and writes, and its bound."""

    name: str
    kind: str
    bytes: int
    bound: Bound


class Assumption(NamedTuple):
    """A bound under an assumption about the arithmetic of f32 products."""

    name: str
    bound: Bound


class Hint(NamedTuple):
    """A change that would lower the bound, and the lower bound in seconds."""

    text: str
    seconds: float


class Sol(NamedTuple):
    """The speed of light of one kernel for given dims on one card. Times in seconds, sizes in bytes."""

    kernel: str
    dims: Dims
    device: str
    bound: Bound
    reachable: Bound
    """The bound with measured rates, where known."""
    assumptions: tuple[Assumption, ...]
    """Bounds by arithmetic: as declared, in tf32 and in f32; only the first without f32 products."""
    stages: tuple[StageBound, ...]
    """The stages that the compiler forms; empty if it cannot."""
    hints: tuple[Hint, ...]
    facts: tuple[str, ...]
    """Notes on work that the structure of operands saves."""
    missing: tuple[str, ...] = ()
    """Operations without a known amount of work, which the bound leaves out."""
    has_calls: bool = False
    """Whether PyTorch runs a part of the work, outside the stages."""
    cached: int = 0
    """Bytes of results that may still be in the card's cache when the last kernel ends, at the most."""

    @property
    def is_whole(self) -> bool:
        """Whether the bound includes all of the work."""
        return not self.missing

    @property
    def staged_bytes(self) -> int:
        """The bytes that all stages read and write."""
        return sum(stage.bytes for stage in self.stages)

    @property
    def staged_seconds(self) -> float:
        """The sum of the bounds of the stages, in seconds."""
        return sum(stage.bound.seconds for stage in self.stages)

    @property
    def least_seconds(self) -> float:
        """The least seconds that can be measured: the bound, but for results that stay in the cache."""
        return self.bound.seconds_with(self.cached)

    def gap(self, measured: float) -> float:
        """Return a measured time over the bound."""
        return measured / self.bound.seconds if self.bound.seconds else float("inf")

    def score(self, measured: float, baseline: float) -> float:
        """Compute the SOL score of SOL-ExecBench (arXiv 2603.19173): 0.5 at the baseline, 1 at the bound.

        NaN where there is no whole bound, or the baseline is below it.
        """
        if not self.is_whole:
            return float("nan")
        left = baseline - self.bound.seconds
        return 1 / (1 + (measured - self.bound.seconds) / left) if left > 0 else float("nan")


def complete(dims: Dims, kernel: KernelOp) -> dict[str, int]:
    """Return the values of the kernel's dims: given and bound ones."""
    return {**kernel.bound_dims, **{n: v for n, v in dims.items() if n in kernel.dim_names}}


def analyse(
    kernel: KernelOp,
    rates: Rates,
    dims: Dims,
    stages: Iterable[StageOp] = (),
    inputs: Mapping[str, Structure] | None = None,
    inner: Collection[str] = (),
) -> Sol:
    """Analyse a kernel of primitive operations.

    `dims` has a value for every dim (see `complete`), `stages` are those of the same kernel, `inputs` what is
    known of parameters beside their types; `inner` names parameters and results that need not pass through
    memory, since the kernel is a part of something larger.
    """
    counter = _Counter(kernel, dims, Structures(kernel, inputs), inner)
    moved = counter.bytes()
    operations = counter.operations()
    bound = rates.bound(operations, moved)
    assumptions = [Assumption(DECLARED, bound)]
    if counter.has_f32_products:
        for compute in (Compute.TF32, Compute.F32):
            counted = counter.operations({f32: compute})
            assumptions.append(Assumption(f32_products_in(compute), rates.bound(counted, moved)))
    measured = Rates(rates.device, rates.sm, measured=True)
    staged = tuple(analyse_stage(stage, rates, dims) for stage in stages)
    return Sol(
        kernel.sym_name.data,
        dims,
        rates.device.name,
        bound,
        measured.bound(operations, moved),
        tuple(assumptions),
        staged,
        tuple(_hints(counter, rates, bound, moved)),
        tuple(counter.facts()),
        cached=min(counter.stored, rates.device.l2_bytes),
    )


def together(name: str, parts: Sequence[Sol], rates: Rates) -> Sol:
    """Combine the analyses of several kernels: sum operations and bytes, concatenate stages."""
    names = dict.fromkeys(a.name for part in parts for a in part.assumptions)
    measured = Rates(rates.device, rates.sm, measured=True)
    assumptions = [
        Assumption(n, _added([dict(p.assumptions).get(n, p.bound) for p in parts], rates)) for n in names
    ]
    return Sol(
        name,
        {},
        rates.device.name,
        assumptions[0].bound,
        _added([p.reachable for p in parts], measured),
        tuple(assumptions),
        tuple(s._replace(name=f"{p.kernel}.{s.name}") for p in parts for s in p.stages),
        (),
        tuple(f"{p.kernel}: {fact}" for p in parts for fact in p.facts),
        cached=min(sum(p.cached for p in parts), rates.device.l2_bytes),
    )


class Calls(NamedTuple):
    """The part of a module that PyTorch runs: operations by unit, bytes, names of unknown operations.

    `units` has the bound's operations by assumption about products of f32.
    """

    units: Mapping[str, Mapping[str, int]]
    moved: int
    missing: tuple[str, ...]


def nothing(name: str, rates: Rates) -> Sol:
    """Analyse a module without kernels."""
    bound = rates.bound({}, 0)
    return Sol(name, {}, rates.device.name, bound, bound, (Assumption(DECLARED, bound),), (), (), ())


def with_calls(sol: Sol, calls: Calls, rates: Rates) -> Sol:
    """Combine the analysis of a module's kernels with the part that PyTorch runs."""
    measured = Rates(rates.device, rates.sm, measured=True)

    def added(bound: Bound, name: str, rates: Rates) -> Bound:
        return _added([bound, rates.bound(calls.units.get(name, calls.units[DECLARED]), calls.moved)], rates)

    own = dict(sol.assumptions)
    names = dict.fromkeys([*own, *(calls.units if len(calls.units) > 1 else ())])
    found = [Assumption(name, added(own.get(name, sol.bound), name, rates)) for name in names]
    return sol._replace(
        bound=found[0].bound,
        reachable=added(sol.reachable, DECLARED, measured),
        assumptions=tuple(found),
        hints=(),
        missing=calls.missing,
        has_calls=True,
        cached=min(sol.cached + calls.moved, rates.device.l2_bytes),
    )


def _added(bounds: Iterable[Bound], rates: Rates) -> Bound:
    counts: dict[str, int] = {}
    for limit in (x for bound in bounds for x in bound.limits):
        counts[limit.unit] = counts.get(limit.unit, 0) + limit.amount
    moved = counts.pop(DRAM, 0)
    return rates.bound(counts, moved)


PICKING = ("mu.gather", "mu.slice", "mu.take_along")
"""Operations that read only those elements of their first operand that the result has."""


class _Counter:
    """Counter of the operations and bytes that the results of a kernel need."""

    def __init__(self, kernel: KernelOp, dims: Dims, structures: Structures, inner: Collection[str]):
        self.kernel, self.dims, self.structures, self.inner = kernel, dims, structures, inner
        last = kernel.body.block.last_op
        assert isinstance(last, ReturnOp)
        self.results = tuple(last.operands)
        self.needed = _needed(self.results, structures)
        self.ops = [op for op in kernel.body.block.ops if any(r in self.needed for r in op.results)]

    @property
    def has_f32_products(self) -> bool:
        return any(_element(op) == f32 for op in self.ops)

    def operations(self, instead: Mapping[Attribute, Compute] = MappingProxyType({})) -> dict[str, int]:
        """Count operations by unit; `instead` maps element types to the arithmetic of their products."""
        counts: dict[str, int] = {}
        for op in self.ops:
            for unit, amount in work(op):
                number = self.number([amount]) * self.share(op)
                element = _element(op)
                if element is not None and unit != "special" and (compute := instead.get(element)):
                    own = op.compute.data if isinstance(op, ContractionOp | ConvolutionOp) else None
                    number /= 3 if own is Compute.TF32X3 else 1
                    unit = "fp32" if compute is Compute.F32 else f"tensor.{compute.value}"
                counts[unit] = counts.get(unit, 0) + int(number)
        return counts

    def number(self, terms: Iterable[Term]) -> int:
        return evaluate(terms, self.dims)

    def share(self, op: Operation) -> Fraction:
        """Return the fraction of an operation's work that the structure of operands leaves."""
        if not isinstance(op, MatmulOp):
            return Fraction(1)
        (m, k), n = self.extents(op.lhs)[-2:], self.extents(op.rhs)[-1]
        return product_share(self.structures[op.lhs], self.structures[op.rhs], m, n, k)

    def extents(self, value: SSAValue) -> tuple[int, ...]:
        return extents.values(Shaped.of(value.type).dims, self.dims)

    def bytes(self) -> int:
        """Count compulsory bytes: each needed input read once, each result written once."""
        read = sum(self.size(a) for a, name in self.named_inputs() if name.data not in self.inner)
        return read + self.stored

    @property
    def stored(self) -> int:
        """The bytes of results that are written to memory."""
        return sum(self.number([tensor_bytes(t)]) for t in self.written)

    @property
    def written(self) -> list[TensorType]:
        """Return the types of results that are written to memory."""
        results = zip(self.kernel.function_type.outputs, self.kernel.result_names, strict=True)
        return [t for t, name in results if isinstance(t, TensorType) and name.data not in self.inner]

    def size(self, argument: SSAValue) -> int:
        """Count the bytes of a parameter that must be read."""
        if not isinstance(argument.type, TensorType):
            return 0
        whole = self.number([tensor_bytes(argument.type)])
        if picked := _picked(argument, self.ops):
            return min(whole, self.number(picked))
        extents = self.extents(argument)
        if (structure := self.structures[argument]) == GENERAL or len(extents) < 2:
            return int(whole * structure.share(1, 1))
        return int(whole * structure.share(*extents[-2:]))

    def named_inputs(self) -> list[tuple[SSAValue, StringAttr]]:
        """Yield the needed parameters with their names."""
        pairs = zip(self.kernel.body.block.args, self.kernel.arg_names, strict=True)
        return [(argument, name) for argument, name in pairs if argument in self.needed]

    def facts(self) -> list[str]:
        """Describe structure that lowers the bound."""
        lines: list[str] = []
        names = [n.data for n in self.kernel.arg_names]
        for argument, name in zip(self.kernel.body.block.args, names, strict=True):
            structure = self.structures[argument]
            if structure.constant is not None:
                lines.append(f"{name} is {structure.constant:g} everywhere")
            elif structure != GENERAL:
                lines.append(f"{name} is {structure.pattern.value}")
        for value, name in zip(self.results, self.kernel.result_names, strict=True):
            structure = self.structures[value]
            if structure.constant is not None:
                lines.append(f"result {name.data} is {structure.constant:g} whatever the inputs are")
            elif not structure.depends:
                lines.append(f"result {name.data} does not depend on any input")
        unused = [n for a, n in zip(self.kernel.body.block.args, names, strict=True) if a not in self.needed]
        if unused:
            lines.append(f"no result depends on {', '.join(unused)}")
        return lines


def _picked(value: SSAValue, readers: Iterable[Operation]) -> list[Term]:
    """Count the bytes of a value that is read in parts; empty if a reader needs all of it.

    Rows count once for each index that picks one: which indices are equal is not known. Of keys and values in
    pages those of the sequences count, once for all operations with the same table.
    """
    readers = tuple(readers)
    bits = dtype_bits(Shaped.of(value.type).element_type)
    found: list[Term] = []
    paged: dict[SSAValue, Term] = {}
    for op in readers:
        if value not in op.operands:
            continue
        if op.name in PICKING and value not in op.operands[1:]:
            found.append(term(bits / 8, Shaped.of(op.results[0].type).dims))
        elif isinstance(op, VIEWS):
            if not (rows := _picked(op.results[0], readers)):
                return []
            found += rows
        elif isinstance(op, ScoringOp) and op.pages is not None and value in op.in_all_pages:
            paged[op.pages] = term(bits / 8, op.in_all_pages[value].dims)
        else:
            return []
    return [*found, *paged.values()]


def _needed(results: tuple[SSAValue, ...], structures: Structures) -> set[SSAValue]:
    """Collect the values that results depend on, except for those that structure makes constant."""
    needed: set[SSAValue] = set()
    waiting = [v for v in results if structures[v].constant is None]
    while waiting:
        value = waiting.pop()
        if value in needed or structures[value].constant is not None:
            continue
        needed.add(value)
        if not isinstance(value, BlockArgument) and isinstance(value.owner, Operation):
            waiting.extend(value.owner.operands)
    return needed


def _element(op: Operation) -> Attribute | None:
    """Return the element type of multiplied operands; None without matrix products."""
    return Shaped.of(op.operands[0].type).element_type if products(op) else None


def analyse_stage(stage: StageOp, rates: Rates, dims: Dims, *, masked: bool = False) -> StageBound:
    """Analyse a stage of a kernel: captured values are read, yielded values are written.

    What tensors may mask counts as work where `masked`.
    """
    inner: set[SSAValue] = set(stage.body.block.args)
    read: dict[SSAValue, None] = {}
    for op in stage.body.block.ops:
        inner.update(op.results)
        read.update(dict.fromkeys(v for v in op.operands if v not in inner))
    work = operations(stage.body.block.ops, masked=masked)
    counts = {unit: evaluate(terms, dims) for unit, terms in work.items()}
    moved = evaluate([tensor_bytes(v.type) for v in stage.outputs], dims)
    for value in read:
        if isinstance(value.type, TensorType):
            whole = evaluate([tensor_bytes(value.type)], dims)
            picked = _picked(value, stage.body.block.ops)
            moved += min(whole, evaluate(picked, dims)) if picked else whole
    return StageBound(stage.stage_name.data, stage.kind.data, moved, rates.bound(counts, moved))


def _hints(counter: _Counter, rates: Rates, bound: Bound, moved: int) -> Iterable[Hint]:
    """List changes that would lower the bound, the largest first."""
    found: list[Hint] = []
    for element, compute in _NARROWER:
        if bound.binding in ("fp32", *(f"tensor.{c.value}" for c in Compute)):
            less = rates.bound(counter.operations({element: compute}), moved).seconds
            found.append(Hint(f"multiply {dtype_name(element)} operands in {compute.value}", less))
    if bound.binding == DRAM:
        operations = counter.operations()
        sizes = sorted(((counter.size(a), n.data) for a, n in counter.named_inputs()), reverse=True)
        for size, name in sizes[:2]:
            less = rates.bound(operations, moved - size // 2).seconds
            found.append(Hint(f"keep {name} in half the bytes ({size / moved:.0%} of the traffic)", less))
    return sorted((h for h in found if h.seconds < 0.99 * bound.seconds), key=lambda h: h.seconds)


_NARROWER = ((f32, Compute.TF32), (f32, Compute.BF16), (bf16, Compute.E4M3), (f16, Compute.E4M3))
"""Element types, and arithmetic of fewer bits for their products."""
