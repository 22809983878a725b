"""The kinds of device kernels and their registry."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from builders import lowered, tensor, value
from xdsl.universe import Universe

from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import TensorType
from mucc.kernels import registry
from mucc.kernels.dialect import Cutlass
from mucc.kernels.interface import Kind
from mucc.kernels.map.kind import MapKind
from mucc.passes import get_all_passes
from mucc.passes.pipeline import staging

FOLDER = Path(registry.__file__).parent
SHARED = ("lowering",)
"""Folders beside those of the kinds."""


def test_every_folder_is_registered() -> None:
    folders = {p.name for p in FOLDER.iterdir() if (p / "__init__.py").exists()}
    assert folders - set(SHARED) == set(registry.KINDS)


MATRIX = tensor("M", "M")

ANCHORS: list[tuple[AnchorOp | None, str | None]] = [
    (None, "map"),
    (MatmulOp(value(MATRIX), value(MATRIX)), "gemm"),
    (ScatterOp(value(MATRIX), value(TensorType.of(("M",), S32)), "N"), "map"),
    *((ReduceOp(kind, value(MATRIX), (1,)), "reduce") for kind in ("sum", "max", "min", "amax")),
    (ReduceOp("mean", value(MATRIX), (1,)), None),
    (SoftmaxOp(value(MATRIX)), None),
]


@pytest.mark.parametrize("anchor,name", ANCHORS, ids=lambda x: getattr(x, "name", str(x)))
def test_an_anchor_is_claimed_by_one_kind_at_most(anchor: AnchorOp | None, name: str | None) -> None:
    found = [kind.name for kind in registry.kinds() if kind.claims(anchor)]
    assert found == ([] if name is None else [name])


class Softmaxes(MapKind):
    """A kind that computes a softmax whole on one target, with pointwise work before and behind."""

    name = "softmax"

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return isinstance(anchor, SoftmaxOp) and target in (None, "sm_90a")

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True


def staged(text: str, target: str) -> list[StageOp]:
    module = lowered(text)
    for step, level in staging(target):
        step.apply(None, module)
        level.verify(module)
    return [op for op in module.walk() if isinstance(op, StageOp)]


def test_a_composite_that_a_kind_claims_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "kernel k[M, N](x: bf16[M, N]) -> bf16[M, N] { return relu(2 * softmax(x + 1, axis=1)) }"
    found = (*registry.kinds(), Softmaxes())
    monkeypatch.setattr(registry, "kinds", lambda: found)
    (stage,) = staged(text, "sm_90a")
    assert stage.kind.data == "softmax" and isinstance(stage.anchor, SoftmaxOp)
    names = [op.name for op in stage.body.block.ops]
    assert names.index("mu.add") < names.index("mu.softmax") < names.index("mu.max")
    assert [s.kind.data for s in staged(text, "sm_100a")] == ["reduction", "reduction", "map"]


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda k: k.name)
def test_a_kind_is_found_by_its_op_and_its_name(kind: Kind[DeviceKernelOp]) -> None:
    assert registry.KINDS[kind.name].startswith(f"mucc.kernels.{kind.name}.")
    assert kind.op in Cutlass.operations
    assert kind.op.name == f"cutlass.{kind.name}"


def test_passes_of_kinds_are_known_to_the_tools() -> None:
    known = get_all_passes()
    for kind in registry.kinds():
        for name in kind.passes:
            assert known[name]().name == name
    assert set(known) <= set(Universe.get_multiverse().all_passes)


def test_importing_the_registry_loads_no_code_of_targets_or_emission() -> None:
    """`mucc check` of a program loads the kinds: what they do is imported as it is asked for."""
    for place in registry.KINDS.values():
        module = FOLDER.parent.parent / Path(*place.partition(":")[0].split("."))
        tree = ast.parse(module.with_suffix(".py").read_text(encoding="utf-8"))
        top = [n.module or "" for n in tree.body if isinstance(n, ast.ImportFrom)]
        assert not [m for m in top if "scheduling" in m or "emission" in m or "codegen" in m], top
