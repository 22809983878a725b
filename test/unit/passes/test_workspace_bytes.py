"""The workspace of whole programs: hardly more bytes than are alive at once, which no plan can go below."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.layers import blocks, level2
from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.passes import plan_workspace
from mucc.passes.plan_workspace import Lifetime, assign_slots

ROOT = Path(__file__).parents[3]
MOST = 1.1
"""The most bytes of a workspace, over those that are alive at once."""

OPEN = 1000
"""The size of an open dim."""


CHAIN = """
kernel chain[M](x: bf16[M, 512], w: bf16[2048, 512], v: bf16[512, 2048]) -> bf16[M, 512] {
    a = relu(x @ w.T) @ v.T
    b = relu(a @ w.T) @ v.T + a
    return relu(b @ w.T) @ v.T + b
}
"""
NORMS = """
kernel norms[M](x: bf16[M, 512], w: bf16[512, 512]) -> bf16[M, 512] {
    a = layer_norm(x @ w.T)
    b = layer_norm(a @ w.T)
    return softmax(b @ w.T)
}
"""


def programs() -> Iterator[tuple[str, str]]:
    yield "chain", CHAIN
    yield "norms", NORMS
    for path in sorted((ROOT / "test" / "data" / "workloads").glob("*.mcu")):
        yield path.stem, path.read_text()
    for form in (*blocks.FORMS[:7], *level2.FORMS[::3]):
        yield form.key, form.text


def size(value: Lifetime) -> int:
    width, dims = value.size
    return width * math.prod(dim if isinstance(dim, int) else OPEN for dim in dims)


def alive(values: list[Lifetime]) -> int:
    """The most bytes that are alive during a launch."""
    launches = {v.first for v in values}
    return max(sum(size(v) for v in values if v.first <= launch <= v.last) for launch in launches)


def test_workspaces_hold_hardly_more_than_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[tuple[list[Lifetime], list[list[Lifetime]]]] = []

    def observed(values: list[Lifetime]) -> list[list[Lifetime]]:
        plans.append((values, slots := assign_slots(values)))
        return slots

    monkeypatch.setattr(plan_workspace, "assign_slots", observed)
    shared = 0
    for name, text in programs():
        plans.clear()
        compile_text(Source(f"{name}.mcu", text)).emit("cutlass")
        for values, slots in plans:
            if values:
                planned = sum(max(map(size, slot)) for slot in slots)
                assert planned <= MOST * alive(values), name
                shared += len(slots) < len(values)
    assert shared >= 2, "no program shares a slot"
