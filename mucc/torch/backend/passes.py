"""The pass that Inductor runs over each graph: it puts kernels of mucc in the place of regions."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.frontend.source import kernel_text
from mucc.library.dims import samples
from mucc.library.errors import MuccError
from mucc.runtime.build import CompileError, MuccWarning
from mucc.target import get_target
from mucc.target.devices import Card, calibrated
from mucc.torch.backend.background import Background, BuildRecord
from mucc.torch.backend.emission import Emitter
from mucc.torch.backend.expected import costs_of
from mucc.torch.backend.graphs import Extents, graph_of
from mucc.torch.backend.joined import GraphPass
from mucc.torch.backend.measured import Regions, Timed, Wanted
from mucc.torch.backend.operator import Builds, Request
from mucc.torch.backend.options import Options
from mucc.torch.backend.pending import PendingBuilds
from mucc.torch.backend.regions import Choice, Chooser
from mucc.torch.backend.rewrite import Copy, Region
from mucc.torch.importer.capture import torch
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.judge import compiles
from mucc.torch.importer.partition import Graph, Opaque
from mucc.torch.importer.program import Program, cut, formats

log = logging.getLogger("mucc.torch")

MOST_SAMPLES = 20
"""The most sizes for which one kernel is compiled, to choose its schedules."""


@dataclass
class Divided:
    """A graph of Inductor, divided: a program of the kernels that stand in it, and what was decided.

    `name` is forward, backward or inference; `dims` are typical values of open extents.
    """

    name: str
    program: Program
    dims: Mapping[str, int]
    choice: Choice


class RegionsPass(GraphPass):
    """A pass behind AOTAutograd (`post_grad_custom_pre_pass`) for graphs on one card.

    `report` is called with each graph that was divided. With `background`, graphs whose kernels are not built
    soon are left as they are. With `pending`, chosen kernels are built there, and the pass does not wait.
    """

    pending: PendingBuilds | None = None

    def __init__(
        self,
        options: Options,
        card: Card,
        is_inference: bool,
        anywhere: bool,
        report: Callable[[Divided], None],
        background: Background | None = None,
    ):
        self.options, self.card, self.is_inference, self.anywhere = options, card, is_inference, anywhere
        self.report, self.background = report, background
        self.costs = costs_of(card)
        is_there = torch.cuda.is_available() and not anywhere
        name = torch.cuda.get_device_name() if is_there else card.device.name
        self.regions = Regions(card.target.name, name, options.config, options.measures)

    def key(self) -> str:
        formats_ = formats(self.options.compute, self.options.round)
        card = (self.card.target.name, self.card.device.key, sorted(self.card.device.measured.items()))
        return repr((self.options, formats_, card, self.anywhere))

    def run(self, graph: Any) -> None:
        """Replace regions in a graph. What fails is reported, and the graph is left as it is."""
        if any(n.op == "placeholder" and "val" not in n.meta for n in graph.nodes):
            return  # the body of a control flow operation, which Inductor traces later
        try:
            divided = self.divided(graph, self.apply)
        except Exception as error:
            failed(error, self.options)
            return
        self.report(divided)

    def divided(self, graph: Any, apply: Callable[..., list[Kernel]]) -> Divided:
        """Divide a graph, and `apply` the choice. Raises what mucc raises; the graph is unchanged then."""
        options = self.options
        copy = Copy.of(graph)
        meta, dims = graph_of(
            copy.graph, graph.owning_module, formats(options.compute, options.round), self.anywhere
        )

        def chosen(builds: Builds) -> Choice:
            refused: dict[str, str] = {}
            while True:
                choice = self._choice(copy, meta, dims, refused, builds)
                problems = self.built(choice, dims, builds)
                if not problems:
                    return choice
                refused.update(problems)

        if self.background is not None:
            background, record = self.background, BuildRecord(graph, self.key())

            def noted(builds: Builds) -> Choice:
                choice = chosen(builds)
                background.gains = background.gains or bool(choice.kernels)
                record.store()
                return choice

            choice = background.result(noted, record.may_be_cached())
        elif self.pending is not None:
            choice = chosen(self.pending)
        else:
            with Builds() as builds:
                choice = chosen(builds)
        kernels = apply(graph, copy, meta, dims, choice)
        name = _name(graph, self.is_inference)
        log.info("%s: %d kernels among %d operations", name, len(kernels), len(meta.nodes))
        return Divided(name, Program("graph", meta, [*kernels]), dims.sizes, choice)

    def seconds(self, module: Any) -> float:
        """Predict the time of a graph with the kernels that would be taken, and nothing measured or built."""
        options = self.options
        copy = Copy.of(module.graph)
        meta, dims = graph_of(copy.graph, module, formats(options.compute, options.round), self.anywhere)
        emit = Emitter(meta)
        launches = not options.has_cuda_graphs
        chooser = Chooser(
            meta, self.costs, dims.sizes, options.margin, emit, self._text, {}, launches=launches
        )
        choice = chooser.choice()
        return choice.rest + sum(d.mucc for d in choice.decisions if d.taken)

    def _choice(
        self, copy: Copy, graph: Graph, dims: Extents, refused: dict[str, str], builds: Builds
    ) -> Choice:
        emit = Emitter(graph) if self.background is None else Emitter(graph, self.background.hold)
        if self.options.regions == "expected":
            new: dict[str, Wanted] = {}

            def measure(kernel: Kernel) -> Timed | None:
                wanted = Wanted(Region.of(kernel, copy, graph), self.request(kernel, dims))
                try:
                    found = self.regions.find(wanted)
                except ValueError:
                    return None  # an extent is open
                if found is None and self.regions.is_new(wanted):
                    new[self.regions.key(wanted)] = wanted
                return found

            def taken(kernel: Kernel) -> None:
                self.begin(builds, self.request(kernel, dims))

            while True:
                margin = self.options.margin
                launches = not self.options.has_cuda_graphs
                chooser = Chooser(
                    *(graph, self.costs, dims.sizes, margin, emit, self._text, refused),
                    *(measure, taken, launches),
                )
                choice = chooser.choice()
                if not new:
                    return choice
                self._measure(list(new.values()), graph, refused, builds)
                new.clear()
        steps = cut(graph, compiles(self.card.target.name))
        kernels = [emit(step) for step in steps if not isinstance(step, Opaque)]
        return Choice([k for k in kernels if self._text(k) not in refused])

    def _measure(self, wanted: list[Wanted], graph: Graph, refused: dict[str, str], builds: Builds) -> None:
        """Build the kernels of regions at once, and measure one region after the other."""
        problems = self._build([w.request for w in wanted], builds)
        refused.update(problems)
        for each in wanted:
            if each.request.program not in problems:
                self.measure(each, graph)

    def measure(self, wanted: Wanted, graph: Graph) -> None:
        """Measure a region whose kernel is built."""
        self.regions.measure(wanted, graph)

    def begin(self, builds: Builds, request: Request) -> None:
        """Begin to build a kernel, while others are chosen."""
        builds.begin([request])

    def built(self, choice: Choice, dims: Extents, builds: Builds) -> dict[str, str]:
        """Build the kernels of a choice; returns why programs could not be built."""
        requests = [self.request(k, dims) for k in choice.kernels]
        if self.pending is not None:
            self.pending.require(requests)
            return {}
        return self._build(requests, builds)

    def finished(self, requests: list[Request], builds: Builds) -> dict[Request, CompileError]:
        """Wait for kernels; returns those that do not compile."""
        return builds.finish(requests)

    def _build(self, requests: list[Request], builds: Builds) -> dict[str, str]:
        problems = self.finished(requests, builds)
        if problems and self.options.fallback == "error":
            raise next(iter(problems.values()))
        found = {r.program: f"{e.code}: {e.message}" for r, e in problems.items()}
        for reason in dict.fromkeys(found.values()):
            say_once("MU7060", f"Inductor compiles what mucc could not build a kernel of: {reason}")
        return found

    def apply(self, graph: Any, copy: Copy, meta: Graph, dims: Extents, choice: Choice) -> list[Kernel]:
        """Put the kernels into the graph; returns those that could be."""
        made: dict[Any, Any] = {}
        taken: list[Kernel] = []
        for kernel in choice.kernels:
            region = Region.of(kernel, copy, meta)
            if region.is_movable(graph):
                keeps_order = self.options.rest == "eager"
                region.replace(graph, meta, self.request(kernel, dims), keeps_order, made)
                taken.append(kernel)
        return taken

    def request(self, kernel: Kernel, dims: Extents) -> Request:
        """Return what the operator is asked for to run a kernel."""
        typical = _sizes(kernel.op.dim_names, dims, self.options.sizes)
        options = self.options
        return Request(
            self._text(kernel),
            self.card.target.name,
            tuple(typical.items()),
            options.interpret,
            options.fallback == "error",
        )

    def _text(self, kernel: Kernel) -> str:
        """Generate the source of one kernel, with given schedules."""
        text = kernel_text(kernel.op)
        for name, settings in self.options.schedules.items():
            if name.partition(".")[0] == kernel.name:
                text += f"\nschedule {name} for {self.card.target.name} {{\n{settings}\n}}\n"
        return text


def failed(error: Exception, options: Options) -> None:
    """Report that Inductor compiles a graph without mucc; with `fallback="error"`, raise the error."""
    if options.fallback == "error":
        raise error
    coded = error.diagnostics[0] if isinstance(error, DiagnosticError) else error
    is_coded = isinstance(coded, Diagnostic | MuccError)
    what = f"{coded.code}: {coded.message}" if is_coded else repr(error)
    warnings.warn(
        f"MU7060: Inductor compiles a graph that mucc did not take: {what}", MuccWarning, stacklevel=2
    )
    log.info("a graph falls back to Inductor", exc_info=error)


def card_of(target: str, device: str | None = None) -> Card:
    """Return the card of a target by the driver's name; the target's first card if that is not known."""
    devices = get_target(target).facts.devices
    found = next((d for d in devices if d.name == device), devices[0])
    return calibrated(Card(get_target(target), found))


def _name(graph: Any, is_inference: bool) -> str:
    """Return which graph of AOTAutograd a graph is, by the names of its inputs."""
    if is_inference:
        return "inference"
    gradients = any(n.op == "placeholder" and n.name.startswith("tangents") for n in graph.nodes)
    return "backward" if gradients else "forward"


def _sizes(names: Sequence[str], dims: Extents, otherwise: tuple[int, int] | None) -> dict[str, int | str]:
    """Return the sizes for which a kernel's schedules are chosen: a range, or the size seen, of each dim.

    `otherwise` is the range of dims without a declared one. What is more than `MOST_SAMPLES` is left out.
    """
    found: dict[str, int | str] = {}
    count = 1
    for name in names:
        if name not in dims.sizes:
            continue
        found[name] = _rounded(dims.sizes[name])
        low, high = dims.ranges.get(name) or otherwise or (0, 0)
        if low and count * (more := len(samples(range(low, high + 1)))) <= MOST_SAMPLES:
            found[name] = f"{low}..{high}"
            count *= more
    return found


def _rounded(extent: int) -> int:
    """Round a typical size to a power of two, so that similar sizes share cached kernels."""
    return 1 << max(extent - 1, 7).bit_length()


_said: set[str] = set()


def say_once(code: str, message: str) -> None:
    """Warn of something once in a process."""
    if message not in _said:
        _said.add(message)
        warnings.warn(f"{code}: {message}", MuccWarning, stacklevel=3)
