"""Compute the speed of light of source texts and imported modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from mucc import frontend
from mucc.analysis.bound import Rates
from mucc.analysis.sol import (
    DECLARED,
    Calls,
    Sol,
    analyse,
    complete,
    f32_products_in,
    nothing,
    together,
    with_calls,
)
from mucc.analysis.structure import Pattern, Structure
from mucc.compiler.typical_dims import check_names
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.contraction import Compute
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.rewriting import PassError
from mucc.library.dims import example, fault, no_kernel
from mucc.passes.associate_products import AssociateProducts
from mucc.passes.contract_sums import ContractSums
from mucc.passes.decompose import Decompose
from mucc.passes.merge_anchors import MergeAnchors
from mucc.passes.mu_canonicalize import MuCanonicalize
from mucc.passes.narrow_operands import NarrowOperands
from mucc.passes.pipeline import staging
from mucc.passes.sum_operands import SumOperands
from mucc.target.devices import Card

if TYPE_CHECKING:
    from mucc.torch.importer.request import Answer

ARITHMETIC = {
    "declared": DECLARED,
    "tf32": f32_products_in(Compute.TF32),
    "f32": f32_products_in(Compute.F32),
}
"""The bounds by arithmetic of f32 products, by the importer's names (`Answer.rows`)."""


def analyse_source(source: Source, card: Card, dims: Mapping[str, int], only: str | None = None) -> list[Sol]:
    """Analyse every kernel of a source, or one of them.

    Raises DiagnosticError: what the frontend finds, MU6051 for a name that is no dim, MU5403 where a dim has
    no value, MU5406 for a kernel that the file does not have.
    """
    module = _module(source)
    kernels = _kernels(module)
    check_names(kernels, dims)
    if only is not None and only not in (names := [k.sym_name.data for k in kernels]):
        raise no_kernel(only, names)
    return [s for s in analyse_module(module, card, dims) if only in (None, s.kernel)]


def analyse_problem(
    source: Source,
    card: Card,
    name: str,
    inner: Mapping[str, Collection[str]],
    inputs: Mapping[str, Structure] | None = None,
) -> Sol:
    """Analyse an imported module with one or more kernels, as a whole.

    `inner` has, by kernel, the parameters and results that need not pass through memory; `inputs` says what
    is known of arguments. Raises DiagnosticError as `analyse_source` does.
    """
    found = analyse_module(_module(source), card, {}, inputs, inner)
    return found[0] if len(found) == 1 else together(name, found, _rates(card))


def analyse_import(answer: Answer, name: str, shown: str, card: Card) -> Sol:
    """Analyse a problem file that was imported whole, with the structure of its inputs; messages call it
    `shown`. The part that PyTorch runs is included as far as it is understood, else listed as missing.

    Raises DiagnosticError: MU5409 where nothing of it can be said as a program, or is understood.
    """
    calls = calls_of(answer)
    if not answer.text and not any(calls.units.values()):
        left = ", ".join(calls.missing)
        raise fault("MU5409", f"nothing of '{shown}' can be said as a program: {left}")
    inputs = {name: Structure(Pattern(s.pattern), s.constant) for name, s in answer.structure.items()}
    rates = _rates(card)
    found = nothing(name, rates)
    if answer.text:
        found = analyse_problem(Source(f"{name}.mcu", answer.text), card, name, answer.inner, inputs)
    has_calls = any(not row.kernel for row in answer.rows)
    return with_calls(found, calls, rates) if has_calls else found


def calls_of(answer: Answer) -> Calls:
    """Return the part of an imported problem that PyTorch runs."""
    rows = [row for row in answer.rows if not row.kernel]
    found = {name: Counter[str]() for name in ARITHMETIC}
    for row in rows:
        for name, counts in (row.units or {}).items():
            found[name].update(counts)
    is_f32 = any(found[name] != found["declared"] for name in ARITHMETIC)
    names = ARITHMETIC if is_f32 else ("declared",)
    missing = sorted({row.operation for row in rows if row.units is None})
    return Calls(
        {ARITHMETIC[name]: found[name] for name in names},
        sum(row.moved for row in rows),
        tuple(missing),
    )


def analyse_module(
    module: ModuleOp,
    card: Card,
    dims: Mapping[str, int],
    inputs: Mapping[str, Structure] | None = None,
    inner: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[Sol]:
    """Analyse every kernel of a `mu` module, which stays unchanged. See `analyse`."""
    primitive = module.clone()
    narrow = NarrowOperands(card.target.name, exact=False)
    for step in (
        MuCanonicalize(),
        AssociateProducts(always=True),
        SumOperands(always=True),
        ContractSums(always=True),
        narrow,
        Decompose(card.target.name),
        narrow,
        MuCanonicalize(),
        MergeAnchors(always=True),
    ):
        step.apply(None, primitive)
    rates = _rates(card)
    found: list[Sol] = []
    for kernel, source in zip(_kernels(primitive), _kernels(module), strict=True):
        values = complete(dims, kernel)
        if missing := [name for name in kernel.dim_names if name not in values]:
            name = kernel.sym_name.data
            given = {n: v for n, v in values.items() if n in kernel.dim_names and n not in kernel.bound_dims}
            help_ = example(missing, given, lambda _: True)
            raise fault("MU5403", f"{name}: no value for {', '.join(missing)}", help_)
        own = _stages(source, card.target.name)
        found.append(analyse(kernel, rates, values, own, inputs, inner.get(kernel.sym_name.data, ())))
    return found


def _module(source: Source) -> ModuleOp:
    """Lower a source to `mu` IR. Raises DiagnosticError."""
    program, sink = frontend.parse(source)
    sink.raise_if_errors()
    module = frontend.lower(program, sink)
    sink.raise_if_errors()
    return module


def _rates(card: Card) -> Rates:
    return Rates(card.device, card.target.facts.multiprocessor)


def _kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.body.block.ops if isinstance(op, KernelOp)]


def _stages(kernel: KernelOp, target: str) -> tuple[StageOp, ...]:
    """Form the stages of a kernel; empty if a part of it cannot be compiled."""
    module = ModuleOp([kernel.clone()])
    try:
        for step, _ in staging(target):
            step.apply(None, module)
    except PassError:
        return ()
    (staged,) = _kernels(module)
    return tuple(op for op in staged.body.block.ops if isinstance(op, StageOp))
