"""Values of a channel behind convolutions: kernels before and after they have nodes of their own."""

from __future__ import annotations

import numpy as np
import pytest
from builders import lowered
from tensorlib import random
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.cutlass.nodes import ComputeOp, LoadOp
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.cutlass.views import view_of
from mucc.kernels.conv.op import ConvKernelOp
from mucc.kernels.conv.per_channel import per_channel
from mucc.kernels.conv.split_channels import SplitChannels
from mucc.kernels.interpreter import interpret_program
from mucc.passes.pipeline import pipeline

X = "x: f32[2, 8, 5, 6]"
W = "w: f32[12, 8, 3, 3]"
CHANNEL = "f32[12, 1, 1]"
BODIES = {
    "norm": (2, "relu((y - a) * (1 / sqrt(abs(b) + 0.5)) * a + b)"),
    "two values": (3, "where(a > 0, y, y * exp(a)) + tanh(a * b)"),
    "constants": (3, "y + exp(a) + b * 2"),
    "nothing of a channel": (1, "relu(y) + y * 2"),
    "inputs alone": (1, "y * a + b"),
}
"""Pointwise work behind a convolution y, and how many bodies it is split into."""


@pytest.mark.parametrize("name", BODIES)
def test_split_bodies_compute_the_same(name: str) -> None:
    count, body = BODIES[name]
    module = lowered(
        f"kernel k({X}, {W}, a: {CHANNEL}, b: {CHANNEL}) -> f32[2, 12, 5, 6] {{\n"
        f"  y = conv(x, w, pad=1)\n  return {body}\n}}"
    )
    values = [random(2, 8, 5, 6), random(12, 8, 3, 3), random(12, 1, 1), random(12, 1, 1)]
    before: list[np.ndarray] = []
    for step, level in pipeline("sm_90a"):
        if isinstance(step, SplitChannels):
            assert bodies(module) == 1
            before = interpret_program(program_of(module), values)
        step.apply(None, module)
        level.verify(module)
        if before:
            break
    assert bodies(module) == count
    after = interpret_program(program_of(module), values)
    assert before and all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_values_of_a_channel_are_those_that_no_position_changes() -> None:
    module = lowered(
        f"kernel k({X}, {W}, a: {CHANNEL}, r: f32[6], s: f32) -> f32[2, 12, 5, 6] {{\n"
        "  return (conv(x, w, pad=1) + exp(r)) * a * s\n}"
    )
    for step, _ in pipeline("sm_90a"):
        step.apply(None, module)
    loads = [
        value.owner.source for value in per_channel(kernel_of(module)) if isinstance(value.owner, LoadOp)
    ]
    assert {program_of(module).body.block.args.index(view_of(source).base) for source in loads} == {2, 4}


def program_of(module: ModuleOp) -> ProgramOp:
    (program,) = module.body.block.ops
    assert isinstance(program, ProgramOp)
    return program


def kernel_of(module: ModuleOp) -> ConvKernelOp:
    (kernel,) = (op for op in program_of(module).kernels if isinstance(op, ConvKernelOp))
    return kernel


def bodies(module: ModuleOp) -> int:
    return sum(isinstance(op, ComputeOp) for op in kernel_of(module).nodes)
