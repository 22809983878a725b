"""Open extents of an import: axes of arguments with names, and extents that must be fixed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from mucc.frontend.names import Names
from mucc.torch.importer.arguments import Arguments
from mucc.torch.importer.capture import Captured, capture, failure, torch
from mucc.torch.importer.extents import name_extents, open_extents, typical
from mucc.torch.importer.nodes import is_host, is_part, tensor_inputs
from mucc.torch.importer.partition import Graph
from mucc.torch.importer.program import Formats, Program, TextJudge, has_kernel, import_graph
from mucc.torch.importer.work import ALIASES

AUTOMATIC = "auto"
"""The word for opening all axes except those that must be fixed."""

ROUNDS = 6
"""Imports until nothing more is fixed: each fixes what the last one found."""


@dataclass
class Dynamic:
    """Open axes by the position of a tensor among the leaves of the arguments, with their names.

    A name is empty where none was given. `automatic`: what is open may be fixed where that makes a kernel.
    """

    axes: dict[int, dict[int, str]]
    arguments: dict[int, str]
    """The names of tensors in messages."""
    automatic: bool = False
    notes: list[str] = field(default_factory=list[str])
    """The fixed extents, with reasons."""

    def export_shapes(self, given: Arguments) -> Any:
        """torch.export's `dynamic_shapes`."""
        auto = torch.export.Dim.AUTO
        axes = [dict.fromkeys(self.axes.get(n, ()), auto) or None for n in range(len(given.leaves))]
        return dict(given.with_leaves(axes).bound.arguments)

    def fix(self, position: int, axis: int, size: Any, why: str) -> None:
        """Fix an axis, and record the reason."""
        del self.axes[position][axis]
        self.notes.append(f"axis {axis} of '{self.arguments[position]}' is {size} in the program: {why}")

    def names(self, captured: Captured) -> dict[str, str]:
        """Names by torch's symbol; notes what torch fixed while it captured."""
        found: dict[str, str] = {}
        for name, given in captured.inputs.items():
            node = next(n for n in captured.graph.nodes if n.name == name)
            for axis, called in list(self.axes.get(given.position, {}).items()):
                extent = node.meta["val"].shape[axis]
                if isinstance(extent, int) or str(extent).isdigit():
                    self.fix(given.position, axis, extent, "the module runs at no other size")
                elif called:
                    found.setdefault(str(extent), called)
        return found

    def needed(self, program: Program, judge: TextJudge | None) -> bool:
        """Fix what operations need a number of to be kernels; whether there was anything."""
        changed = False
        nodes = {n.name: n for n in program.graph.captured.graph.nodes}
        for step in program.opaque:
            wanted = _needs(program.graph, step.node, judge)
            for name, given in program.graph.captured.inputs.items():
                for axis in list(self.axes.get(given.position, ()) if wanted else ()):
                    extent = nodes[name].meta["val"].shape[axis]
                    if _symbols(extent) & wanted:
                        self.fix(given.position, axis, typical(extent), f"{step.node.target}: {step.reason}")
                        changed = True
        return changed


def _symbols(extent: Any) -> set[str]:
    """Return the symbols of torch from which an extent is computed."""
    return {str(s) for s in extent.node.expr.free_symbols} if isinstance(extent, torch.SymInt) else set()


def _needs(graph: Graph, node: Any, judge: TextJudge | None) -> set[str]:
    """Return the fewest of torch's symbols that must be numbers for an operation to be a kernel."""
    if getattr(node.target, "overloadpacket", None) in ALIASES or is_host(node) or is_part(node):
        return set()
    extents = list(open_extents([node, *tensor_inputs(node)]))
    fixed = dict.fromkeys(s for e in extents for s in sorted(_symbols(e)))
    if not tensor_inputs(node) or not fixed or _works(graph, node, set(), extents, judge):
        return set()
    if not _works(graph, node, set(fixed), extents, judge):
        return set()
    for symbol in list(fixed):
        if _works(graph, node, set(fixed) - {symbol}, extents, judge):
            del fixed[symbol]
    return set(fixed)


