"""An imported program: kernels as `mu` and as text, driver, and operations left to PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp

from mucc.frontend.source import module_text
from mucc.torch.importer import operations
from mucc.torch.importer.capture import Captured, torch
from mucc.torch.importer.counting import Count, bytes_of, count_of, read_bytes
from mucc.torch.importer.divide import divider
from mucc.torch.importer.driver import Origin, driver_text
from mucc.torch.importer.emit import Kernel, emit_piece, module_of
from mucc.torch.importer.extents import derived_extents
from mucc.torch.importer.fold_norms import fold_norms, is_prepared
from mucc.torch.importer.integers import wide_integers
from mucc.torch.importer.known_indices import slice_known_indices
from mucc.torch.importer.known_values import KnownValues
from mucc.torch.importer.nodes import is_host, is_part, tensor_inputs
from mucc.torch.importer.ordered_weights import weight_orders
from mucc.torch.importer.packed_weights import pack_weights
from mucc.torch.importer.partition import (
    Formats,
    Graph,
    Node,
    Opaque,
    Piece,
    Step,
    attempt,
    partition,
    returned,
)
from mucc.torch.importer.piece_judge import PieceJudge, TextJudge
from mucc.torch.importer.strided_reads import take_strided
from mucc.torch.importer.work import ALIASES, Work, work_of

operations.load()


@dataclass(frozen=True)
class Row:
    """One operation of the module: what becomes of it, and its work.

    Of an operation that PyTorch runs `count` is what it computes at the least, None where that is not
    understood; `units` is the same by unit of the card, with products of f32 as torch is set up for them
    (`declared`), in tf32 and in f32. `moved` is what it reads and writes of arguments and results of the
    module, beyond others.
    """

    name: str
    operation: str
    kernel: str | None
    reason: str | None
    work: Work
    count: Count | None = None
    units: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    moved: int = 0


@dataclass
class Program:
    """The program imported from a module."""

    name: str
    graph: Graph
    steps: list[Kernel | Opaque] = field(default_factory=list[Kernel | Opaque])

    @property
    def kernels(self) -> list[Kernel]:
        return [s for s in self.steps if isinstance(s, Kernel)]

    @property
    def opaque(self) -> list[Opaque]:
        return [s for s in self.steps if isinstance(s, Opaque)]

    @cached_property
    def module(self) -> ModuleOp:
        """All kernels in one `mu` module."""
        return module_of(self.kernels)

    def text(self, comment: str = "") -> str:
        """Return the `.mcu` program; empty if there is no kernel."""
        return module_text(self.module, comment) if self.kernels else ""

    def driver(self, origin: Origin) -> str:
        """Return the source of the driver."""
        return driver_text(self.graph, self.steps, origin, f"{self.name}, imported from PyTorch.")

    def inner(self) -> dict[str, list[str]]:
        """By kernel, the parameters and results that the module as a whole need not move through memory.

        They are values between its operations, and inputs that an earlier kernel reads too.
        """
        leaves = returned(self.graph.captured)
        leaving = {self.graph.resolved(n) for n in self.graph.nodes if n.name in leaves}
        found: dict[str, list[str]] = {}
        read: set[object] = set()
        for kernel in self.kernels:
            parameters = zip(kernel.op.arg_names, kernel.parameters, strict=True)
            results = zip(kernel.op.result_names, kernel.results, strict=True)
            found[kernel.name] = [
                *(n.data for n, p in parameters if p in read or not self._is_given(p)),
                *(n.data for n, r in results if r not in leaving),
            ]
            read.update(kernel.parameters)
        return found

    def rows(self) -> list[Row]:
        """Every operation, in the order in which it runs."""
        found: list[Row] = []
        moved = self.moved()
        for step in self.steps:
            if isinstance(step, Opaque):
                nodes, kernel, reason = [step.node], None, step.reason
            else:
                nodes, kernel, reason = step.piece.nodes, step.name, None
            for node in nodes:
                if not isinstance(node.target, torch._ops.OpOverload) or is_host(node):
                    continue
                name = f"{node.target._schema.name.replace('::', '.')}.{node.target._overloadname}"
                row = Row(node.name, name, kernel, reason, work_of(node))
                if kernel is None and (count := count_of(node)) is not None:
                    formats = self.graph.formats
                    ways = {"declared": formats.conv if count.by_cudnn else formats.matmul}
                    ways |= {"tf32": "tf32", "f32": "f32"}
                    row = replace(row, count=count, units={n: count.units(f32) for n, f32 in ways.items()})
                found.append(replace(row, moved=moved.get(node, 0)))
        return found

    def moved(self) -> dict[Node, int]:
        """Of each operation that PyTorch runs, what it must read of arguments that nothing before it has
        read, no kernel does, and write of what leaves the module. In bytes."""
        leaves = returned(self.graph.captured)
        read = {parameter for kernel in self.kernels for parameter in kernel.parameters}
        found: dict[Node, int] = {}
        for node in (step.node for step in self.opaque):
            if _packet(node) in ALIASES:
                continue
            bytes = 0
            for source in map(self.graph.resolved, tensor_inputs(node)):
                origin = self._origin(source)
                if self._is_given(origin) and origin not in read:
                    read.add(origin)
                    bytes += min(read_bytes(node, source), bytes_of(origin.meta.get("val")))
            made = [node, *filter(is_part, node.users)]
            bytes += sum(bytes_of(n.meta.get("val")) for n in made if n.name in leaves)
            found[node] = bytes
        return found

    def _is_given(self, node: Node) -> bool:
        """Whether a value is there before the module computes anything: an argument, or of its state."""
        return node.name in self.graph.captured.inputs or is_prepared(node)

    def _origin(self, node: Node) -> Node:
        """Return the node that a view is of."""
        while _packet(node) in ALIASES and node.args:
            node = self.graph.resolved(node.args[0])
        return node


def _packet(node: Node) -> object:
    return getattr(node.target, "overloadpacket", None)


def import_graph(
    captured: Captured,
    name: str,
    formats: Formats,
    judge: TextJudge | None = None,
    names: Mapping[str, str] | None = None,
    target: str | None = None,
) -> Program:
    """Import a captured module. With a `judge`, only kernels that it accepts are made.

    With a `target`, kernels take weights of a module in inference in the order in which they read them.
    """
    fold_norms(captured)
    pack_weights(captured)
    take_strided(captured)
    slice_known_indices(
        captured.graph, KnownValues(captured.graph, lambda node: captured.constant(node.name))
    )
    derived = derived_extents(captured.graph.nodes, names or {})
    graph = Graph(captured, formats, names=names or {}, derived=derived, excluded=wide_integers(captured))
    steps = cut(graph, judge)
    leaving = returned(captured)
    pieces = [s for s in steps if isinstance(s, Piece)]
    names_of = [name] if len(pieces) == 1 else [f"{name}_{n}" for n in range(len(pieces))]

    def emitted(piece: Piece, name: str) -> Kernel:
        kernel = emit_piece(graph, piece, name, leaving)
        orders = weight_orders(captured, kernel, target) if target else {}
        return emit_piece(graph, piece, name, leaving, lies=orders.get) if orders else kernel

    kernels = iter([emitted(p, n) for p, n in zip(pieces, names_of, strict=True)])
    return Program(name, graph, [next(kernels) if isinstance(s, Piece) else s for s in steps])


def cut(graph: Graph, judge: TextJudge | None = None) -> list[Step]:
    """Return the steps of a graph in order. With a `judge`, only kernels that it accepts are made."""
    if judge is None:
        return partition(graph)
    judged = PieceJudge(graph, judge, returned(graph.captured))
    return partition(graph, judged, divider(graph, judged))


def has_kernel(graph: Graph, node: Node, judge: TextJudge | None) -> bool:
    """Whether an operation could be a kernel by itself."""
    if (found := attempt(graph, node)) is not None:
        return not isinstance(found, str)
    parts: list[Node] = [user for user in node.users if is_part(user)]
    leaving = [n.name for n in parts or [node]]
    return judge is None or PieceJudge(graph, judge, leaving)(Piece([node, *parts])) is None


def formats(compute: str | None, round: str = "fused") -> Formats:
    """Return the formats in which products of f32 are computed: torch's own settings, unless given."""
    if compute is not None:
        return Formats(compute, compute, round)
    matmul = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "f32"
    return Formats(matmul, "tf32" if torch.backends.cudnn.allow_tf32 else "f32", round)
