"""Which operation runs in which device kernel."""

from __future__ import annotations

import sys
from types import FrameType

import numpy as np
import pytest
from builders import kernel, lowered, tensor, value
from xdsl.ir import Operation

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import MAP
from mucc.dialects.mu.types import Dims
from mucc.kernels.gemm.claims import why_not_reduced
from mucc.kernels.interface import Joins, Refused
from mucc.kernels.registry import claimant
from mucc.passes.forming import Decision, Stage
from mucc.passes.partition import Partition


@pytest.mark.parametrize(
    ("kind", "dims", "axes", "expected"),
    [
        ("sum", ("M", "N"), (1,), True),
        ("max", ("M", "N"), (0,), True),
        ("amax", ("M", "N"), (0, 1), True),
        ("min", ("M", "N"), (1,), False),
        ("sum", ("B", "M", "N"), (2,), True),
        ("sum", ("B", "M", "N"), (1,), True),
        ("sum", ("B", "M", "N"), (1, 2), True),
        ("sum", ("B", "M", "N"), (0, 1), True),
        ("sum", ("B", "M", "N"), (0, 1, 2), True),
        ("sum", ("B", "M", "N"), (0,), False),
        ("sum", ("B", "M", "N"), (0, 2), False),
        ("sum", ("B", "H", "M", "N"), (1, 2), False),
    ],
)
def test_what_an_why_not_reduced(kind: str, dims: Dims, axes: tuple[int, ...], expected: bool) -> None:
    reason = why_not_reduced(ReduceOp(kind, value(tensor(*dims)), axes), dims)
    assert (reason is None) is expected


def partition(body: str, params: str = "x: f32[M, M], b: f32[M]", results: str = "f32[M, M]") -> Partition:
    mcu = f"kernel k[M]({params}) -> {results} {{ {body} }}"
    return Partition.of(kernel(mcu, "mu-canonicalize", "decompose").body.block)


def kinds(found: Partition) -> list[str]:
    return [MAP if s.anchor is None else s.anchor.stage for s in found.in_order()]


CONTRACTION, REDUCTION = "contraction", "reduction"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return relu(x @ x + b)", [CONTRACTION]),
        ("return x + b", [MAP]),
        ("return x", [MAP]),
        ("return (x @ x).T", [CONTRACTION]),
        ("y = x @ x return y + y.T", [CONTRACTION, MAP]),
        ("return exp(x) @ x", [MAP, CONTRACTION]),
        ("return exp(x.T) @ exp(x.T)", [MAP, MAP, CONTRACTION]),
        ("y = exp(x) return y @ y", [MAP, CONTRACTION]),
        ("return (x @ x) * (x @ x.T)", [CONTRACTION, CONTRACTION]),
        ("y = x @ x return y / sum(y, axis=1)[:, None]", [CONTRACTION, MAP]),
        ("return x @ x + sum(x, axis=0)", [REDUCTION, CONTRACTION]),
        ("return x + min(x @ x, axis=0)", [CONTRACTION, REDUCTION]),
        # What reduces the product once more would read it anyway: it does all of it.
        ("return softmax(x @ x)", [CONTRACTION, REDUCTION]),
        ("return batch_norm(x @ x) * b", [CONTRACTION, REDUCTION]),
        ("return max(x, axis=0) + x @ (x + sum(x))", [REDUCTION, REDUCTION, MAP, CONTRACTION]),
        ("stage h = x @ x return exp(h)", [CONTRACTION, MAP]),
        ("stage h = exp(x) return h + b", [MAP, MAP]),
        ("stage h = x return h + b", [MAP, MAP]),
        ("stage h = x.T return h @ h", [MAP, CONTRACTION]),
        ("stage h = x @ x stage g = h return g + b", [CONTRACTION, MAP]),
        # What is read by the later product, yet not through it, does not pull it forward.
        ("y = x @ x z = y @ x return y + z", [CONTRACTION, CONTRACTION]),
        ("y = x @ x z = exp(y) @ x return sum(z, axis=0) + y", [CONTRACTION, CONTRACTION, MAP]),
    ],
)
def test_stages(body: str, expected: list[str]) -> None:
    assert kinds(partition(body)) == expected


def names(ops: list[Operation]) -> list[str]:
    return [op.name.removeprefix("mu.") for op in ops]


def test_what_needs_two_products_joins_the_later_one() -> None:
    found = partition("u = x @ x v = x @ x.T return tanh(u) * v + u")
    first, second = found.in_order()
    assert (names(first.members), names(second.members)) == (["tanh"], ["mul", "add"])
    # Both forms of the first product that the second stage reads are stored.
    assert len(first.stored) == 2 and set(second.reads) == set(first.stored)


