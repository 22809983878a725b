"""Measure regions of a graph: as Inductor lowers them alone, and with mucc's kernel in their place.

Times are kept in the tuning database, under a digest of the region, its kernel's program, how Inductor was
set up and both versions. A later compilation, or another process, measures nothing that is known.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mucc.database.records import kernel_digest
from mucc.torch.backend.operator import Request
from mucc.torch.backend.rewrite import Region
from mucc.torch.backend.times import store, stored
from mucc.torch.backend.timing import Call, seconds_of
from mucc.torch.importer.capture import torch
from mucc.torch.importer.partition import Graph, Node
from mucc.torch.importer.work import ALIASES
from mucc.version import __version__

_inductor: Any = importlib.import_module("torch._inductor.compile_fx")

log = logging.getLogger("mucc.torch")

BYTES = 8 << 30
"""The most that the arguments of a region may take together to be measured."""

DISTANCE = 0.05
"""The relative distance of results, in 16-bit floats, from which a kernel counts as wrong."""

COMPILERS = "inductor", "mucc"

OFF: Mapping[str, Any] = {
    "post_grad_custom_pre_pass": None,
    "joint_custom_pre_pass": None,
    "triton.cudagraphs": False,
}
"""Inductor's settings for a region by itself."""


@dataclass(frozen=True)
class Timed:
    """Measured seconds of a region: as Inductor lowers it, and with the kernel; infinite if it is wrong."""

    inductor: float
    mucc: float


@dataclass(frozen=True)
class Wanted:
    """A region to be measured, about the graph that Inductor compiles, and what its kernel is."""

    region: Region
    request: Request

    @cached_property
    def form(self) -> str:
        """A text that equal regions share, wherever they are. Raises ValueError for open extents."""
        return form_of(alone(self.region)[0])


@dataclass
class Regions:
    """Times of regions on a card, from the tuning database, or measured now with `measures`.

    `card` is the name of the GPU, as the driver has it; `settings` are Inductor's options, which its lowering
    depends on.
    """

    target: str
    card: str
    settings: Mapping[str, Any]
    measures: bool = False
    known: dict[str, Timed | None] = field(default_factory=dict[str, Timed | None])

    def find(self, wanted: Wanted) -> Timed | None:
        """Return the times of a region that was measured; `known` says then whether it could be."""
        key = self.key(wanted)
        if key not in self.known and (stored := self._stored(key)) is not None:
            self.known[key] = stored
        return self.known.get(key)

    def is_new(self, wanted: Wanted) -> bool:
        """Whether a region is to be measured, as nothing is known of it."""
        return self.measures and self.key(wanted) not in self.known

    def measure(self, wanted: Wanted, graph: Graph) -> Timed | None:
        """Measure a region and keep its times; None if it cannot be run by itself. `graph` stays as it is."""
        key, region, request = self.key(wanted), wanted.region, wanted.request
        try:
            made = measured(region, graph, request, {**self.settings, **OFF})
        except Exception as error:
            log.info("%s is not measured: %r", region.kernel.name, error)
            made = None
        self.known[key] = made
        if made is not None:
            times: dict[str, float] = dict(zip(COMPILERS, (made.inductor, made.mucc), strict=True))
            store(self.target, self.card, key, region.kernel.name, "region", times)
        return made

    def key(self, wanted: Wanted) -> str:
        """Return a digest of everything that the times of a region depend on, but the card."""
        form, program = wanted.form, wanted.request.program
        setup = sorted((k, repr(v)) for k, v in self.settings.items() if k not in OFF)
        return kernel_digest(repr((form, program, setup, torch.__version__, __version__)))

    def _stored(self, key: str) -> Timed | None:
        times = stored(self.target, self.card, key)
        return Timed(*(times[c] for c in COMPILERS)) if set(COMPILERS) <= set(times) else None


def measured(region: Region, graph: Graph, request: Request, settings: Mapping[str, Any]) -> Timed:
    """Compile and time a region both ways, on random arguments. Raises what stands against that."""
    theirs, originals = alone(region)
    ours = replaced(region, graph, request, theirs, originals)
    values = [n.meta["val"] for n in theirs.nodes if n.op == "placeholder"]
    if sum(v.untyped_storage().nbytes() for v in values if isinstance(v, torch.Tensor)) > BYTES:
        raise ValueError("the arguments are too large")
    modules = [torch.fx.GraphModule({}, g) for g in (theirs, ours)]
    return _in_a_thread(lambda: _timed(modules, values, settings))


