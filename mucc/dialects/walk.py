"""Iterative graph traversal, for graphs deeper than Python's recursion limit."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def postorder(root: T, needs: Callable[[T], Iterable[T]], done: Container[T] = ()) -> Iterator[T]:
    """Yield the transitive dependencies of `root` in postorder, each once; `root` is the last.

    `needs(node)` returns the direct dependencies of a node. It is called when the node is reached, so its
    answer may depend on nodes that were yielded before. Nodes in `done`, which may grow during the walk, are
    skipped together with all that only they need.
    """
    if root in done:
        return
    seen = {root}
    open_nodes = [(root, iter(needs(root)))]
    while open_nodes:
        node, rest = open_nodes[-1]
        following = next((n for n in rest if n not in seen and n not in done), None)
        if following is None:
            open_nodes.pop()
            yield node
        else:
            seen.add(following)
            open_nodes.append((following, iter(needs(following))))
