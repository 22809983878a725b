"""Bytes as polynomials in open dims."""

from __future__ import annotations

from builders import tensor
from xdsl.dialects.builtin import bf16, i1

from mucc.analysis.counts import tensor_bytes
from mucc.dialects.mu.types import DTYPES, LayoutAttr, TensorType
from mucc.kernels.traffic import LARGE, Traffic


def test_a_pass_over_a_tensor() -> None:
    found = Traffic.of(TensorType.of(("M", 10, "M"), bf16))
    assert found.terms == {("M", "M"): 20} and found.at({"M": 3}) == 180
    assert found.at({}) == 20 * LARGE**2 and found.open_dims == {"M"}


def test_elements_smaller_than_a_byte_and_bools() -> None:
    assert Traffic.of(TensorType.of((10,), DTYPES["s4"])).at({}) == 5
    assert Traffic.of(TensorType.of((10,), i1)).at({}) == 10


def test_sparse_matrices_are_counted_as_bounds_count_them() -> None:
    for dtype in ("bf16", "f32", "s8"):
        type = TensorType.of(("M", 64), DTYPES[dtype], LayoutAttr.sparse())
        ((factor, *_),) = [tensor_bytes(type)]
        assert Traffic.of(type).terms == {("M",): factor}


def test_parts_of_dims_count_as_these() -> None:
    found = Traffic.of(TensorType.of(("N", "K/128"), bf16))
    assert found.open_dims == {"K", "N"} and found.at({"N": 3, "K": 256}) == 12


def test_arithmetic() -> None:
    a, b = Traffic.of(tensor("M")), Traffic.of(tensor("M", "N"))
    assert (a + b - a).terms == b.terms and not (a - a).terms
    assert (b * 3).at({"M": 2, "N": 5}) == 3 * b.at({"M": 2, "N": 5})
    assert list((a + b).terms) == [("M", "N"), ("M",)]