def alone(region: Region) -> tuple[Any, list[Node]]:
    """Copy a region's operations to a graph of their own; returns it with the nodes that it has copies of.

    Raises ValueError if an argument has an extent that is not a number.
    """
    own = _with_copies(region)
    nodes = [n for n in region.nodes[0].graph.nodes if n in own]
    sources = dict.fromkeys(s for n in nodes for s in n.all_input_nodes if s not in own)
    made, copies = torch.fx.Graph(), dict[Node, Node]()
    for source in sources:
        value = source.meta.get("val")
        if not isinstance(value, torch.Tensor) or not all(
            isinstance(e, int) for e in (*value.shape, *value.stride())
        ):
            raise ValueError("an extent is open")
        copies[source] = made.placeholder(source.name)
        copies[source].meta["val"] = value
    for node in nodes:
        copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(tuple(copies[r] for r in region.results))
    return made, [*sources, *nodes]


def _with_copies(region: Region) -> set[Node]:
    """Return the operations of a region, and the copies and views that only they read.

    The region's kernel reads the originals; without it these copies are made.
    """
    own, waiting = set(region.nodes), list(region.nodes)
    while waiting:
        for source in waiting.pop().all_input_nodes:
            packet = getattr(source.target, "overloadpacket", None)
            is_free = packet in ALIASES or packet is torch.ops.aten.clone
            if source in own or source in region.parameters or not is_free:
                continue
            if all(u in own for u in source.users):
                own.add(source)
                waiting.append(source)
    return own


def replaced(region: Region, graph: Graph, request: Request, theirs: Any, originals: Sequence[Node]) -> Any:
    """Return the graph of a region by itself with the kernel in its place."""
    made = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    made.output(made.graph_copy(theirs, copies))
    place = {a: copies[b] for a, b in zip(originals, list(theirs.nodes)[:-1], strict=True)}
    moved = Region(
        region.kernel,
        tuple(place[n] for n in region.nodes),
        tuple(place[n] for n in region.parameters),
        tuple(place[n] for n in region.results),
    )
    moved.replace(made, graph, request, False, {})
    made.eliminate_dead_code()
    made.lint()
    return made


def form_of(graph: Any) -> str:
    """Return a graph as text without names: operations, and dtypes, shapes and strides of its arguments."""
    numbers = {node: f"%{n}" for n, node in enumerate(graph.nodes)}
    rows: list[object] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            value = node.meta["val"]
            rows.append((str(value.dtype), tuple(value.shape), tuple(value.stride())))
        else:
            args, options = torch.fx.node.map_arg((node.args, node.kwargs), numbers.__getitem__)
            options = {k: v for k, v in options.items() if k != "device"}
            rows.append((str(node.target), args, options))
    return repr(rows)


def _timed(modules: Sequence[Any], values: Sequence[Any], settings: Mapping[str, Any]) -> Timed:
    """Compile two graphs of the same arguments by Inductor, compare their results, and time them."""
    with torch.no_grad():
        inputs = [_random(v) for v in values]
        calls: list[Call] = []
        for module in modules:
            for node in module.graph.nodes:
                node.meta = {}
            made = _inductor.compile_fx(module, inputs, config_patches=dict(settings))
            calls.append(lambda made=made: made(*inputs))
        wanted, got = (call() for call in calls)
        distance = max(_distance(a, b) for a, b in zip(got, wanted, strict=True))
        theirs, ours = seconds_of(calls)
    return Timed(theirs, ours if distance <= DISTANCE else float("inf"))


def _random(value: Any) -> Any:
    """Make a tensor with the shape, the strides and the dtype of a fake one; integers are 0."""
    extents = zip(value.shape, value.stride(), strict=True)
    elements = 1 + sum((e - 1) * s for e, s in extents) if value.numel() else 0
    options = {"device": value.device, "dtype": value.dtype}
    is_float = value.dtype.is_floating_point
    flat = torch.randn(elements, **options) if is_float else torch.zeros(elements, **options)
    return flat.as_strided(value.shape, value.stride())


def _distance(got: Any, wanted: Any) -> float:
    """Return the relative Frobenius distance of two results; those of integers are equal or not."""
    if not wanted.dtype.is_floating_point:
        return 0.0 if torch.equal(got, wanted) else float("inf")
    a, b = got.double(), wanted.double()
    both = torch.isfinite(a) & torch.isfinite(b)
    same = bool((torch.isfinite(a) == torch.isfinite(b)).all())
    size = float(torch.where(both, b, 0).square().sum()) or 1.0
    return (float(torch.where(both, a - b, 0).square().sum()) / size) ** 0.5 if same else float("inf")


def _in_a_thread(work: Callable[[], Timed]) -> Timed:
    """Run a compilation within another: in a thread, which has none of the contexts of the one around it."""
    found: list[Timed] = []
    problems: list[BaseException] = []
    device = torch.cuda.current_device() if torch.cuda.is_available() else None

    def run() -> None:
        try:
            if device is not None:
                torch.cuda.set_device(device)
            found.append(work())
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run, name="mucc measures a region")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return found[0]
