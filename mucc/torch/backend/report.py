"""`mucc.explain`: report how `torch.compile(model, backend="mucc")` divides a model, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from mucc.target.devices import Card, get_card
from mucc.torch.backend.backend import Backend
from mucc.torch.backend.copies import copied
from mucc.torch.backend.graphs import Extents
from mucc.torch.backend.operator import Builds, Request
from mucc.torch.backend.options import MARGIN, Options
from mucc.torch.backend.passes import Divided, RegionsPass
from mucc.torch.backend.regions import Choice, Decision
from mucc.torch.backend.without_trace import Memory, compile_apart, without_trace
from mucc.torch.importer.capture import torch
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.nodes import is_part

LONGEST = 78
"""The most characters of a reason in a table."""


@dataclass(frozen=True)
class Part:
    """A region of a graph, or a call of a library, with what was decided about it.

    Times are seconds on the card, predicted unless `measured`: `inductor` is what Inductor takes longer with
    the region than without it, `mucc` what a kernel of mucc takes, infinite if there is none.
    """

    name: str
    is_kernel: bool
    operations: tuple[str, ...]
    reason: str | None
    inductor: float
    mucc: float
    measured: bool = False

    @property
    def gain(self) -> float:
        """The seconds that a kernel of mucc gains; negative for a loss."""
        return self.inductor - self.mucc


@dataclass(frozen=True)
class GraphReport:
    """A graph: its program and its parts. `name` is forward, backward or inference.

    `alone` is the predicted time with Inductor alone, `seconds` that with the kernels of mucc.
    """

    name: str
    text: str
    parts: tuple[Part, ...]
    operations: int
    alone: float
    seconds: float

    @property
    def gain(self) -> float:
        """The seconds that the regions which mucc takes gain together."""
        return sum(p.gain for p in self.parts if p.is_kernel)

    @property
    def covered(self) -> float:
        """The share of the predicted time with Inductor alone that kernels of mucc stand for."""
        return sum(p.inductor for p in self.parts if p.is_kernel) / self.alone if self.alone else 0.0


@dataclass(frozen=True)
class Explanation:
    """The report on all graphs that dynamo made of a model, at the sizes of one call.

    `masks` is the number of calls of attention, forward and backward, whose mask is known and was dropped.
    """

    graphs: tuple[GraphReport, ...]
    card: str
    masks: int = 0

    def __str__(self) -> str:
        if not self.graphs:
            return "no graph: nothing of the model is captured by torch.compile"
        lines = [_lines(n, graph, self.card) for n, graph in enumerate(self.graphs)]
        if self.masks:
            calls = "a call" if self.masks == 1 else f"{self.masks} calls"
            lines.append(f"the mask of {calls} of attention is known: it is dropped, or causal")
        return "\n".join(lines)


def explain(
    model: Any,
    *inputs: Any,
    device: str = "h200",
    compute: str | None = None,
    margin: float = MARGIN,
    **keywords: Any,
) -> Explanation:
    """Report how `torch.compile(model, backend="mucc")` divides a call, with predicted times on a card.

    `keywords` are arguments of the call, as `inputs` are.

    The model runs once, by PyTorch, where its tensors are; nothing is compiled. Tensors that its graphs
    change and the state of random numbers are restored, and torch.compile knows nothing of the call. Raises
    MU5401 for a card that mucc does not know, and what the model raises.
    """
    card = get_card(device)
    options = Options.of(
        {
            "target": card.target.name,
            "compute": compute,
            "margin": margin,
            "fallback": "error",
            "rest": "eager",
        }
    )
    recorder = _Recorder(options, card)
    with without_trace(recorder.memory):
        results = compile_apart(model, recorder)(*inputs, **keywords)
        _with_backward(model, results, (inputs, keywords))
    return Explanation(tuple(map(_report, recorder.divided)), card.device.name, recorder.masks)


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

    runs_graphs = False

    def __init__(self, options: Options, card: Card):
        super().__init__(options)
        self.card = card
        self.memory = Memory()

    def __call__(self, module: Any, inputs: Sequence[Any], mode: str | None = None, **_: Any) -> Any:
        given = copied(module)  # compiling changes it
        run = super().__call__(module, inputs, mode)

        def call(*arguments: Any) -> Any:
            self.memory.keep(given, arguments)
            return run(*arguments)

        return call

    def target(self, inputs: Sequence[Any]) -> str:
        return self.card.target.name

    def graph_pass(self, options: Options, target: str, is_inference: bool) -> RegionsPass:
        return _RecordingPass(options, self.card, is_inference, True, self.divided.append)


class _RecordingPass(RegionsPass):
    """The pass without its effect: it builds nothing, and leaves graphs as they are."""

    def begin(self, builds: Builds, request: Request) -> None:
        pass

    def built(self, choice: Choice, dims: Extents, builds: Builds) -> dict[str, str]:
        return {}

    def apply(self, graph: Any, copy: Any, meta: Any, dims: Any, choice: Choice) -> list[Kernel]:
        return choice.kernels


def _report(divided: Divided) -> GraphReport:
    choice = divided.choice
    taken = sum(d.mucc for d in choice.decisions if d.taken)
    return GraphReport(
        divided.name,
        divided.program.text(),
        tuple(map(_part, choice.decisions)),
        len(divided.program.graph.nodes),
        choice.alone,
        choice.rest + taken,
    )


def _part(decision: Decision) -> Part:
    operations = tuple(_operation(n) for n in decision.nodes if not is_part(n))
    return Part(
        decision.name,
        decision.taken,
        operations,
        decision.reason or None,
        decision.inductor,
        decision.mucc,
        decision.measured,
    )


def _operation(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.replace("::", ".") if schema is not None else str(node.target)


def _lines(number: int, graph: GraphReport, card: str) -> str:
    kernels = sum(p.is_kernel for p in graph.parts)
    lines = [
        f"graph {number} ({graph.name}): mucc takes {kernels} region{'' if kernels == 1 else 's'} among "
        f"{graph.operations} operations, and gains {_us(graph.gain)} us; expected {_us(graph.seconds)} us "
        f"on {card}, {_us(graph.alone)} with Inductor alone"
    ]
    for part in graph.parts:
        who = "mucc    " if part.is_kernel else "Inductor"
        why = ", ".join(part.operations)
        if part.reason:
            why = f"{part.operations[0]}: {part.reason}" if len(part.operations) == 1 else part.reason
        lines.append(f"  {who}  {_times(part)}  {part.name}: {why[:LONGEST]}")
    return "\n".join(lines)


def _times(part: Part) -> str:
    """Return the times of a part, with what mucc gains, in a column."""
    if not isfinite(part.mucc):
        return " " * 49
    how = "measured" if part.measured else "predicted"
    gain = round(part.gain * 1e6, 4) + 0.0  # differences of sums leave a last digit, or -0
    return f"{_us(part.mucc):>8} for {_us(part.inductor):>8} us, {gain:+9.4g} us {how:9}"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g}"
