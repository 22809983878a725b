"""The kinds of device kernels and their registry."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
from builders import lowered, tensor, value
from xdsl.universe import Universe

from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.dialect import Mu
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.normalisation import SoftmaxOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.settings import SETTINGS
from mucc.dialects.mu.types import TensorType
from mucc.kernels import registry
from mucc.kernels.dialect import Cutlass
from mucc.kernels.interface import Kind
from mucc.kernels.map.kind import MapKind
from mucc.passes import get_all_passes
from mucc.passes.pipeline import RARE, staging

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
    claimant = registry.claimant(anchor)  # which asks kinds of the table only
    assert (claimant and claimant.name) == name


OPERATIONS = {op.name for op in (*Mu.operations, *Cutlass.operations)}
REWRITES = [*RARE, *(rewrite for place in registry.KINDS.values() for rewrite in place.passes.values())]


@pytest.mark.parametrize("name", registry.KINDS)
def test_what_a_kind_is_loaded_for_are_operations(name: str) -> None:
    computes = registry.KINDS[name].computes
    assert computes and set(computes) - {""} <= {op.name for op in Mu.operations if issubclass(op, AnchorOp)}


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda r: r.place.partition(":")[2])
def test_what_a_pass_is_loaded_for_are_operations(rewrite: registry.Rewrite) -> None:
    assert rewrite.needs and all(rewrite.needs)
    assert {name for need in rewrite.needs for name in need} <= OPERATIONS


def test_a_pass_is_for_modules_with_a_kernel_that_meets_all_of_its_needs() -> None:
    one = "kernel f[M](x: bf16[M, M]) -> bf16[M, M] { return x @ x }\n"
    summed = "kernel g[M](x: bf16[M, M]) -> bf16[M] { return sum(x, axis=1) }\n"
    both = "kernel h[M](x: bf16[M, M]) -> bf16[M] { return sum(x @ x @ x, axis=1) }"
    several = registry.Rewrite("", (registry.several("mu.matmul"),))
    products = registry.Rewrite("", (registry.one_of("mu.matmul"), registry.one_of("mu.scan", "mu.reduce")))
    for text, expected in ((one, False), (one + summed, False), (one + summed + both, True)):
        assert several.is_for(lowered(text)) == products.is_for(lowered(text)) == expected


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
    by_name = registry.named
    monkeypatch.setitem(registry.KINDS, "softmax", registry.Entry("", ("mu.softmax",)))
    monkeypatch.setattr(registry, "computing", registry.computing.__wrapped__)
    monkeypatch.setattr(registry, "named", lambda name: Softmaxes() if name == "softmax" else by_name(name))
    (stage,) = staged(text, "sm_90a")
    assert stage.kind.data == "softmax" and isinstance(stage.anchor, SoftmaxOp)
    names = [op.name for op in stage.body.block.ops]
    assert names.index("mu.add") < names.index("mu.softmax") < names.index("mu.max")
    assert [s.kind.data for s in staged(text, "sm_100a")] == ["reduction"]


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda k: k.name)
def test_a_kind_is_found_by_its_op_and_its_name(kind: Kind[DeviceKernelOp]) -> None:
    assert registry.KINDS[kind.name].kind.startswith(f"mucc.kernels.{kind.name}.")
    assert kind.op in Cutlass.operations
    assert kind.op.name == f"cutlass.{kind.name}"


def test_passes_of_kinds_are_known_to_the_tools() -> None:
    known = get_all_passes()
    for kind in registry.KINDS.values():
        for name in kind.passes:
            assert known[name]().name == name
    assert set(known) <= set(Universe.get_multiverse().all_passes)


def test_importing_the_registry_loads_no_code_of_targets_or_emission() -> None:
    """`mucc check` of a program loads the kinds: what they do is imported as it is asked for."""
    for place in registry.KINDS.values():
        module = FOLDER.parent.parent / Path(*place.kind.partition(":")[0].split("."))
        tree = ast.parse(module.with_suffix(".py").read_text(encoding="utf-8"))
        top = [n.module or "" for n in tree.body if isinstance(n, ast.ImportFrom)]
        assert not [m for m in top if "scheduling" in m or "emission" in m or "codegen" in m], top


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda k: k.name)
def test_the_card_tells_of_every_setting_of_a_kind(kind: Kind[DeviceKernelOp]) -> None:
    for setting in kind.settings:
        assert f"{setting.name} = " in kind.card()


def test_cards_tell_of_every_word_of_a_setting() -> None:
    cards = "".join(kind.card() for kind in registry.kinds())
    assert not [word for setting in SETTINGS.values() for word in setting.words if word not in cards]


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda k: k.name)
def test_settings_of_a_kind_are_those_of_the_table_and_properties_of_its_op(
    kind: Kind[DeviceKernelOp],
) -> None:
    for setting in kind.settings:
        assert SETTINGS[setting.name] is setting
        assert setting.name in kind.op.get_irdl_definition().properties


def branches_on(tree: ast.AST, names: Container[str]) -> Iterator[int]:
    """The lines that compare something with one of the names, or match it."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                compared = [node.left, *node.comparators]
            case ast.MatchValue():
                compared = [node.value]
            case ast.Call(func=ast.Attribute(attr="startswith" | "removeprefix" | "endswith")):
                compared = node.args
            case _:
                continue
        for part in (inner for outer in compared for inner in ast.walk(outer)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value in names:
                yield node.lineno if isinstance(node, ast.expr) else part.lineno


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("if entry['kind'] == 'gemm': pass", [1]),
        ("x = [k for k in ks if k not in (\n'map', 'order')]", [1]),
        ("match kind:\n    case 'gemm' | 'map':\n        pass", [2, 2]),
        ("found = {'gemm': 1}\nname = 'map'\nprint(reduce)", []),
    ],
)
def test_branches_on_names_are_found(text: str, lines: list[int]) -> None:
    assert list(branches_on(ast.parse(text), set(registry.KINDS))) == lines


def test_nothing_outside_the_folder_of_kernels_branches_on_the_name_of_a_kind() -> None:
    package = FOLDER.parent
    names = {*registry.KINDS, *(kind.op.name for kind in registry.kinds())}
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in sorted(package.rglob("*.py"))
        if FOLDER not in path.parents
        for line in branches_on(ast.parse(path.read_text(encoding="utf-8")), names)
    ]
    assert not found


def test_nothing_outside_the_folder_of_kernels_names_the_cpp_of_a_kind() -> None:
    package = FOLDER.parent
    headers = "|".join(re.escape(p.name) for p in FOLDER.glob("*/include/mucc/*"))
    assert "gemm_launch" in headers
    named = re.compile(rf"\bmucc::(?:{'|'.join(registry.KINDS)})\b|\bmucc/(?:{headers})")
    found = [
        f"{path.relative_to(package)}: {match[0]}"
        for path in sorted(package.rglob("*"))
        if path.suffix in (".py", ".h", ".cuh", ".cpp", ".cmake") and FOLDER not in path.parents
        for match in named.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found
