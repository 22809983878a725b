"""Walks over graphs of any depth, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def postorder(root: T, needs: Callable[[T], Iterable[T]], done: Container[T] = ()) -> Iterator[T]:
    """Yield everything that `root` needs, each once and after what it needs itself; `root` is the last.

    `needs` is asked when a node is come to, so that it may leave out what was made meanwhile. What is in
    `done`, which may grow meanwhile, is left out with all that only it needs.
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
