"""Odd PyTorch modules through the importer and the backend: all agree with PyTorch, or are refused.

A run of the tests takes every second module through the importer, and every fourth, of the others, through
the backend; `MUCC_ALL_MODULES=1`, as `make modules` sets it, takes all through both.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="needs torch")

import modulelib
from torch_modules import ODD

pytestmark = pytest.mark.filterwarnings("ignore")

WAITING: dict[str, str] = {
    "import one_tensor_twice": "arguments that are one tensor become one parameter",
    "import one_tensor_twice_and_changed": "arguments that are one tensor become one parameter",
    "import layer_multihead_attention_of_itself": "arguments that are one tensor become one parameter",
    "import keywords": "arguments by keyword are not imported",
    "import keywords_in_another_order": "arguments by keyword are not imported",
    "import named_results_returned": "named tuples are not returned",
    "import results_in_an_ordered_dictionary": "an OrderedDict is returned as a dict",
    "import results_in_a_named_tuple": "named tuples are not returned",
    "import halves_overflow": "values of f16 are not rounded within a kernel",
    "backend halves_overflow": "values of f16 are not rounded within a kernel",
    "import integers_as_they_come": "integers beyond s32 are cut off",
    "import special_sign": "sign(NaN) is NaN",
    "import special_square": "sgn(NaN) is NaN",
    "backend special_square": "sgn(NaN) is NaN",
    "import attention_with_a_row_masked": "a row of attention that is masked completely is NaN",
    "backend attention_with_a_row_masked": "a row of attention that is masked completely is NaN",
    "backend special_sign": "sign(NaN) is NaN",
}
"""Modules by route and name that are known to fail, and why."""


def routed(route: str, first: int, step: int) -> list[object]:
    """The names of modules, those that wait marked so."""
    names = [*ODD] if os.environ.get("MUCC_ALL_MODULES") else [*ODD][first::step]
    reasons = {name: WAITING.get(f"{route} {name}") for name in names}
    return [
        pytest.param(name, marks=[pytest.mark.xfail(reason=reason, strict=False)] if reason else [])
        for name, reason in reasons.items()
    ]


@pytest.mark.parametrize("name", routed("import", 0, 2))
def test_imported(name: str):
    assert modulelib.imported(ODD[name]) == []


@pytest.mark.parametrize("name", routed("backend", 1, 4))
def test_compiled(name: str):
    assert modulelib.compiled(ODD[name]) == []


def test_there_are_enough():
    assert len(ODD) >= 500
    assert set(WAITING) <= {f"{route} {name}" for route in ("import", "backend") for name in ODD}
