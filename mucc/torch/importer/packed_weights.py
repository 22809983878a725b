"""Give products weights of 4 bits that a module unpacks from words of its state.

    w = (words[:, :, None] >> arange(0, 32, 4)) & 15      # of the module's state alone: [N, K/8, 8]
    x @ ((reshape(w, (N, G, K/G)) - z) * s).reshape(N, K).T
        -> w4 = pack_u4(reshape(w, (N, K)))               # once, by the driver
           x @ ((reshape(cast(w4, f16), (N, G, K/G)) - z) * s).reshape(N, K).T

What is unpacked has at most 4 bits by its mask or shift, whatever the words are. Integers that are subtracted
from such are subtracted as floats, which is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mucc.dialects.walk import postorder
from mucc.library.packing import pack_s4, pack_u4
from mucc.runtime.prepared import unpacked
from mucc.torch.importer.capture import Captured, Source, torch
from mucc.torch.importer.fold_norms import PREPARED, is_state
from mucc.torch.importer.nodes import called, keeps_place, tensor_inputs

Node = Any
Range = tuple[int, int]
_aten: Any = torch.ops.aten

PACKED = "packed"
"""The key of a node's `meta` where its elements are of 4 bits, with their dtype, which torch lacks."""

PACKINGS = {"uint4x2": ((0, 15), pack_u4), "int4x2": ((-8, 7), pack_s4)}
"""What such elements may be, by their dtype, and what packs them two to a byte."""

SMALL = 64
"""The largest magnitude of integer constants that are traced: sums and differences of two fit into 8 bits."""

_ORDERING = (
    *(_aten.view, _aten.reshape, _aten._unsafe_view, _aten.permute, _aten.transpose, _aten.t),
    *(_aten.unsqueeze, _aten.squeeze, _aten.slice, _aten.select, _aten.expand, _aten.clone, _aten.flatten),
    *(_aten.cat, _aten.stack, _aten.slice_scatter, _aten._to_copy, _aten.contiguous, _aten.alias, _aten.copy),
)
"""Operations whose elements are those of their operands."""

_SHIFTS = (_aten.bitwise_right_shift, _aten.__rshift__)
_VIEWS = (_aten.view, _aten.reshape, _aten._unsafe_view)
_PRODUCTS = {_aten.linear.default: 1, _aten.mm.default: 1, _aten.matmul.default: 1, _aten.addmm.default: 2}
"""Products of matrices, with the place of the weights among their arguments."""


def pack_weights(captured: Captured) -> None:
    """Pack the weights of products, of a module in inference."""
    if captured.training:
        return
    steady = _steady(captured)
    ranges: dict[Node, Range] = {}
    for node in captured.graph.nodes:
        if node in steady and (found := _range(node, ranges)) is not None:
            ranges[node] = found
    for node in [*ranges]:
        if (dtype := _packed_dtype(node, ranges)) is None:
            continue
        readers = [user for user in node.users if _packed_dtype(user, ranges) is None]
        if readers and (weights := _matrix(node)) is not None:
            _pack(captured, node, readers, dtype, weights, ranges)


def _packed_dtype(node: Node, ranges: Mapping[Node, Range]) -> str | None:
    """Return the dtype that holds all elements a value may have; None if 4 bits do not hold them."""
    low, high = ranges.get(node, (-SMALL, SMALL))
    return next((name for name, ((a, b), _) in PACKINGS.items() if a <= low and high <= b), None)


def _steady(captured: Captured) -> set[Node]:
    """Return the values that follow from the module's state alone."""
    found: set[Node] = set()
    changing = {mutation.target for mutation in captured.mutations}
    for node in captured.graph.nodes:
        if node.op == "placeholder":
            given = captured.inputs.get(node.name)
            is_fixed = given is not None and given.source in (Source.CONSTANT, Source.ATTRIBUTE)
            is_kept = is_state(captured, node) or (is_fixed and given not in changing)
        else:
            is_call = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
            is_kept = is_call and not keeps_place(node) and all(s in found for s in node.all_input_nodes)
        if is_kept and isinstance(node.meta.get("val"), torch.Tensor):
            found.add(node)
    return found


def _range(node: Node, known: Mapping[Node, Range]) -> Range | None:
    """Return the least and the largest element that small integers may have; None of other values."""
    packet, value = getattr(node.target, "overloadpacket", None), node.meta["val"]
    if value.dtype.is_floating_point or value.dtype is torch.bool:
        return None
    number = node.args[1] if len(node.args) == 2 and isinstance(node.args[1], int) else None
    if packet is _aten.empty:
        return 0, 0  # which is written before it is read
    if packet is _aten.bitwise_and and number is not None and 0 <= number <= 15:
        return 0, number
    if packet in _SHIFTS and node.args[0].meta["val"].dtype is torch.uint8 and number is not None:
        return (0, 255 >> number) if 4 <= number < 8 else None
    of = [known.get(source) for source in tensor_inputs(node)]
    given = [r for r in of if r is not None]
    if not given or len(given) < len(of):
        return None
    low, high = min(r[0] for r in given), max(r[1] for r in given)
    if packet in (_aten.add, _aten.sub) and number is not None and not node.kwargs:
        number = number if packet is _aten.add else -number
        low, high = low + number, high + number
    elif packet not in _ORDERING:
        return None
    is_held = low >= 0 or value.dtype is not torch.uint8
    return (low, high) if is_held and low >= -SMALL and high < SMALL else None


