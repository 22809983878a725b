"""What operations that PyTorch runs compute at the least: counted by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from mucc.torch.importer.counting import Count, count_of, read_bytes  # noqa: E402
from mucc.torch.importer.work import is_product, work_of  # noqa: E402

aten = torch.ops.aten


def node_of(target: Any, *args: Any, **kwargs: Any) -> Any:
    """A node of a graph on fake tensors, as torch.export makes them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    graph = torch.fx.Graph()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:

        def placed(value: Any) -> tuple[Any, Any]:
            if isinstance(value, torch.Tensor):
                node = graph.placeholder(f"x{len(graph.nodes)}")
                node.meta["val"] = mode.from_tensor(value)
                return node, node.meta["val"]
            if isinstance(value, list | tuple):
                values: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
                pairs = [placed(v) for v in values]
                return [n for n, _ in pairs], [v for _, v in pairs]
            return value, value

        given = [placed(a) for a in args]
        named = {k: placed(v) for k, v in kwargs.items()}
        value = target(*(v for _, v in given), **{k: v for k, (_, v) in named.items()})
    node = graph.call_function(target, tuple(n for n, _ in given), {k: n for k, (n, _) in named.items()})
    node.meta["val"] = value
    return node


def t(*shape: int, dtype: Any = None) -> Any:
    return torch.zeros(shape, dtype=dtype or torch.float32)


def weights(
    gates: int, inputs: int, hidden: int, layers: int, ways: int, bias: bool, projected: int
) -> list[Any]:
    found: list[Any] = []
    for layer in range(layers):
        for _ in range(ways):
            back = projected or hidden
            own = inputs if layer == 0 else ways * back
            found += [t(gates * hidden, own), t(gates * hidden, back)]
            found += [t(gates * hidden), t(gates * hidden)] if bias else []
            found += [t(projected, hidden)] if projected else []
    return found


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    ("layers", "ways", "bias", "projected"),
    [(1, 1, True, 0), (6, 1, True, 0), (2, 2, False, 0), (2, 2, True, 5)],
)
def test_lstm(layers: int, ways: int, bias: bool, projected: int, batch_first: bool):
    time, batch, inputs, hidden = 7, 3, 11, 8
    x = t(batch, time, inputs) if batch_first else t(time, batch, inputs)
    back = projected or hidden
    state = [t(layers * ways, batch, back), t(layers * ways, batch, hidden)]
    own = weights(4, inputs, hidden, layers, ways, bias, projected)
    node = node_of(aten.lstm.input, x, state, own, bias, layers, 0.0, False, ways == 2, batch_first)
    first = 4 * hidden * (inputs + back) + projected * hidden
    others = 4 * hidden * (ways * back + back) + projected * hidden
    steps, each = time * batch, layers * ways * hidden
    assert count_of(node) == Count(
        {"float32": 2 * steps * ways * (first + (layers - 1) * others)},
        plain=steps * each * (10 + (4 if bias else 0)),
        special=steps * each * 5,
        by_cudnn=True,
    )
    assert is_product(node) and work_of(node).operations > 2 * steps * ways * first


@pytest.mark.parametrize(
    ("target", "gates", "plain", "biased", "special"),
    [
        (aten.gru.input, 3, 9, 4, 3),
        (aten.rnn_tanh.input, 1, 0, 1, 1),
        (aten.rnn_relu.input, 1, 1, 1, 0),
    ],
)
def test_other_recurrent_networks(target: Any, gates: int, plain: int, biased: int, special: int):
    time, batch, inputs, hidden, layers = 5, 2, 9, 16, 3
    own = weights(gates, inputs, hidden, layers, 2, True, 0)
    x, state = t(time, batch, inputs), t(layers * 2, batch, hidden)
    count = count_of(node_of(target, x, state, own, True, layers, 0.0, False, True, False))
    steps, each = time * batch, layers * 2 * hidden
    products = 2 * gates * hidden * ((inputs + hidden) + (layers - 1) * 3 * hidden)
    assert count == Count(
        {"float32": 2 * steps * products}, steps * each * (plain + biased), steps * each * special, True
    )


def test_the_units_of_products():
    count = Count({"float32": 10, "bfloat16": 20, "float8_e4m3fn": 30, "complex64": 5}, 7, 3)
    rest = {"tensor.bf16": 20, "tensor.e4m3": 30, "special": 3}
    assert count.units("f32") == {"fp32": 7 + 5 + 10, **rest}
    assert count.units("tf32") == {"fp32": 12, "tensor.tf32": 10, **rest}
    assert count.units("tf32x3") == {"fp32": 12, "tensor.tf32": 30, **rest}


F8, BF16, I32 = torch.float8_e4m3fn, torch.bfloat16, torch.int32
LOG6 = math.ceil(math.log2(math.factorial(6)))

