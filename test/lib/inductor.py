"""A backend of torch.compile by the interpreter, a model for it, and the graphs that Inductor would get."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch: Any = importlib.import_module("torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


def backend(**options: Any) -> Any:
    """Make a backend that runs regions by the interpreter, and the rest by PyTorch: no compiler runs."""
    import mucc

    given = {"interpret": True, "fallback": "error", "rest": "eager", "fallback_random": True}
    return mucc.torch_backend(**{**given, **options})


def calls(made: Any) -> int:
    """Count the kernels of all graphs that a backend has compiled."""
    return sum(len(p.kernels) for p in made.programs)


class Mlp(nn.Module):
    """Products with much to fuse, at sizes where that pays off on a card."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 1024), nn.Linear(1024, 64)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(x)))


class Graphs:
    """An inner compile that keeps the graphs that Inductor would get, and runs them as they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from mucc.torch.backend import backend as module

        self.graphs: list[Any] = []
        called = module._called

        def keeping(graph: Any, inputs: Any, **options: Any) -> Any:
            made = called(graph, inputs, **options)
            self.graphs.append(graph)
            return made

        monkeypatch.setattr(module, "_called", keeping)

    def targets(self) -> list[str]:
        """Return the names of the functions that the graphs call."""
        return [str(n.target) for g in self.graphs for n in g.graph.nodes if n.op == "call_function"]