def test_a_value_that_a_stage_waits_for_is_not_computed_in_it() -> None:
    # m depends on the first stage through s, so that adding it there would be a cycle.
    found = partition("y = x @ x s = sum(y, axis=0) return y + s")
    product, follower = found.in_order()
    assert names(product.members) == ["reduce"]
    assert follower.anchor is None and set(follower.reads) == set(product.stored)


def test_a_bool_is_never_stored() -> None:
    found = partition("c = x @ x > 0 return where(c, x @ x.T, b)")
    for stage in found.stages:
        assert all(v.type.dtype != "bool" for v in stage.stored)  # type: ignore[union-attr]


def test_every_stage_stands_after_those_that_it_reads() -> None:
    found = partition("h = exp(x) y = h @ h z = y @ h + sum(y, axis=0) return z @ (z + y)")
    order = found.in_order()
    for i, stage in enumerate(order):
        assert all(other in order[:i] for other in stage.reads.values())
        assert all({v for v, s in stage.reads.items() if s is other} <= set(other.stored) for other in order)


def test_long_chains_of_shared_values_take_no_time() -> None:
    # Doubling forty times names 2^40 paths through the graph, but only forty values.
    doubled = " ".join(f"b{i + 1} = b{i} + b{i}" for i in range(40))
    products = " ".join(f"y{i + 2} = y{i} @ y{i + 1}" for i in range(40))
    found = partition(f"b0 = b {doubled} y0 = x @ x y1 = x @ y0 {products} return y41 + b40 + y40")
    assert len(found.stages) == 42


def test_waiting() -> None:
    kind = claimant(None)
    assert kind is not None
    a, b, c = (Stage(kind, None, ("M", "M")) for _ in range(3))
    b.read({value(tensor("M", "M")): a})
    c.read({value(tensor("M", "M")): b})
    assert c.waits_for(a) and c.waits_for(c) and not a.waits_for(c)


def test_every_kernel_is_by_itself() -> None:
    module = lowered(
        "kernel a[M](x: f32[M, M]) -> f32[M, M] { return x @ x }"
        "kernel b[M](x: f32[M]) -> f32[M] { return -x }"
    )
    found = [Partition.of(k.body.block) for k in module.body.block.ops if isinstance(k, KernelOp)]
    assert [kinds(p) for p in found] == [[CONTRACTION], [MAP]]


def decided(body: str, params: str = "x: f32[M, M], b: f32[M]", results: str = "f32[M, M]") -> list[Decision]:
    mcu = f"kernel k[M]({params}) -> {results} {{ {body} }}"
    block = kernel(mcu, "mu-canonicalize", "decompose").body.block
    found = Partition.of(block, explained=True).decisions
    assert found is not None
    return found


def reasons(found: list[Decision], name: str) -> list[str]:
    """Why an operation is not computed with each of its operands."""
    answers = [c.answer for d in found if d.op.name == f"mu.{name}" for c in d.candidates]
    return [a.reason for a in answers if isinstance(a, Refused)]


@pytest.mark.parametrize(
    ("body", "name", "reason"),
    [
        (
            "y = x @ x return y + sum(y, axis=0)",
            "add",
            "an operand comes from a kernel that waits for this one",
        ),
        ("return min(x @ x, axis=0) + x", "reduce", "the epilogue of a product has no min"),
        ("stage h = x @ x return exp(h)", "exp", "`stage h = ...` ends the stage"),
        ("y = x @ x return y @ x + y.T", "add", "it reads the stage's value through transpose"),
        ("return exp(sum(x @ x, axis=0)) + x", "exp", "the result of sum is read from memory"),
        (
            "y = x / sum(x, axis=1, keepdims=on) return y - max(y, axis=0)",
            "reduce",
            "the kernel reduces over axes 1",
        ),
        (
            "m = max(x, axis=1) return (x + m[:, None]) - m",
            "sub",
            "it takes a value of the stage along other axes than the stage computes it",
        ),
        ("return (x @ x) @ x", "matmul", "it reads its operands from memory"),
        ("return cumsum(cumsum(x, axis=0), axis=1)", "scan", "scan kernels take no scan"),
    ],
)
def test_what_does_not_join_a_stage_has_a_reason(body: str, name: str, reason: str) -> None:
    assert reason in reasons(decided(body), name)


def test_a_stage_of_another_shape_is_refused() -> None:
    found = decided("return (x @ b[:, None]) + x")
    assert reasons(found, "add") == ["its shape [M, M] is not the stage's [M, 1]"]


