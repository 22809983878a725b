"""Count the least work of PyTorch operations: products by dtype, arithmetic, special functions.

A count is what no implementation does without, so that bounds may add it to what kernels do. What is not
understood has none, and a bound says that it is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from mucc.dialects.mu.windows import Window
from mucc.torch.importer.capture import torch
from mucc.torch.importer.extents import typical


@dataclass(frozen=True)
class Count:
    """Multiplications and additions of products by torch's dtype; other arithmetic; special functions.

    Products `by_cudnn` are those of convolutions and recurrent networks, for which torch has a setting of its
    own for tf32.
    """

    products: Mapping[str, int] = field(default_factory=dict[str, int])
    plain: int = 0
    special: int = 0
    by_cudnn: bool = False

    @property
    def operations(self) -> int:
        return sum(self.products.values()) + self.plain + self.special

    def units(self, f32: str) -> dict[str, int]:
        """Convert to operations by unit, with f32 products in a format (`mucc.analysis.bound.Rates`)."""
        found: dict[str, int] = {"fp32": self.plain, "special": self.special}
        for dtype, count in self.products.items():
            unit, times = f"tensor.{_TENSOR[dtype]}" if dtype in _TENSOR else "fp32", 1
            if dtype == "float32" and f32 != "f32":
                unit, times = "tensor.tf32", 3 if f32 == "tf32x3" else 1
            found[unit] = found.get(unit, 0) + times * count
        return {unit: count for unit, count in found.items() if count}


_TENSOR = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "s8",
    "uint8": "u8",
}
"""Formats of tensor cores by torch's dtype; others are counted on the FP32 cores."""


class Call:
    """A node's arguments by the names of its schema; tensors are fake tensors."""

    def __init__(self, node: Any):
        names = [a.name for a in node.target._schema.arguments]
        self.given = {a.name: a.default_value for a in node.target._schema.arguments if a.has_default_value()}
        self.given |= dict(zip(names, map(_value, node.args), strict=False))
        self.given |= {name: _value(v) for name, v in node.kwargs.items()}
        value = node.meta.get("val")
        self.results: list[Any] = (
            list(cast("Sequence[Any]", value)) if isinstance(value, tuple | list) else [value]
        )

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name)

    @property
    def first(self) -> Any:
        """Return the first tensor argument, or the result without one."""
        return next((v for v in self.given.values() if isinstance(v, torch.Tensor)), self.results[0])

    def along(self, name: str = "dim") -> int:
        """Return the extent of the axis that an argument names; the number of elements without one."""
        axis: int | None = self[name]
        shape: list[int] = sizes(self.first)
        return math.prod(shape) if axis is None or not shape else shape[axis]


def _value(argument: Any) -> Any:
    match argument:
        case torch.fx.Node():
            return argument.meta.get("val")
        case list() | tuple():
            return [_value(a) for a in cast("Sequence[Any]", argument)]
        case torch.SymInt():
            return typical(argument)
        case _:
            return argument


def sizes(tensor: Any) -> list[int]:
    """Return the shape, with the usual sizes of open extents."""
    return [typical(d) for d in tensor.shape]


def size(tensor: Any) -> int:
    return math.prod(sizes(tensor)) if isinstance(tensor, torch.Tensor) else 0


def dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


COUNTS: dict[str, Callable[[Call], Count | None]] = {}
"""By the name of an operation, whatever its overload."""


def _counts(*names: str) -> Callable[[Callable[[Call], Count | None]], Callable[[Call], Count | None]]:
    def register(function: Callable[[Call], Count | None]) -> Callable[[Call], Count | None]:
        COUNTS.update(dict.fromkeys(names, function))
        return function

    return register


def count_of(node: Any) -> Count | None:
    """Count the work of a node; None for an unknown operation."""
    packet = getattr(node.target, "overloadpacket", None)
    if packet is None or not isinstance(node.target, torch._ops.OpOverload):
        return None
    name = packet.__name__
    call = Call(node)
    if (function := COUNTS.get(name)) is not None:
        return function(call)
    results = sum(size(r) for r in call.results)
    if name in MOVING:
        return Count()
    if torch.Tag.pointwise in node.target.tags:
        return Count(plain=results)
    return Count(plain=size(call.first)) if name in REDUCING else None