def _works(graph: Graph, node: Any, fixed: set[str], extents: Sequence[Any], judge: TextJudge | None) -> bool:
    """Whether an operation becomes a kernel if some symbols are fixed."""
    sizes = {str(e): typical(e) for e in extents if _symbols(e) <= fixed}
    return has_kernel(replace(graph, sizes=sizes), node, judge)


def parse_dynamic(words: Iterable[str]) -> str | dict[str, dict[int, str]]:
    """`auto`, or axes by argument, of words such as `x:0=M,y:1=N`. Raises DiagnosticError MU7023."""
    parts = [p for word in words for p in word.split(",") if p]
    if parts == [AUTOMATIC]:
        return AUTOMATIC
    found: dict[str, dict[int, str]] = {}
    for part in parts:
        match = re.fullmatch(r"(\w+):(\d+)(?:=(\w+))?", part)
        if match is None:
            raise _wrong(f"'{part}' names no axis of an argument")
        found.setdefault(match[1], {})[int(match[2])] = match[3] or ""
    return found


def dynamic_of(wanted: Any, given: Arguments) -> Dynamic:
    """Return the open extents, of `auto`, of axes by argument, or of torch.export's `dynamic_shapes`.

    Raises DiagnosticError MU7023 for an argument, an axis or a name that cannot be.
    """
    tensors = _tensors(given)
    arguments = {position: name for name, (position, _) in tensors.items()}
    ranks = {position: value.dim() for position, value in tensors.values()}
    if wanted == AUTOMATIC:
        return Dynamic({p: dict.fromkeys(range(r), "") for p, r in ranks.items()}, arguments, automatic=True)
    by_name = wanted
    if isinstance(wanted, tuple | list):
        by_name = dict(zip(given.bound.arguments, cast("Sequence[Any]", wanted), strict=False))
    axes: dict[int, dict[int, str]] = {}
    for name, opened in cast("dict[str, Any]", by_name).items():
        if not opened:
            continue
        if name not in tensors:
            listed = ", ".join(tensors) or "none"
            raise _wrong(f"'{name}' is no tensor among the arguments", f"there are: {listed}")
        position, value = tensors[name]
        for axis, dim in _by_axis(opened).items():
            if dim is None or (isinstance(dim, int) and not isinstance(dim, bool)):
                continue
            if not 0 <= axis < value.dim():
                raise _wrong(f"'{name}' has {value.dim()} axes, no axis {axis}")
            axes.setdefault(position, {})[axis] = _called(dim)
    return Dynamic(axes, arguments)


def _by_axis(wanted: Any) -> dict[int, Any]:
    """Return the open axes of one argument."""
    return dict(wanted.items() if hasattr(wanted, "items") else enumerate(cast("list[Any]", wanted)))


def _called(dim: Any) -> str:
    """Return the name of a dim; '' for torch's hints, which have no name. Raises MU7023."""
    name = dim if isinstance(dim, str) else getattr(dim, "__name__", "")
    if name and Names().new(name) != name:
        raise _wrong(f"a dim cannot be called '{name}'")
    return name


def _tensors(given: Arguments) -> dict[str, tuple[int, Any]]:
    """Return the tensors among the arguments by parameter of `forward`, with their leaf numbers."""
    found: dict[str, tuple[int, Any]] = {}
    position = 0
    for name, value in given.bound.arguments.items():
        leaves = torch.utils._pytree.tree_leaves(value)
        for n, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                found[name if leaf is value else f"{name}_{n}"] = position + n, leaf
        position += len(leaves)
    return found


def _wrong(message: str, *helps: str) -> Exception:
    return failure("MU7023", message, *helps, "`x:0=M` opens the first axis of argument x, as dim M")


def import_dynamic(
    module: Any,
    given: Arguments,
    name: str,
    formats: Formats,
    judge: TextJudge | None,
    dynamic: Dynamic,
) -> Program:
    """Import a program with open extents. Automatic ones are fixed where kernels need their numbers."""
    rounds = 0
    while True:
        shapes = dynamic.export_shapes(given)
        captured = capture(module, given.bound.args, given.bound.kwargs, dynamic=shapes)
        names = name_extents(captured.graph.nodes, dynamic.names(captured))
        program = import_graph(captured, name, formats, judge, names)
        rounds += 1
        if not dynamic.automatic or rounds == ROUNDS or not dynamic.needed(program, judge):
            return program
