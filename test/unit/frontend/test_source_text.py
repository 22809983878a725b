"""`mu` IR as text: it parses back to the IR that it was written from."""

from __future__ import annotations

from typing import Any

import pytest
from budget import examples
from hypothesis import HealthCheck, assume, given, settings
from irgen_random import Profile, Sample, samples
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import BlockArgument, SSAValue

import mucc.frontend as frontend
from mucc.diagnostics.core import Source
from mucc.dialects.mu.ops import operations
from mucc.dialects.mu.ops.elementwise import CastOp, ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.types import Shaped
from mucc.frontend.names import Names
from mucc.frontend.source import module_text
from mucc.frontend.spelling import SPELLERS

SLOW = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def lowered(text: str) -> ModuleOp:
    program, sink = frontend.parse(Source("x.mcu", text))
    module = frontend.lower(program, sink)
    assert not sink.has_errors, (text, sink.diagnostics)
    return module


def meaning(module: ModuleOp) -> list[Any]:
    """The kernels as trees of what is computed from what: equal where only order and names differ."""
    return [_kernel(op) for op in module.body.block.ops if isinstance(op, KernelOp)]


def _kernel(kernel: KernelOp) -> Any:
    known: dict[SSAValue, Any] = {}

    def tree(value: SSAValue) -> Any:
        value = _plain(value)
        if value not in known:
            if isinstance(value, BlockArgument):
                known[value] = value.index
            else:
                op = value.owner
                named = {"stage"} if isinstance(op, PinOp) else set[str]()
                properties = {k: str(v) for k, v in op.properties.items() if k not in named}
                operands = tuple(tree(o) for o in op.operands)
                known[value] = (op.name, str(sorted(properties.items())), operands, str(value.type))
        return known[value]

    (end,) = [op for op in kernel.body.block.ops if isinstance(op, ReturnOp)]
    return str(kernel.function_type), str(kernel.bound), [tree(v) for v in end.values]


def _plain(value: SSAValue) -> SSAValue:
    """A value without the conversion that only says that it is stored row-major."""
    op = value.owner
    if isinstance(op, CastOp) and Shaped.of(op.operand.type) == Shaped.of(op.result.type):
        return op.operand
    return value


@SLOW
@given(samples(Profile(dtypes=("f32", "bf16", "f16"), layouts=False)))
def test_random_kernels_come_back(sample: Sample):
    mentioned = {d for type in sample.kernel.function_type.inputs for d in Shaped.of(type).dims}
    values = [r for op in sample.kernel.body.block.ops for r in op.results]
    assume({d for v in values for d in Shaped.of(v.type).dims if isinstance(d, str)} <= mentioned)
    dims = [d for d in sample.kernel.dim_names if d in mentioned]
    sample.kernel.attributes["dims"] = ArrayAttr([StringAttr(d) for d in dims])
    text = module_text(sample.module)
    again = lowered(text)
    # A pinned value of the random kernels is called as it comes; the text gives it a name of its own.
    assert _without_pins(meaning(again)) == _without_pins(meaning(sample.module))
    canonical = module_text(again)
    assert module_text(lowered(canonical)) == canonical
    assert frontend.format(Source("x.mcu", text)) == text


def _without_pins(tree: Any) -> Any:
    if isinstance(tree, tuple) and tree and tree[0] == "mu.pin":
        return ("mu.pin", _without_pins(tree[2]), tree[3])
    if isinstance(tree, tuple | list):
        return [_without_pins(t) for t in tree]
    return tree


