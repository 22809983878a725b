"""Describe a convolution in plain numbers, by which strategies are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from mucc.dialects.mu import window_rules
from mucc.dialects.mu.ops.conv import ConvolutionOp, ConvTransposeOp
from mucc.dialects.mu.types import Dim, Shaped, TensorType, dtype_bytes
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.op import ConvKernelOp, Geometry
from mucc.kernels.conv.per_channel import per_channel
from mucc.kernels.traffic import LARGE
from mucc.library import extents
from mucc.target.facts import WIDEST_ACCESS


class Layer(NamedTuple):
    """A convolution as strategies judge it; channels are those of one group. Open extents count as large."""

    rows: int
    """Positions of the result, in all batches."""
    channels: int
    outputs: int
    groups: int
    taps: float
    """Filter taps that one output reads; in a transposed convolution those of its residue class."""
    compute: str
    element_bytes: int
    whole: bool
    """Whether the channels of a group are a multiple of 16 bytes at compile time."""
    moved: int
    """Bytes of x, the weights and the result."""
    classes: int = 1
    """Classes of outputs that see different taps."""
    windows: tuple[Window, ...] = ()
    places: tuple[int, ...] = ()
    """Extents of the result along its spatial axes."""
    transposed: bool = False
    channels_known: bool = True
    """Whether channels are a number of the program."""
    vectors: bool = False
    """Whether x can be read four neighbours along the last spatial axis at a time."""
    matrices: bool = False
    """Whether the positions of a channel of x are adjacent, and a multiple of 16 bytes."""
    reduced: bool = False
    """Whether the channels of a position are reduced by the block that has them all."""
    pooled: tuple[int, ...] = ()
    """Positions of a window along the spatial axes, where a block pools its results."""
    measured: bool = False
    """Whether blocks store moments of what they compute."""
    batch: int = 0
    """Elements of the batch, 0 where a call decides."""
    copied: int = 0
    """Bytes that a copy of x to another order of axes moves, for strategies that copy 16 bytes at a time."""
    behind: int = 0
    """Bytes that pointwise work behind reads for each result, but for those that a channel shares."""
    turned: int = 0
    """Bytes that copies of x and weights move so that the batch and channels of the result are innermost."""
    channels_last: bool = False
    """Whether the channels of a position of the result are adjacent."""


def layer_between(
    x: tuple[Dim, ...],
    w: tuple[Dim, ...],
    result: tuple[Dim, ...],
    geometry: Geometry,
    compute: str,
    element_bytes: int,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> Layer:
    """Describe a convolution of x `[N, C, ...]` with weights to a result `[N, O, ...]`, by their extents."""

    def size(dim: Dim) -> int:
        return dim if isinstance(dim, int) else _value(dim, sizes)

    taps = math.prod(int(d) for d in w[2:])
    classes = math.prod(geometry.stride) if geometry.transposed else 1
    channels, outputs = size(x[1]) // geometry.groups, size(result[1]) // geometry.groups
    rows = math.prod(map(size, (result[0], *result[2:])))
    whole = isinstance(x[1], int) and channels % (WIDEST_ACCESS // element_bytes) == 0
    moved = element_bytes * sum(math.prod(map(size, dims)) for dims in (x, w, result))
    return Layer(
        rows,
        channels,
        outputs,
        geometry.groups,
        taps / classes,
        compute,
        element_bytes,
        whole,
        moved,
        classes,
        tuple(window_rules.windows([int(d) for d in w[2:]], *geometry[:3])),
        tuple(map(size, result[2:])),
        geometry.transposed,
        isinstance(x[1], int),
        isinstance(x[-1], int) and x[-1] % 4 == 0,
        matrices=_known_product(x[2:]) % (WIDEST_ACCESS // element_bytes) == 0,
        batch=x[0] if isinstance(x[0], int) else 0,
        copied=_copied_bytes(element_bytes * math.prod(map(size, x)), w, geometry),
        channels_last=geometry.channels_last,
    )


def _copied_bytes(x_bytes: int, w: tuple[Dim, ...], geometry: Geometry) -> int:
    """Return the bytes that a copy of x moves: of lines and elements that windows of one element skip none.

    Lines of which some elements are read come from memory whole.
    """
    if not geometry.has_single_elements(w[2:]):
        return 2 * x_bytes
    lines = x_bytes // math.prod(geometry.stride[:-1])
    return lines + lines // geometry.stride[-1]


def _known_product(dims: tuple[Dim, ...]) -> int:
    """Return the product of extents; 1 where a call decides about one."""
    return math.prod(d for d in dims if isinstance(d, int)) if all(isinstance(d, int) for d in dims) else 1


def _value(dim: str, sizes: Mapping[str, int]) -> int:
    names = {name for term, _ in extents.polynomial(dim).terms for name in term}
    return max(1, extents.value(dim, {name: sizes.get(name, LARGE) for name in names}))


def geometry_of(op: ConvolutionOp) -> Geometry:
    """Return the windows and groups of a convolution."""
    numbers = (op.stride, op.pad, op.dilation)
    stride, pad, dilation = (tuple(n.get_values()) for n in numbers)
    flags = (isinstance(op, ConvTransposeOp), op.channels_last is not None)
    return Geometry(stride, pad, dilation, op.groups.value.data, *flags)


def layer_of(op: ConvolutionOp, geometry: Geometry) -> Layer:
    """Describe a convolution of the language."""
    element = dtype_bytes(Shaped.of(op.operand.type).element_type)
    x, w = Shaped.of(op.operand.type).dims, Shaped.of(op.weight.type).dims
    return layer_between(x, w, op.result_dims, geometry, op.compute.data.value, element, {})


def layer_of_kernel(op: ConvKernelOp, sizes: Mapping[str, int]) -> Layer:
    """Describe the convolution of a kernel, where open dims have `sizes`."""
    element = dtype_bytes(Shaped.of(op.x.type).element_type)
    result = (op.extents[0], op.outputs, *op.places)
    layer = layer_between(op.x_dims, op.w_dims, result, op.geometry, op.compute.data.value, element, sizes)
    pooled = () if op.pool is None else op.pool.sizes
    behind = read_behind(op)
    return layer._replace(
        reduced=op.is_reduced,
        pooled=pooled,
        measured=op.moments is not None,
        behind=behind,
        moved=layer.moved + behind * layer.rows * layer.outputs * layer.groups,
    )


def read_behind(op: ConvKernelOp) -> int:
    """Return the bytes that the pointwise work of a kernel reads for each result, at most."""
    shared = per_channel(op)
    loads = {
        n.source for n in op.loads if isinstance(n.source.type, TensorType) and n.results[0] not in shared
    }
    return sum(dtype_bytes(Shaped.of(source.type).element_type) for source in loads)