class Matrix(NamedTuple):
    """The extents `[N, K]` of weights, and whether the values lie as `[K, N]`."""

    shape: tuple[int, int]
    turned: bool

    @property
    def lies(self) -> list[int]:
        """The extents of the values as they lie."""
        return list(self.shape[:: -1 if self.turned else 1])


def _matrix(node: Node) -> Matrix | None:
    """Return the weights `x @ w.T` that a value becomes; None where it is no such."""
    count = node.meta["val"].numel()
    while len(node.users) == 1:
        before, (node,) = node, node.users
        if (place := _PRODUCTS.get(node.target)) is not None:
            if node.args[place] is not before or before.meta["val"].dim() != 2:
                return None
            is_turned = before.target in (_aten.permute.default, _aten.t.default, _aten.numpy_T.default)
            turned = node.target is not _aten.linear.default and not is_turned
            rows, columns = before.meta["val"].shape[:: -1 if turned or is_turned else 1]
            return Matrix((rows, columns), turned) if columns % 2 == 0 else None
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.numel() != count:
            return None
        if any(not isinstance(extent, int) for extent in value.shape):
            return None
    return None


def _pack(
    captured: Captured,
    node: Node,
    readers: list[Node],
    dtype: str,
    weights: Matrix,
    ranges: Mapping[Node, Range],
) -> None:
    """Have readers convert packed elements to the floats that they compute with, if all of them do."""
    wanted = [_floats(reader, node, ranges) for reader in readers]
    if None in wanted or any(_is_returned(each) for each in postorder(node, _calls)):
        return
    graph, like = captured.graph, node.meta["val"]
    with graph.inserting_before(readers[0]):
        matrix = called(graph, like, _aten.reshape.default, node, weights.lies)
        matrix = called(graph, like, _aten.permute.default, matrix, [1, 0]) if weights.turned else matrix
        pack = PACKINGS[dtype][1]
        packed = graph.create_node("call_function", pack, (matrix,), name=f"{node.name}_packed")
        packed.meta |= {"val": _empty(like, weights.shape, torch.uint8), PACKED: dtype}
    for reader, floats in zip(readers, wanted, strict=True):
        with graph.inserting_before(reader):
            values = graph.create_node(
                "call_function", unpacked, (packed, pack is pack_s4, floats), name=f"{node.name}_unpacked"
            )
            values.meta["val"] = _empty(like, weights.shape, floats)
            values = called(graph, like, _aten.permute.default, values, [1, 0]) if weights.turned else values
            values = called(graph, like, _aten.reshape.default, values, list(like.shape))
            others = [n for n in tensor_inputs(reader) if n in ranges and n is not node]
            converted = {n: called(graph, like, _aten._to_copy.default, n, dtype=floats) for n in others}
        if reader.target is _aten._to_copy.default:
            reader.replace_all_uses_with(values)
            graph.erase_node(reader)
            continue
        for old, new in {node: values, **converted}.items():
            reader.replace_input_with(old, new)
        reader.meta["val"] = _empty(like, reader.meta["val"].shape, floats)
        for each in converted.values():
            _prepare(each)
    _prepare(packed)


def _empty(like: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Return a fake tensor in the mode and on the device of another one."""
    with like.fake_mode:
        return torch.empty(shape, dtype=dtype, device=like.device)


def _floats(reader: Node, node: Node, ranges: Mapping[Node, Range]) -> Any:
    """Return the floats that a reader computes with, which hold small integers exactly; None for others."""
    value, packet = reader.meta.get("val"), getattr(reader.target, "overloadpacket", None)
    if not isinstance(value, torch.Tensor):
        return None
    if value.dtype.is_floating_point:
        is_plain = packet is _aten._to_copy and set(reader.kwargs) == {"dtype"} and bool(reader.users)
        is_plain = is_plain and all(user.op != "output" for user in reader.users)
        return value.dtype if is_plain or packet in (_aten.sub, _aten.mul) else None
    is_exact = packet is _aten.sub and not reader.kwargs and all(n in ranges for n in tensor_inputs(reader))
    wide = {user.meta["val"].dtype for user in reader.users if user.target in _FLOATING}
    is_exact = is_exact and value.dtype is not torch.uint8 and len(tensor_inputs(reader)) == 2
    if not is_exact or len(wide) != 1 or any(user.target not in _FLOATING for user in reader.users):
        return None
    floats = wide.pop()
    return floats if floats.is_floating_point else None


_FLOATING = (_aten.mul.Tensor, _aten._to_copy.default)
"""Operations that turn integers to floats before they compute."""


def _prepare(node: Node) -> None:
    """Have the driver compute a value once, with all that it is made of."""
    for each in postorder(node, _calls):
        each.meta[PREPARED] = True


def _is_returned(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _calls(node: Node) -> Iterator[Node]:
    return (source for source in node.all_input_nodes if source.op == "call_function")