def _names(text: str) -> list[str]:
    return text.split()


MOVING = frozenset(
    _names(
        """
        alias arange as_strided cat clone constant_pad_nd contiguous convert_element_type copy detach diagonal
        embedding empty
        empty_like empty_strided expand eye fill flip full full_like gather index index_select iota
        lift_fresh_copy linspace masked_select movedim narrow new_empty new_full new_ones new_zeros one_hot
        ones ones_like permute pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d
        reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d
        reshape roll rot90 scalar_tensor scatter select select_scatter slice slice_scatter split
        split_with_sizes squeeze stack t take take_along_dim tile _to_copy transpose tril triu unbind unfold
        _unsafe_index _unsafe_view unsqueeze upsample_nearest1d upsample_nearest2d upsample_nearest3d view
        view_as_complex view_as_real zeros zeros_like
        """
    )
)
"""Operations without arithmetic, which move elements or make constants."""

REDUCING = frozenset(
    _names(
        """
        all amax amin any argmax argmin count_nonzero linalg_vector_norm max mean min nansum norm prod std
        std_mean sum var var_mean cumsum cumprod cummax cummin kthvalue median nanmedian mode aminmax
        bincount histc nonzero unique_consecutive
        """
    )
)
"""Operations that combine each element at least once."""


# Recurrent networks


