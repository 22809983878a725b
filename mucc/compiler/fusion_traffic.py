"""Bytes that kernels read and write: those of a program, and those of one kernel for each operation."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass.nodes import StoreNode
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.attention import ScoringOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp, RetypeOp, StoredOp
from mucc.dialects.mu.ops.indexed import PickOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.kernels.registry import kind_of
from mucc.kernels.traffic import Traffic
from mucc.passes.forming import Stage
from mucc.passes.partition import Partition
from mucc.passes.values import VIEWS


class Apart(NamedTuple):
    """What one kernel for each operation launches and moves."""

    launches: int
    moved: Traffic


def apart(kernel: KernelOp) -> Apart:
    """Count one kernel for each operation of a kernel of `mu`, and one for each result that nothing computes.

    Views are free. Each kernel reads every operand once, and writes its result.
    """
    launches: list[Traffic] = []
    for op in kernel.body.block.ops:
        if isinstance(op, ElementwiseOp | AnchorOp):
            read = _read(op)
            launches.append(Traffic.sum((*read.values(), Traffic.of(op.results[0].type))))
        elif isinstance(op, ReturnOp | PinOp):
            copied = [v for v in op.operands if not isinstance(_root(v).owner, ElementwiseOp | AnchorOp)]
            launches += [Traffic.of(v.type) * 2 for v in copied]
    return Apart(len(launches), Traffic.sum(launches))


def shares(
    partition: Partition, group: Sequence[Stage], ops: Iterable[Operation], elsewhere: Container[Operation]
) -> Iterator[Traffic]:
    """For each operation of a kernel that computes some stages, the bytes saved against a kernel of its own.

    Operations that another kernel computes as well, `elsewhere`, save nothing, and cost what they read here.
    """
    inside, reads, stores = list(ops), _reads(group), _stores(partition, group)
    read: set[SSAValue] = set()
    for op in inside:
        result = op.results[0]
        forms = dict.fromkeys((result, *partition.forms.of(result)))
        # A cast of the program may be what stores the value for others.
        own = (v for v in forms if v is result or v.owner not in inside)
        parts = [Traffic.of(v.type) * -1 for v in own if v in stores]
        for value, once in _read(op).items():
            if op not in elsewhere:
                parts.append(once)
            wide = partition.forms.wide.get(value, value)
            source = next((v for v in (wide, value) if v in reads), value)
            if (source in reads or value.owner not in inside) and source not in read:
                read.add(source)
                parts.append((once if source is value else Traffic.of(source.type)) * -1)
        if op not in elsewhere:
            parts.append(Traffic.of(result.type))
        yield Traffic.sum(parts)


def _reads(group: Sequence[Stage]) -> set[SSAValue]:
    """Return the values that stages read from others."""
    return {value for stage in group for value, writer in stage.reads.items() if writer not in group}


def _stores(partition: Partition, group: Sequence[Stage]) -> set[SSAValue]:
    """Return the values that stages store, without those that only these stages read."""
    if len(group) == 1:
        return set(group[0].stored)
    stored = {value for stage in group for value in stage.stored}
    between = {value for stage in group for value in stage.reads}
    others = {value for stage in partition.stages if stage not in group for value in stage.reads}
    return {value for value in stored if value not in between or value in others | partition.returned}


_SEEN_THROUGH = (*VIEWS, PinOp, StoredOp, RetypeOp)
"""Operations that move nothing by themselves."""


def _root(value: SSAValue) -> SSAValue:
    while isinstance(view := value.owner, _SEEN_THROUGH):
        value = view.operand
    return value


def _read(op: Operation) -> dict[SSAValue, Traffic]:
    """Return the tensors that an operation reads; of pages those of sequences.

    Keys and values may be parts of one tensor.
    """
    found: dict[SSAValue, Traffic] = {}
    paged = op.in_all_pages if isinstance(op, ScoringOp) else {}
    for operand in dict.fromkeys(op.operands):
        if operand in paged:
            others = [found[root]] if (root := _root(operand)) in found else []
            found[root] = Traffic.sum([*others, Traffic.of(operand.type, paged[operand].dims)])
        else:
            found.update(_seen(operand))
    return found


def _seen(value: SSAValue) -> Iterator[tuple[SSAValue, Traffic]]:
    """Yield the tensors that are read with a value; of gathered rows as many as are read."""
    while isinstance(view := value.owner, _SEEN_THROUGH):
        if isinstance(view, PickOp):
            yield from _seen(view.rows)
            yield view.result, Traffic.of(view.result.type)
            return
        value = view.operand
    if isinstance(value.type, TensorType):
        yield value, Traffic.of(value.type)


def moved(kernel: DeviceKernelOp) -> tuple[Traffic, Traffic]:
    """Return the traffic of a device kernel: its reads and its writes."""
    read, written = tensors_of(kernel)
    return Traffic.sum(read.values()), Traffic.sum(written.values())


def tensors_of(kernel: DeviceKernelOp) -> tuple[dict[SSAValue, Traffic], dict[SSAValue, Traffic]]:
    """Return the tensors that a device kernel reads, and those that it writes, with the bytes of each."""
    read: list[SSAValue] = list(kind_of(kernel).reads(kernel))
    written: list[SSAValue] = []
    for node in kernel.nodes:
        if isinstance(node, StoreNode):
            written.append(node.destination)
        outside = [v for v in node.operands if isinstance(v.type, TensorType)]
        read += [v for v in outside if not (isinstance(node, StoreNode) and v is node.destination)]
    return _bases(read, kind_of(kernel).parts(kernel)), _bases(written)


def _bases(
    values: list[SSAValue], parts: Mapping[SSAValue, Dims] = MappingProxyType({})
) -> dict[SSAValue, Traffic]:
    """Return the tensors behind views, each once; of gathered rows, and of pages, as many as are read."""
    found: dict[SSAValue, Traffic] = {}
    for value in values:
        view = view_of(value)
        if view.rows is None:
            base = view.base
            while isinstance(base.owner, RegroupOp):
                base = view_of(base.owner.operand).base
            found[base] = Traffic.of(base.type, parts.get(value))
        else:
            found |= _bases([view.rows])
            found[value] = Traffic.of(view.base.type, Shaped.of(value.type).dims)
    return found
