"""Base of mucc's passes over Inductor's graphs, which run behind those that a caller has set."""

from __future__ import annotations

import importlib
from typing import Any, Self

from mucc.build.cache.keys import loaded_fingerprint
from mucc.files.digest import digest

_graph_pass: Any = importlib.import_module("torch._inductor.custom_graph_pass")


class GraphPass(_graph_pass.CustomGraphPass):
    """A pass over graphs of Inductor, set by one of its options; passes set before run first."""

    first: tuple[Any, ...] = ()

    def behind(self, setting: str, given: Any) -> Self:
        """Run behind `given`, or what Inductor's configuration has for `setting` if that is None."""
        if given is None:
            given = getattr(importlib.import_module("torch._inductor.config"), setting)
        if given is not None:
            self.first = (*given,) if isinstance(given, list | tuple) else (given,)
        return self

    def uuid(self) -> Any:
        """Return the pass's part of the key of Inductor's cache; None if a pass before has none."""
        if any(not isinstance(p, _graph_pass.CustomGraphPass) or not p.uuid() for p in self.first):
            return None
        others = tuple(repr(p.uuid()) for p in self.first)
        return digest(loaded_fingerprint(), others, self.key())

    def key(self) -> str:
        """Return everything but mucc's files that decides what the pass does."""
        raise NotImplementedError

    def __call__(self, graph: Any) -> None:
        """Run the passes before, then this one."""
        for other in self.first:
            other(graph)
        self.run(graph)

    def run(self, graph: Any) -> None:
        """Change the graph; errors are the caller's."""
        raise NotImplementedError