def _recurrent(call: Call, gates: int, plain: int, biased: int, special: int) -> Count:
    """Count a recurrent network: operations of each hidden element for each step, layer and direction.

    `biased` additions more where there are biases: one for each sum that is added up apart.
    """
    data = call["input"] if call["input"] is not None else call["data"]
    steps = math.prod(sizes(data)[:-1])
    layers = call["num_layers"] * (2 if call["bidirectional"] else 1)
    parameters: list[Any] = call["params"]
    first = parameters[:: len(parameters) // layers]
    hidden = sum(sizes(weight)[0] // gates for weight in first)
    products = sum(2 * steps * size(p) for p in parameters if len(p.shape) == 2)
    arithmetic = plain + (biased if call["has_biases"] else 0)
    return Count({dtype_of(data): products}, steps * hidden * arithmetic, steps * hidden * special, True)


@_counts("lstm")
def _lstm(call: Call) -> Count:
    """Three sigmoids (2 operations beside the special one) and two tanh; c = f c + i g, h = o tanh(c)."""
    return _recurrent(call, 4, plain=3 * 2 + 3 + 1, biased=4, special=5)


@_counts("gru")
def _gru(call: Call) -> Count:
    """Two sigmoids and tanh; r (h W + b) + ..., h' = n + z (h - n). Biases of r and z add up beforehand."""
    return _recurrent(call, 3, plain=2 * 2 + 2 + 3, biased=4, special=3)


@_counts("rnn_tanh")
def _rnn_tanh(call: Call) -> Count:
    return _recurrent(call, 1, plain=0, biased=1, special=1)


@_counts("rnn_relu")
def _rnn_relu(call: Call) -> Count:
    return _recurrent(call, 1, plain=1, biased=1, special=0)


# Products


@_counts(
    *(
        "mm",
        "bmm",
        "_int_mm",
        "_scaled_mm",
        "_scaled_mm_v2",
        "addmm",
        "baddbmm",
        "addbmm",
        "matmul",
        "linear",
    ),
    *("mv", "dot", "vdot", "addmv", "_weight_int8pack_mm", "_weight_int4pack_mm"),
)
def _product(call: Call) -> Count:
    """Count a product: each element of the result sums K products."""
    name = next(n for n in ("mat1", "batch1", "mat", "input", "self") if isinstance(call[n], torch.Tensor))
    lhs = call[name]
    own = 1 if isinstance(call["bias"], torch.Tensor) or name in ("mat1", "batch1", "mat") else 0
    made = size(call.results[0])
    count = 2 * made * (sizes(lhs)[-1] if lhs.shape else 1)
    if name == "batch1" and len(call.results[0].shape) == 2:
        count *= sizes(lhs)[0]  # addbmm adds up the batches
    return Count({dtype_of(lhs): count}, plain=own * made)


@_counts("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2")
def _grouped(call: Call) -> Count:
    """Count a product in groups of rows, columns or of K."""
    lhs, rhs = sizes(call["self"]), sizes(call["mat2"])
    groups = lhs[0] if len(lhs) == len(rhs) == 3 else 1
    plain = size(call.results[0]) if isinstance(call["bias"], torch.Tensor) else 0
    return Count({dtype_of(call["self"]): 2 * groups * lhs[-2] * lhs[-1] * rhs[-1]}, plain)


@_counts(
    "scaled_dot_product_attention",
    *(f"_scaled_dot_product_{name}_attention" for name in ("flash", "efficient", "cudnn")),
    "_scaled_dot_product_flash_attention_for_cpu",
)
def _attention(call: Call) -> Count:
    """Both products and the softmax; of causal ones with as many rows as columns what is not masked."""
    q, k, v = (sizes(call[n]) for n in ("query", "key", "value"))
    pairs = q[-2] * k[-2]
    if call["is_causal"]:
        pairs = sum(min(row + 1, k[-2]) for row in range(q[-2]))
    scores = math.prod(q[:-2]) * pairs
    return Count({dtype_of(call["query"]): 2 * scores * (q[-1] + v[-1])}, 4 * scores, scores)


@_counts(
    *("convolution", "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("cudnn_convolution", "convolution_overrideable", "_slow_conv2d_forward", "mkldnn_convolution"),
)
def _convolution(call: Call) -> Count | None:
    """Products with padding are none. A transposed one multiplies what its mirror image would."""
    x = call["input"] if call["input"] is not None else call["self"]
    made, weight = call.results[0], call["weight"]
    if call["pad"] is not None:  # conv_tbc: [time, batch, channels] by [time, channels, outputs]
        time, batch, _ = sizes(x)
        window = Window(sizes(weight)[0], pad=call["pad"])
        seen = window.count_seen(time, sizes(made)[0])
        return _convolved(x, weight, batch * math.prod(sizes(weight)[1:]) * seen, made, call["bias"])
    if isinstance(call["padding"], str):
        return None
    wide, narrow = sizes(x), sizes(made)
    turned = call["transposed"] or (call["output_padding"] is not None and "transposed" not in call.given)
    if turned:
        wide, narrow = narrow, wide
    kernel = sizes(weight)
    axes = len(kernel) - 2
    numbers = (
        _each_axis(call[n], axes, least) for n, least in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    windows = [Window(*each) for each in zip(kernel[2:], *numbers, strict=True)]
    seen = [w.count_seen(a, b) for w, a, b in zip(windows, wide[-axes:], narrow[-axes:], strict=True)]
    batch = wide[0] if len(wide) == axes + 2 else 1
    return _convolved(x, weight, batch * kernel[0] * kernel[1] * math.prod(seen), made, call["bias"])


def _each_axis(given: Any, axes: int, least: int) -> list[int]:
    numbers = [int(n) for n in given] if given else [least]
    return numbers * axes if len(numbers) == 1 else numbers


def _convolved(x: Any, weight: Any, products: int, made: Any, bias: Any) -> Count:
    """Complex numbers take three real products each."""
    times = 3 if weight.dtype.is_complex else 1
    plain = size(made) if isinstance(bias, torch.Tensor) else 0
    return Count({dtype_of(x): 2 * times * products}, plain, by_cudnn=True)


# Embedding bags, scatters


@_counts("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _bag(call: Call) -> Count:
    """Each row is added up, or compared, once; with weights multiplied before."""
    picked = size(call["indices"]) * sizes(call["weight"])[1]
    weighted = isinstance(call["per_sample_weights"], torch.Tensor)
    return Count(plain=picked * (2 if weighted else 1))


@_counts("scatter_add", "index_add", "scatter_reduce", "index_reduce")
def _scattered(call: Call) -> Count:
    return Count(plain=size(call["src"] if call["src"] is not None else call["source"]))


@_counts("index_put", "_index_put_impl", "_unsafe_index_put")
def _put(call: Call) -> Count:
    return Count(plain=size(call["values"]) if call["accumulate"] else 0)


# Sorting and searching


def _comparisons(extent: int) -> int:
    """Count the comparisons of sorting: log2(n!)."""
    return math.ceil(math.lgamma(extent + 1) / math.log(2) - 1e-9)


@_counts("sort", "argsort", "msort", "_unique2", "unique_dim")
def _sort(call: Call) -> Count:
    whole = "return_inverse" in call.given
    extent = size(call.first) if whole else call.along()
    return Count(plain=size(call.first) // max(extent, 1) * _comparisons(extent))


@_counts("topk")
def _topk(call: Call) -> Count:
    """Each element is compared once at the least, and those that are kept are put in order."""
    extent, kept = call.along(), call["k"]
    ordered = _comparisons(kept) if call["sorted"] else 0
    return Count(plain=size(call.first) // max(extent, 1) * (extent - 1 + ordered))


@_counts("searchsorted", "bucketize")
def _search(call: Call) -> Count:
    among = call["sorted_sequence"] if call["sorted_sequence"] is not None else call["boundaries"]
    return Count(plain=size(call.results[0]) * math.ceil(math.log2(sizes(among)[-1] + 1)))


@_counts("logcumsumexp")
def _logcumsumexp(call: Call) -> Count:
    return Count(plain=2 * size(call.first), special=2 * size(call.first))


# Transforms and factorisations


@_counts("_fft_c2c", "_fft_r2c", "_fft_c2r")
def _fft(call: Call) -> Count:
    """Split-radix transforms: 4 n log2 n - 6 n + 8 operations for n complex numbers, half for real ones.

    P. Duhamel, H. Hollmann: Split radix FFT algorithm, Electronics Letters 20 (1984).
    """
    x, made = call["self"], call.results[0]
    shape = [max(a, b) for a, b in zip(sizes(x), sizes(made), strict=True)]
    if call["last_dim_size"] is not None:
        shape[call["dim"][-1]] = call["last_dim_size"]
    is_real = not (x.dtype.is_complex and made.dtype.is_complex)
    total = 0.0
    axes: list[int] = call["dim"]
    for axis in axes:
        n = shape[axis]
        total += math.prod(shape) // n * max(4 * n * math.log2(n) - 6 * n + 8, 0) if n > 1 else 0
    return Count(plain=int(total / 2 if is_real else total))


def _factorised(share: float) -> Callable[[Call], Count]:
    """Of n³ for each square matrix, the part that multiplications and additions are."""

    def count(call: Call) -> Count:
        shape = sizes(call["self"] if call["self"] is not None else call["A"])
        return Count(plain=int(share * math.prod(shape[:-2]) * min(shape[-2:]) ** 3))

    return count


_FACTORISED = {
    "linalg_cholesky_ex": _factorised(1 / 3),
    "linalg_lu_factor_ex": _factorised(2 / 3),
    "_linalg_det": _factorised(2 / 3),
    "_linalg_slogdet": _factorised(2 / 3),
    "linalg_inv_ex": _factorised(2),
}
COUNTS.update(_FACTORISED)


# Memory


PICKING = {
    "embedding": ("weight", "indices"),
    "_embedding_bag": ("weight", "indices"),
    "_embedding_bag_forward_only": ("weight", "indices"),
    "index_select": ("self", "index"),
}
"""Operations that read the rows of a tensor that an index names, and not the others."""


def bytes_of(value: Any) -> int:
    """Count the bytes of a tensor; 0 for other values."""
    return size(value) * value.element_size() if isinstance(value, torch.Tensor) else 0


def read_bytes(node: Any, source: Any) -> int:
    """Count the bytes a node reads of an operand: all, or the selected rows."""
    value = source.meta["val"]
    whole = bytes_of(value)
    packet = getattr(node.target, "overloadpacket", None)
    if packet is None or packet.__name__ not in PICKING:
        return whole
    call = Call(node)
    table, index = (call[name] for name in PICKING[packet.__name__])
    if table is not value:
        return whole
    axis = call["dim"] or 0
    rows = max(sizes(value)[axis], 1)
    return min(whole, whole // rows * size(index))
