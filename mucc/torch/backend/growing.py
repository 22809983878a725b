"""Grow regions of a graph around a call: sets of operations that one kernel might compute."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from mucc.torch.backend.fusible import is_fused, values_of
from mucc.torch.importer.capture import torch
from mucc.torch.importer.counting import bytes_of
from mucc.torch.importer.nodes import is_host, is_part, tensor_inputs
from mucc.torch.importer.partition import Graph, Node, names_of, readers, returned
from mucc.torch.importer.work import ALIASES

MOST = 64
"""The most operations of a region."""

BATCHED = (torch.ops.aten.bmm.default, torch.ops.aten.matmul.default)
"""Batched products of matrices, of which attention has two."""

CONVOLUTION = torch.ops.aten.convolution.default
CONCATENATION = torch.ops.aten.cat.default


class Grower:
    """Grows regions around the `calls` of a graph, operations for which Inductor would call a library.

    Operations in `reasons` (see `classify`) are in no region, and those in `own` are in one that was taken.
    """

    def __init__(self, graph: Graph, calls: Collection[Node], reasons: Mapping[Node, str]):
        self.graph, self.calls, self.reasons = graph, calls, reasons
        self.leaving = set(returned(graph.captured))
        self.place = {n: i for i, n in enumerate(graph.nodes)}
        self.own: set[Node] = set()
        self.sources: dict[Node, list[Node]] = {}
        self.readers: dict[Node, list[Node]] = {}

    def takes(self, node: Node) -> bool:
        """Whether an operation may be part of a region."""
        return (
            node.op == "call_function"
            and node not in self.reasons
            and node not in self.graph.aliases
            and node not in self.graph.constants
            and not is_host(node)
            and node not in self.own
        )

    def around(self, seed: Node) -> Iterator[list[Node]]:
        """Yield candidate regions that contain a call to a library, the smallest first, each once."""
        found = [self._sorted(self._with_views({seed}))]
        for weighted in self._with_scores(seed):
            if (region := self._whole(weighted)) not in found:
                found.append(region)
        for prologue in (False, True):
            for joined in (False, True):
                for reductions in (False, True):
                    region = self._grown(seed, prologue, joined, reductions)
                    if region not in found:
                        found.append(region)
        if seed.target is CONVOLUTION:
            found += [whole for region in found if (whole := self._concatenated(region))]
        yield from sorted(found, key=len)

    def with_copies(self, nodes: Sequence[Node]) -> list[Node]:
        """Add copies and views that only a region reads: its kernel reads the originals instead."""
        region = set(nodes)
        waiting = list(nodes)
        while waiting:
            for source in waiting.pop().all_input_nodes:
                is_free = source in self.graph.aliases or _is_view(source)
                if source in region or not is_free or source.name in self.leaving:
                    continue
                if all(u in region for u in source.users):
                    region.add(source)
                    waiting.append(source)
        return self._sorted(region)

    def _concatenated(self, nodes: Sequence[Node]) -> list[Node]:
        """Add the concatenation that alone reads what a region makes; empty if there is none.

        It makes the region write more. A kernel of a convolution stores its own part, and copies the others.
        """
        region = set(nodes)
        users = self._users(region)
        if [n.target for n in users] != [CONCATENATION] or not self.takes(users[0]):
            return []
        leaves = any(n.name in self.leaving for node in region for n in names_of(self.graph, node))
        if leaves or self._leaves_and_returns({*region, *users}):
            return []
        return self._sorted({*region, *users})

    def _with_scores(self, seed: Node) -> list[set[Node]]:
        """Return regions of two batched products: one whose left factor is computed from the other's result.

        Scores may have several products as terms, such as those of relative positions. Each is the first
        product of a region of its own, which reads the others.
        """
        if seed.target not in BATCHED:
            return []
        region, waiting = self._with_views({seed}), [self.graph.resolved(seed.args[0])]
        between: dict[Node, None] = {}
        products: dict[Node, None] = {}
        while waiting:
            node = waiting.pop()
            if (node in region and not _is_view(node)) or node in products:
                continue
            if not self.takes(node) or len(region) >= MOST or not self._is_own(node, {*region, *products}):
                continue
            if node.target in BATCHED:
                products[node] = None
            elif is_fused(node) or _is_view(node):
                region.add(node)
                between[node] = None
                waiting += self._sources(node)
        return [self._without(products, region, between, scores) for scores in products]

    def _without(
        self, products: Collection[Node], region: set[Node], between: Collection[Node], scores: Node
    ) -> set[Node]:
        """Return a region with one of the products, without what is computed from the others alone."""
        found, left = {*region, scores}, {p for p in products if p is not scores}
        behind = {scores}
        for node in self._sorted(between):
            sources = self._sources(node)
            if any(s in behind for s in sources):
                behind.add(node)
            elif any(s in left for s in sources):
                left.add(node)
        found -= left
        for node in reversed(self._sorted(between)):
            if node in found and not all(u in found for u in self._readers(node)):
                found.discard(node)
        return found | self._with_views({scores})

    def _grown(self, seed: Node, prologue: bool, joined: bool, reductions: bool) -> list[Node]:
        """Grow a region by its readers, then by what only it reads."""
        region = self._with_views({seed})
        waiting = self._users(region)
        while waiting and len(region) < MOST:
            node = waiting.pop(0)
            if node in region or not self.takes(node) or not (is_fused(node) or is_part(node)):
                continue
            if not reductions and _reduces(node):
                continue
            more = {node}
            if joined:
                more |= self._feeding(node, region, calls=True)
            if self._leaves_and_returns(region | more):
                more = {node}
                if self._leaves_and_returns(region | more):
                    continue
            region |= self._with_views(more)
            waiting = self._users(region)
            waiting = [n for n in waiting if not self._leaves_and_returns(region | {n})]
        self._trim(region, seed)
        if prologue:
            for node in list(region):
                region |= self._feeding(node, region, calls=False)
        return self._whole(region)

    def _users(self, region: Collection[Node]) -> list[Node]:
        found = {u for n in region for u in self._readers(n) if u.op == "call_function"}
        return self._sorted(u for u in found if u not in region and u in self.place)

    def _sorted(self, nodes: Iterator[Node] | Collection[Node]) -> list[Node]:
        return sorted(nodes, key=self.place.__getitem__)

    def _whole(self, region: Collection[Node]) -> list[Node]:
        """Return a region in order, without parts of tuples that are made outside of it."""
        return self._sorted(n for n in region if not is_part(n) or n.args[0] in region)

    def _sources(self, node: Node) -> list[Node]:
        if node not in self.sources:
            self.sources[node] = [self.graph.resolved(s) for s in tensor_inputs(node)]
        return self.sources[node]

    def _readers(self, node: Node) -> list[Node]:
        if node not in self.readers:
            self.readers[node] = readers(self.graph, node)
        return self.readers[node]

    def _with_views(self, nodes: set[Node]) -> set[Node]:
        """Add the parts of tuples, and views that only these nodes read: kernels read through them."""
        region = set(nodes)
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            for part in (u for u in node.users if is_part(u) and self.takes(u)):
                region.add(part)
            for source in self._sources(node):
                if source not in region and _is_view(source) and self._is_own(source, region):
                    region.add(source)
                    waiting.append(source)
        return region

    def _is_own(self, node: Node, region: Collection[Node]) -> bool:
        """Whether only a region reads a value."""
        if not self.takes(node) or any(n.name in self.leaving for n in names_of(self.graph, node)):
            return False
        return all(u in region for u in self._readers(node))

    def _feeding(self, node: Node, region: Collection[Node], calls: bool) -> set[Node]:
        """Return operations that only compute operands of a node; with `calls`, libraries' too."""
        found: set[Node] = set()
        waiting = [node]
        while waiting and len(found) < MOST:
            for source in self._sources(waiting.pop()):
                known = {*region, node, *found}
                if source in known or not self._is_own(source, known):
                    continue
                maker = source.args[0] if is_part(source) else source
                if maker in known or is_fused(maker) or (calls and maker in self.calls):
                    found.add(source)
                    waiting.append(source)
        return found

    def _leaves_and_returns(self, region: Collection[Node]) -> bool:
        """Whether a value of a region is read outside by something that the region reads."""
        last = max(self.place[n] for n in region)
        outside: set[Node] = set()
        for node in self.graph.nodes[min(self.place[n] for n in region) : last + 1]:
            sources = self._sources(node)
            if node in region:
                if any(s in outside for s in sources):
                    return True
            elif any(s in region or s in outside for s in sources):
                outside.add(node)
        return False

    def _trim(self, region: set[Node], seed: Node) -> None:
        """Drop operations at the end that make the region write more, or what could follow it as well."""
        changed = True
        while changed:
            changed = False
            for node in reversed(self._sorted(region)):
                if node is seed or any(u in region for u in self._readers(node)):
                    continue
                before = self._written(region)
                after = self._written(region - {node})
                if after < before or (after == before and not _computes(node)):
                    region.discard(node)
                    changed = True

    def _written(self, region: Collection[Node]) -> int:
        return sum(size(n) for n in region if not is_part(n) and self._is_result(n, region))

    def _is_result(self, node: Node, region: Collection[Node]) -> bool:
        for name in names_of(self.graph, node):
            if name.name in self.leaving:
                return True
            if any(u not in region and u not in self.graph.aliases for u in name.users if u.op != "output"):
                return True
        return False


def _is_view(node: Node) -> bool:
    """Whether an operation is a view, or one of several that another makes."""
    made = node.args[0] if is_part(node) else node
    return getattr(made.target, "overloadpacket", None) in ALIASES


def _computes(node: Node) -> bool:
    """Whether an operation computes, and is not only a view or a part of what comes before."""
    return not _is_view(node) and not is_part(node)


def _reduces(node: Node) -> bool:
    """Whether an operation has fewer elements than it reads."""
    read = max((size(s) for s in tensor_inputs(node)), default=0)
    return not _is_view(node) and 2 * size(node) < read


def size(node: Node) -> int:
    """Return the bytes of the values that an operation makes."""
    return sum(bytes_of(v) for v in values_of(node))