def test_a_product_computes_no_integers() -> None:
    found = decided("return cast(x @ x, s32) * i", "x: f32[M, M], i: s32[M, M]", "s32[M, M]")
    assert reasons(found, "mul") == ["gemm kernels compute no integers"]


def test_what_saves_more_bytes_is_chosen_before_what_is_newer() -> None:
    # Two of the three operands are in flight in the first product, so only the third has to be read.
    found = decided("u = x @ x c = u > 0 v = x @ x.T return where(c, u * 2, v)")
    (select,) = (d for d in found if d.op.name == "mu.select")
    newer, older = (c.answer for c in select.candidates[:2])
    assert isinstance(newer, Joins) and isinstance(older, Joins)
    assert older.saved.at({"M": 100}) > newer.saved.at({"M": 100})
    assert select.chosen is select.candidates[1]


def test_of_stages_that_save_as_much_the_newest_is_chosen() -> None:
    found = decided("u = x @ x v = x @ x.T return u * v")
    (product,) = (d for d in found if d.op.name == "mu.mul")
    newer, older = (c.answer for c in product.candidates[:2])
    assert newer == older and product.chosen is product.candidates[0]


def test_stages_formed_again_join_the_same() -> None:
    block = kernel(
        "kernel k[M](x: f32[M, M]) -> f32[M, M] { u = x @ x v = x @ x.T return where(u > 0, u * 2, v) }",
        "mu-canonicalize",
        "decompose",
    ).body.block
    first = Partition.of(block)
    again = Partition.of(block, earlier=first)
    assert again.joined == first.joined and first.joined
    # What joined another stage before joins it again, though this one saves less.
    (select,) = (op for op in first.joined if op.name == "mu.select")
    (other,) = {stage.anchor for stage in first.stages} - {first.joined[select]}
    assert other is not None
    first.joined[select] = other
    assert Partition.of(block, earlier=first).joined[select] is other


@pytest.mark.parametrize(
    ("body", "joined"),
    [
        ("y = x @ x return y / (sum(abs(y), axis=1)[:, None] + 1)", 1),
        ("y = x @ x return y - max(y, axis=1)[:, None] + mean(y, axis=0)", 2),
        ("return softmax(x @ x)", 0),
        ("return layer_norm(x @ x)", 0),
        ("return logsumexp(x @ x, axis=0) + x", 0),
        # Nothing holds all elements until both reductions of them are done.
        ("y = x @ x return y - var(y)", 1),
        # A further reduction that needs no result of the first one, and one along other axes.
        ("y = x @ x return y * sum(y, axis=1)[:, None] * max(y, axis=1)[:, None]", 2),
        ("y = x @ x z = y - sum(y, axis=1)[:, None] return z - min(z, axis=0)", 1),
    ],
)
def test_an_epilogue_reduces_what_no_kernel_behind_it_reduces_again(body: str, joined: int) -> None:
    product = next(s for s in partition(body).in_order() if s.anchor is not None)
    assert product.anchor is not None and product.anchor.stage == CONTRACTION
    assert sum(isinstance(op, ReduceOp) for op in product.members) == joined


RETURNED = """
kernel f[N](x: bf16[N, 3, 2], w: bf16[4, 3, 2]) -> (y: f32[N, 4, 1], z: bf16[N, 4, 1]) {
    z = group_norm(conv(x, w), 4)
    return group_norm(z, 4) + 1, z
}
"""


def test_a_returned_view_of_a_stored_value_has_its_own_extents() -> None:
    made = compile_text(Source("t.mcu", RETURNED))
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((5, 3, 2)), rng.standard_normal((4, 3, 2))]
    for got, meant in zip(made.interpret_lowered("f", inputs), made.interpret("f", inputs), strict=True):
        np.testing.assert_allclose(got, meant, atol=1e-2)


def calls_to_partition(layers: int) -> int:
    """Count the Python calls with which a chain of residual layers is partitioned."""
    body = ["h0 = x"]
    body += [f"h{i + 1} = rms_norm(gelu(h{i} @ x + b) + h{i})" for i in range(layers)]
    block = kernel(
        f"kernel k[M](x: f32[M, M], b: f32[M]) -> f32[M, M] {{ {chr(10).join(body)}\nreturn h{layers} }}",
        "mu-canonicalize",
        "decompose",
    ).body.block
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        Partition.of(block)
    finally:
        sys.setprofile(before)
    return calls


def test_work_for_each_layer_does_not_grow_with_the_layers_before_it() -> None:
    """Each norm is compared with all earlier ones: walking what both read for each pair would be cubic."""
    assert calls_to_partition(24) < 8 * calls_to_partition(6)