BODIES = [
    "relu(x) * 2 - 0.5",
    "where(x > 0, x, -inf) + pad(x, 0, 0)",
    "leaky_relu(x, slope=0.2) + gelu(x, approximate=tanh)",
    "-(x + 1e-05) / -3 + pow(x, 2.5) + 1e+20",
    "reshape(permute(reshape(x, (4, 2, 8)), (1, 0, 2)), (8, 8))",
    "concat(x[:4], x[4:], axis=0)",
    "pad(x, (1, 2), (0, 3), mode=reflect)[:8] @ full((13, 8), 0.25)",
    "pad(x[:, :7:2], 1, 3, value=-inf)",
    "flip(roll(x, -3, axis=1), axis=0) + tril(x) + triu(x, diagonal=-1)",
    "x + iota((8, 8), axis=1) + full((8,), 1, dtype=bf16) + broadcast(sum(x, axis=0), (8, 8))",
    "x + var(x, axis=1, correction=0)[:, None] + argmax(x, axis=0) + mean(x) + prod(x, axis=0)",
    "softmax(x, axis=0) + log_softmax(x) + logsumexp(x, axis=1)[:, None]",
    "layer_norm(x, eps=0.001) + rms_norm(x, axis=0) + batch_norm(x) + layer_norm(x, axis=(0, 1))",
    "cumsum(x, axis=1, reverse=on) * cumprod(x, axis=0, exclusive=on)",
    "attention(x, x, x, causal=on) + attention(x, x, x, x > 0, scale=0.3)",
    "take_along(x, iota((8, 8), axis=0), axis=1)",
    "random((8, 8), 7) + dropout(x, 0.25, -3, stream=2)",
    "sort(x) + sort(x, axis=0, descending=on) + argsort(x) * topk(x, 1) + argtopk(x, 8, axis=0)",
    "reshape(conv(x[None, None, :, :], full((1, 1, 3, 3), 1), pad=1, compute=f32), (8, 8))",
    "reshape(conv(reshape(x, (1, 4, 4, 4)), full((4, 2, 1, 3), 1), pad=(0, 1), groups=2), (8, 8))",
    "reshape(conv_transpose(reshape(x, (1, 4, 16)), full((4, 2, 2), 1), stride=2), (8, 8))",
    "reshape(max_pool(avg_pool(x[None, None, :, :], 2, 1, 1, count_pad=off), 2, stride=1), (8, 8))",
    "where(any(x > 0, axis=0) and not all(x < 1, axis=0), x, matmul(x, x.T, compute=tf32x3))",
]


@pytest.mark.parametrize("body", BODIES)
def test_texts_come_back(body: str):
    module = lowered(f"kernel f(x: f32[8, 8]) -> f32[8, 8] {{ return {body} }}")
    text = module_text(module)
    assert meaning(lowered(text)) == meaning(module)
    assert module_text(lowered(text)) == text


def test_infinity_is_a_number_unless_something_is_called_so():
    (name, *_), *_ = [meaning(lowered("kernel f(x: f32[8]) -> f32[8] { return min(x, inf) }"))[0][2][0]]
    assert name == "mu.min"
    assert "inf" in module_text(lowered("kernel f(x: f32[8]) -> f32[8] { return min(x, -inf) }"))
    shadowed = lowered("kernel f(x: f32[8], inf: f32[8]) -> f32[8] { return min(x, -inf) }")
    assert "mu.constant" not in str(shadowed)


def test_names_are_free():
    names = Names("x")
    assert [names.new(n) for n in ("x", "x", "relu", "where", "bf16", "inf", "p.weight", "3d", "_y")] == [
        "x1",
        "x2",
        "relu1",
        "where1",
        "bf16_1",
        "inf1",
        "p_weight",
        "v3d",
        "y",
    ]


MADE_BY_PASSES = {
    *("mu.regroup", "mu.place", "mu.inside", "mu.partial_moments", "mu.scores", "mu.scored_attention"),
    *("mu.attention_backward", "mu.stage", "mu.yield"),
}
IN_STATEMENTS = {"mu.kernel", "mu.return", "mu.pin"}


def test_every_operation_of_the_language_has_text():
    """An operation without text cannot be imported from PyTorch: it has its entry in `SPELLERS`."""
    without = {op.name for op in operations() if op not in SPELLERS and not issubclass(op, ElementwiseOp)}
    assert without == MADE_BY_PASSES | IN_STATEMENTS
