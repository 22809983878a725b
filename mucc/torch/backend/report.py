"""`mucc.explain`: report how `torch.compile(model, backend="mucc")` divides a model into kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mucc.analysis.bound import Rates
from mucc.sol.program import analyse_module
from mucc.target.devices import Card, get_card
from mucc.torch.backend.backend import Backend
from mucc.torch.backend.graphs import tensors_of
from mucc.torch.backend.options import Options
from mucc.torch.backend.stitch import boxed
from mucc.torch.importer.capture import torch
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.partition import Opaque, is_host, is_part
from mucc.torch.importer.program import Program
from mucc.torch.importer.work import is_product, work_of

LONGEST = 78
"""The most characters of a reason in a table."""


@dataclass(frozen=True)
class Part:
    """A kernel, or an operation that stays with PyTorch, with its speed-of-light bound."""

    name: str
    is_kernel: bool
    operations: tuple[str, ...]
    reason: str | None
    seconds: float
    """The bound on the card, in isolation."""


@dataclass(frozen=True)
class GraphReport:
    """A graph: its program and its parts in order. `name` is forward, backward or inference."""

    name: str
    text: str
    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def covered(self) -> float:
        """The fraction of the bound that kernels cover."""
        return sum(p.seconds for p in self.parts if p.is_kernel) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Explanation:
    """The report on all graphs that dynamo made of a model, at the sizes of one call."""

    graphs: tuple[GraphReport, ...]
    card: str

    def __str__(self) -> str:
        if not self.graphs:
            return "no graph: nothing of the model is captured by torch.compile"
        return "\n".join(_lines(n, graph, self.card) for n, graph in enumerate(self.graphs))


def explain(
    model: Any, *inputs: Any, device: str = "h200", compute: str | None = None, **keywords: Any
) -> Explanation:
    """Report how `torch.compile(model, backend="mucc")` divides a call, with bounds on a card.

    `keywords` are arguments of the call, as `inputs` are.

    The model runs once, by PyTorch, where its tensors are; nothing is compiled. Raises MU5401 for a card that
    mucc does not know, and what the model raises.
    """
    card = get_card(device)
    recorder = _Recorder(Options(target=card.target.name, compute=compute, fallback="error"))
    _with_backward(model, torch.compile(model, backend=recorder)(*inputs, **keywords), (inputs, keywords))
    rates = Rates(card.device, card.target.facts.multiprocessor)
    reports = [
        GraphReport(name, program.text(), tuple(_parts(program, typical, card, rates)))
        for name, program, typical in recorder.found
    ]
    return Explanation(tuple(reports), card.device.name)


def _with_backward(model: Any, results: Any, inputs: Any) -> None:
    """Run the backward pass of results, so that its graph is compiled. Gradients are discarded."""
    leaves = torch.utils._pytree.tree_leaves
    made = [r for r in leaves(results) if isinstance(r, torch.Tensor) and r.requires_grad]
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
    given = [*parameters, *(t for t in leaves(inputs) if isinstance(t, torch.Tensor))]
    wanted = [t for t in given if t.requires_grad]
    if made and wanted:
        torch.autograd.grad(made, wanted, [torch.ones_like(r) for r in made], allow_unused=True)


class _Recorder(Backend):
    """A backend that divides graphs for the report, and lets PyTorch run them unchanged."""

    def __init__(self, options: Options):
        super().__init__(options)
        self.found: list[tuple[str, Program, Mapping[str, int]]] = []

    def target(self, inputs: Sequence[Any]) -> str:
        assert self.options.target is not None
        return self.options.target

    @property
    def anywhere(self) -> bool:
        return True

    def compiled(self, module: Any, target: str, name: str) -> Any:
        self.found.append((name, *self.cut(module, target, {})))
        return boxed(module)


def _parts(program: Program, typical: Mapping[str, int], card: Card, rates: Rates) -> list[Part]:
    parts: list[Part] = []
    for step in program.steps:
        if isinstance(step, Kernel):
            (sol,) = analyse_module(ModuleOp([step.op.clone()]), card, typical)
            names = tuple(_operation(n) for n in step.piece.nodes if not is_part(n))
            parts.append(Part(step.name, True, names, None, sol.bound.seconds))
        elif not is_host(step.node) and not is_part(step.node):
            work = work_of(step.node)
            bound = rates.bound({_unit(program, step): work.operations}, work.bytes)
            parts.append(Part(step.node.name, False, (_operation(step.node),), step.reason, bound.seconds))
    return parts


def _operation(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.replace("::", ".") if schema is not None else str(node.target)


def _unit(program: Program, step: Opaque) -> str:
    """Name the implementation of an operation."""
    if not is_product(step.node):
        return "fp32"
    dtypes = {str(t.dtype).removeprefix("torch.") for t in tensors_of(step.node)}
    if "float32" not in dtypes:
        return "tensor.f16" if "float16" in dtypes else "tensor.bf16"
    matmul = program.graph.formats.matmul
    return "fp32" if matmul == "f32" else f"tensor.{matmul}"


def _lines(number: int, graph: GraphReport, card: str) -> str:
    kernels = sum(p.is_kernel for p in graph.parts)
    lines = [
        f"graph {number} ({graph.name}): {kernels} kernel{'' if kernels == 1 else 's'}, "
        f"{len(graph.parts) - kernels} operations with PyTorch; kernels have {graph.covered:.1%} of "
        f"{graph.seconds * 1e6:.4g} us, the sum of bounds on {card}"
    ]
    for part in graph.parts:
        share = part.seconds / graph.seconds if graph.seconds else 0.0
        what = "kernel " if part.is_kernel else "PyTorch"
        why = ", ".join(part.operations) if part.is_kernel else f"{part.operations[0]}: {part.reason}"
        lines.append(f"  {share:>6.1%}  {what}  {part.name}: {why[:LONGEST]}")
    return "\n".join(lines)
