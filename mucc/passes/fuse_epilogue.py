"""Fuse pointwise work into bodies: between loads and stores, one `cutlass.compute` per stored value."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.cutlass import nodes
from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp
from mucc.dialects.rewriting import Pass
from mucc.dialects.walk import postorder

Pointwise = ElementwiseOp | ConstantOp


def _inputs_and_ops(root: SSAValue, done: dict[SSAValue, SSAValue]) -> tuple[list[SSAValue], list[Operation]]:
    """What a body that computes `root` takes from outside, and the ops it holds, operands first."""

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
    # Accumulators come first, so that a reader finds them where he expects them.
    inputs.sort(key=_rank)
    return inputs, list(inside)


def _rank(value: SSAValue) -> int:
    owner = value.owner
    return int(owner.second is not None) if isinstance(owner, nodes.AccFetchOp) else 2


def _body(root: SSAValue, done: dict[SSAValue, SSAValue]) -> nodes.ComputeOp:
    inputs, inside = _inputs_and_ops(root, done)
    block = Block(arg_types=[f32] * len(inputs))
    mapping: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for op in inside:
        new = op.clone(mapping)
        block.add_op(new)
        mapping[op.results[0]] = new.results[0]
    block.add_op(yielded := nodes.YieldOp(mapping[root]))
    compute = nodes.ComputeOp([done.get(v, v) for v in inputs], Region(block))
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
    computed = {s.value: order[s.value.owner] for s in stores if isinstance(s.value.owner, Pointwise)}
    for value in sorted(computed, key=lambda v: computed[v]):
        block.insert_op_before(compute := _body(value, done), stores[0])
        done[value] = compute.result
    for store in stores:
        store.operands[0] = done.get(store.value, store.value)
    for op in reversed(list(block.ops)):
        if isinstance(op, Pointwise | nodes.LoadNode | nodes.AccFetchOp) and op.results[0].first_use is None:
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
