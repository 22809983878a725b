"""Fuse pointwise work into bodies: between loads and stores, one `cutlass.compute` per stored value."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.nodes import ComputeOp, LoadNode, StoreNode, ValueNode, YieldOp
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp
from mucc.dialects.rewriting import Pass
from mucc.dialects.walk import postorder

Pointwise = ElementwiseOp | ConstantOp


_AFTER_ALL = 1 << 30


def _inputs_and_ops(root: SSAValue, done: dict[SSAValue, SSAValue]) -> tuple[list[SSAValue], list[Operation]]:
    """Return the inputs of a body that computes `root`, and the ops in it, operands first."""

    def is_outside(value: SSAValue) -> bool:
        return (value is not root and value in done) or not isinstance(value.owner, Pointwise)

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        owner = value.owner
        return () if is_outside(value) or not isinstance(owner, Pointwise) else owner.operands

    inputs: list[SSAValue] = []
    inside: list[Operation] = []
    for value in postorder(root, operands):
        if is_outside(value):
            inputs.append(value)
        elif isinstance(owner := value.owner, Pointwise):
            inside.append(owner)
    # Accumulators come first, as a reader expects them.
    inputs.sort(key=_rank)
    return inputs, list(inside)


def _rank(value: SSAValue) -> int:
    owner = value.owner
    return owner.number if isinstance(owner, ValueNode) else _AFTER_ALL


def _body(root: SSAValue, done: dict[SSAValue, SSAValue]) -> ComputeOp:
    inputs, inside = _inputs_and_ops(root, done)
    block = Block(arg_types=[f32] * len(inputs))
    mapping: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for op in inside:
        new = op.clone(mapping)
        block.add_op(new)
        mapping[op.results[0]] = new.results[0]
    block.add_op(yielded := YieldOp(mapping[root]))
    compute = ComputeOp([done.get(v, v) for v in inputs], Region(block))
    yielded.location = compute.location = inside[-1].location
    return compute


def _fuse(kernel: c.DeviceKernelOp) -> None:
    block = kernel.body.block
    stores = kernel.stores
    for store in stores:
        # Loads and arithmetic first, then all stores: bodies go between the two.
        store.detach()
        block.add_op(store)
    order = {op: i for i, op in enumerate(block.ops)}
    done: dict[SSAValue, SSAValue] = {}
    # Values that others are computed from come first, so that nothing is computed twice.
    values = [op for op in order if isinstance(op, ValueNode)]
    takers: dict[SSAValue, Operation] = {}
    for op in (*values, *stores):
        for operand in op.operands[: 1 if isinstance(op, StoreNode) else None]:
            if isinstance(operand.owner, Pointwise):
                takers.setdefault(operand, op if isinstance(op, ValueNode) else stores[0])
    taken = sorted(takers, key=lambda v: order[v.owner] if isinstance(v.owner, Operation) else -1)
    for value in reversed(taken):
        # What it is computed from comes before it, whoever takes that first.
        for operand in _inputs_and_ops(value, dict.fromkeys(takers, value))[0]:
            if operand in takers:
                takers[operand] = min(takers[operand], takers[value], key=order.__getitem__)
    for value in taken:
        block.insert_op_before(compute := _body(value, done), takers[value])
        done[value] = compute.result
    for op in (*values, *stores):
        op.operands = [done.get(v, v) for v in op.operands]
    for op in reversed(list(block.ops)):
        if isinstance(op, Pointwise | LoadNode | ValueNode) and op.results[0].first_use is None:
            op.detach()
            op.erase()


class FuseEpilogue(Pass):
    """Collect scalar ops into compute nodes.

    ```
    %2 = mu.add %acc, %bias             %2 = cutlass.compute %acc, %bias {
    %3 = mu.gelu %2               ->    ^bb0(%a: f32, %b: f32): ... gelu(a + b) ... }
    cutlass.store_d %3, %out            cutlass.store_d %2, %out
    ```
    """

    name = "fuse-epilogue"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for program in op.body.block.ops:
            if isinstance(program, c.ProgramOp):
                for kernel in program.kernels:
                    _fuse(kernel)
