"""The kinds of device kernels and their registry."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from xdsl.universe import Universe

from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.ops.stage import StageKind
from mucc.kernels import registry
from mucc.kernels.dialect import Cutlass
from mucc.kernels.interface import Kind
from mucc.passes import get_all_passes

FOLDER = Path(registry.__file__).parent
SHARED = ("lowering",)
"""Folders beside those of the kinds."""


def test_every_folder_is_registered() -> None:
    folders = {p.name for p in FOLDER.iterdir() if (p / "__init__.py").exists()}
    assert folders - set(SHARED) == set(registry.KINDS)


def test_each_kind_of_stage_becomes_one_kind_of_kernel() -> None:
    claimed = Counter(stage for kind in registry.kinds() for stage in kind.stages)
    assert claimed == Counter(StageKind)


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