CASES: dict[str, tuple[Callable[[], Any], Count | None]] = {
    "groups of rows": (
        lambda: node_of(
            aten._grouped_mm.default, t(64, 32, dtype=BF16), t(4, 32, 16, dtype=BF16), t(4, dtype=I32)
        ),
        Count({"bfloat16": 2 * 64 * 32 * 16}),
    ),
    "groups of K": (
        lambda: node_of(
            aten._grouped_mm.default, t(64, 32, dtype=BF16), t(32, 16, dtype=BF16), t(4, dtype=I32)
        ),
        Count({"bfloat16": 2 * 64 * 32 * 16}),
    ),
    "batches": (
        lambda: node_of(aten._grouped_mm.default, t(4, 64, 32, dtype=BF16), t(4, 32, 16, dtype=BF16)),
        Count({"bfloat16": 2 * 4 * 64 * 32 * 16}),
    ),
    "scaled": (
        lambda: node_of(
            aten._scaled_mm.default, t(64, 32, dtype=F8), t(16, 32, dtype=F8).t(), t(1), t(1), out_dtype=BF16
        ),
        Count({"float8_e4m3fn": 2 * 64 * 32 * 16}),
    ),
    "integers": (
        lambda: node_of(aten._int_mm.default, t(32, 64, dtype=torch.int8), t(64, 16, dtype=torch.int8)),
        Count({"int8": 2 * 64 * 32 * 16}),
    ),
    "a window over padding": (
        # Of 3 places two see 2 elements, one 3.
        lambda: node_of(aten.convolution.default, t(2, 4, 3), t(6, 2, 3), t(6), [1], [1], [1], False, [0], 2),
        Count({"float32": 2 * 2 * 6 * 2 * 7}, 2 * 6 * 3, by_cudnn=True),
    ),
    "a transposed window": (
        lambda: node_of(
            aten.convolution.default,
            t(2, 4, 5, 6),
            t(4, 3, 2, 2),
            None,
            [2, 2],
            [0, 0],
            [1, 1],
            True,
            [0, 0],
            2,
        ),
        Count({"float32": 2 * 2 * 4 * 3 * (5 * 2) * (6 * 2)}, by_cudnn=True),
    ),
    "a complex window": (
        lambda: node_of(
            aten.convolution.default,
            t(1, 1, 4, dtype=torch.complex64),
            t(1, 1, 1, dtype=torch.complex64),
            None,
            [1],
            [0],
            [1],
            False,
            [0],
            1,
        ),
        Count({"complex64": 2 * 3 * 4}, by_cudnn=True),
    ),
    "a bag": (
        lambda: node_of(
            aten._embedding_bag.default, t(1000, 64), t(40, dtype=torch.int64), t(8, dtype=torch.int64)
        ),
        Count(plain=40 * 64),
    ),
    "a sort": (lambda: node_of(aten.sort.default, t(5, 6)), Count(plain=5 * LOG6)),
    "the largest two": (lambda: node_of(aten.topk.default, t(5, 6), 2), Count(plain=5 * (5 + 1))),
    "the largest, in any order": (
        lambda: node_of(aten.topk.default, t(5, 6), 2, -1, True, False),
        Count(plain=5 * 5),
    ),
    "a median": (lambda: node_of(aten.kthvalue.default, t(5, 6), 2), Count(plain=30)),
    "a scan": (lambda: node_of(aten.cummax.default, t(5, 6), 1), Count(plain=30)),
    "a search": (lambda: node_of(aten.searchsorted.Tensor, t(100), t(50)), Count(plain=50 * 7)),
    "a complex transform": (
        lambda: node_of(aten._fft_c2c.default, t(3, 8, dtype=torch.complex64), [1], 0, True),
        Count(plain=3 * (4 * 8 * 3 - 6 * 8 + 8)),
    ),
    "a real transform": (
        lambda: node_of(aten._fft_r2c.default, t(3, 8), [1], 0, True),
        Count(plain=3 * (4 * 8 * 3 - 6 * 8 + 8) // 2),
    ),
    "an inverse transform": (
        lambda: node_of(aten._fft_c2r.default, t(3, 5, dtype=torch.complex64), [1], 0, 8),
        Count(plain=3 * (4 * 8 * 3 - 6 * 8 + 8) // 2),
    ),
    "a transform of two axes": (
        lambda: node_of(aten._fft_c2c.default, t(4, 8, dtype=torch.complex64), [0, 1], 0, True),
        Count(plain=4 * 56 + 8 * 16),
    ),
    "sums by index": (
        lambda: node_of(aten.index_add.default, t(9, 4), 0, t(5, dtype=I32), t(5, 4)),
        Count(plain=20),
    ),
    "a Cholesky factor": (lambda: node_of(aten.linalg_cholesky_ex.default, t(2, 6, 6)), Count(plain=2 * 72)),
    "attention that looks back": (
        lambda: node_of(
            aten.scaled_dot_product_attention.default, t(2, 4, 8), t(2, 4, 8), t(2, 4, 8), is_causal=True
        ),
        Count({"float32": 2 * 2 * 10 * 16}, 4 * 20, 20),
    ),
    "moving": (lambda: node_of(aten.flip.default, t(5, 6), [0]), Count()),
    "arithmetic": (lambda: node_of(aten.lgamma.default, t(5, 6)), Count(plain=30)),
    "what is not understood": (lambda: node_of(aten._linalg_svd.default, t(6, 6)), None),
    "random numbers": (lambda: node_of(aten.native_dropout.default, t(6, 6), 0.5, True), None),
}


@pytest.mark.parametrize("name", CASES)
def test_counts(name: str):
    node, expected = CASES[name]
    assert count_of(node()) == expected


def test_rows_that_are_picked_are_read():
    rows = t(8, dtype=torch.int64)
    node = node_of(aten._embedding_bag.default, t(1000, 64), rows, t(2, dtype=torch.int64))
    table, index, _ = node.all_input_nodes
    assert [read_bytes(node, n) for n in (table, index)] == [8 * 64 * 4, 8 * 8]
    node = node_of(aten.index_select.default, t(1000, 4), 0, t(5000, dtype=torch.int64))
    assert read_bytes(node, node.all_input_nodes[0]) == 1000 * 4 * 4
