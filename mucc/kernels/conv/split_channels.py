"""Split bodies behind convolutions: what is the same for all positions of a channel is a body of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, YieldOp
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.rewriting import Pass
from mucc.dialects.walk import postorder
from mucc.kernels.conv.op import ConvKernelOp
from mucc.kernels.conv.per_channel import per_channel, shared_of_body


@dataclass(frozen=True)
class SplitChannels(Pass):
    """Give values of a channel nodes of their own, which a thread computes once for many positions.

    ```
    %n = cutlass.compute %sum, %mean, %var {         %r = cutlass.compute %var { rsqrt(var + eps) }
      (sum - mean) * rsqrt(var + eps) }         ->   %n = cutlass.compute %sum, %mean, %r {
                                                       (sum - mean) * r }
    ```

    Each operation stays as it is, so results have the same bits.
    """

    name = "split-channels"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp):
                for kernel in program.kernels:
                    if isinstance(kernel, ConvKernelOp) and not kernel.is_reduced and kernel.pool is None:
                        split(kernel)


def split(kernel: ConvKernelOp) -> None:
    """Split the bodies of a kernel."""
    for node in [op for op in kernel.nodes if isinstance(op, ComputeOp)]:
        known = per_channel(kernel)
        if node.result not in known and (taken := shared_of_body(node, known)):
            _split(node, taken)


def _split(node: ComputeOp, taken: Sequence[SSAValue]) -> None:
    block, parent = node.body.block, node.parent_block()
    assert parent is not None
    given: dict[SSAValue, SSAValue] = {**dict(zip(block.args, node.inputs, strict=True))}
    outside = dict(given)
    for value in taken:
        parent.insert_op_before(part := _part(value, given, node), node)
        outside[value] = part.result
    (result,) = (op.value for op in block.ops if isinstance(op, YieldOp))
    whole = _part(result, outside, node)
    parent.insert_op_before(whole, node)
    node.result.replace_all_uses_with(whole.result)
    parent.erase_op(node)


def _part(root: SSAValue, outside: dict[SSAValue, SSAValue], node: ComputeOp) -> ComputeOp:
    """Return a body that computes a value of a node's body from values `outside` of it."""

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        return () if value in outside or not isinstance(value.owner, Operation) else value.owner.operands

    order = list(postorder(root, operands))
    inputs = [v for v in outside if v in order]
    body = Block(arg_types=[f32] * len(inputs))
    mapping: dict[SSAValue, SSAValue] = dict(zip(inputs, body.args, strict=True))
    for value in order:
        if value not in mapping and isinstance(value.owner, Operation):
            body.add_op(new := value.owner.clone(mapping))
            mapping[value] = new.results[0]
    body.add_op(yielded := YieldOp(mapping[root]))
    part = ComputeOp([outside[v] for v in inputs], Region(body))
    yielded.location = part.location = node.location
    return part
