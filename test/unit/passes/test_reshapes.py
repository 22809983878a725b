"""Reshapes of slices, flips and permutations are views where they can be, with the same elements."""

from __future__ import annotations

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims
from mucc.passes.reshapes import Group, groups

SIZES = {"B": 2, "M": 3}


@pytest.mark.parametrize(
    ("dims", "new", "found"),
    [
        (("B", "M", 256), ("B", "M", 4, 64), [(0, 1, 0, 1), (1, 2, 1, 2), (2, 3, 2, 4)]),
        (("B", "M", 4, 64), ("B*M", 256), [(0, 2, 0, 1), (2, 4, 1, 2)]),
        ((6, 4), (4, 6), [(0, 2, 0, 2)]),
        ((6, 4, 5), (3, 8, 5), [(0, 2, 0, 2), (2, 3, 2, 3)]),
        (("64*B",), ("B", 64), [(0, 1, 0, 2)]),
        ((), (), []),
    ],
)
def test_runs_have_as_many_elements(dims: Dims, new: Dims, found: list[tuple[int, ...]]) -> None:
    assert groups(dims, new) == [Group(*run) for run in found]


def stages(text: str, seed: int = 0) -> int:
    """Compare a program's meaning with that of its stages and kernels, and return how many those are."""
    made = compile_text(Source("t.mcu", text))
    x = np.random.default_rng(seed).normal(size=(SIZES["B"], SIZES["M"], 4, 6)).astype(np.float32)
    (meant,) = made.interpret("f", [x])
    np.testing.assert_array_equal(made.interpret_lowered("f", [x])[0], meant)
    return sum(isinstance(op, StageOp) for op in made.stages.walk())


def kernel(view: str, dims: str) -> str:
    return f"kernel f[B, M](x: f32[B, M, 4, 6]) -> f32[{dims}] {{ return 2 * reshape({view}, ({dims},)) }}"


@pytest.mark.parametrize(
    ("view", "dims"),
    [
        ("reshape(x, (B, M, 24))[:, :, 6:18]", "B, M, 2, 6"),
        ("reshape(x, (B, M, 24))[:, :, 6:18]", "B, M, 2, 3, 2"),
        ("x[:, :, 1:3]", "B, M, 12"),
        ("x[:, :, 1:3]", "B*M, 4, 3"),
        ("x[:, :, 1::2]", "B*M, 2, 3, 2"),
        ("x[:, :, ::-1]", "B, M, 1, 4, 3, 2"),
        ("x[:, :, 2]", "B*M, 2, 3"),
        ("x[:, 1:2, 3:4, 5:]", "B"),
        ("x[:, :, 1:3, 2:4]", "1, B, M, 2, 1, 2"),
        ("permute(x, (2, 0, 1, 3))", "4, B*M, 2, 3"),
        ("permute(x, (2, 0, 1, 3))[1:3]", "2, B*M, 1, 6"),
        ("permute(x[:, :, 1:3], (0, 2, 1, 3))[:, :, None]", "B, 2, M, 6"),
        ("x.T", "B*M, 2, 3, 4"),
    ],
)
def test_views_are_read_where_they_lie(view: str, dims: str) -> None:
    assert stages(kernel(view, dims)) == 1


@pytest.mark.parametrize(
    ("view", "dims"),
    [
        ("x[:, :, 1:3]", "B, 12*M"),
        ("reshape(x, (B, M, 24))[:, :, 3:15]", "B, M, 2, 6"),
        ("x[:, :, ::2]", "B, M, 12"),
        ("permute(x, (0, 2, 1, 3))", "4*B, M, 6"),
        ("permute(x, (0, 2, 1, 3))", "B, 4, 6*M"),
    ],
)
def test_others_are_copied(view: str, dims: str) -> None:
    assert stages(kernel(view, dims)) == 2


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.integers(0, 99))
def test_chains_of_views_keep_their_elements(data: st.DataObject, seed: int) -> None:
    """Extents of the first two axes are run-time ones while the chain leaves them alone."""
    dims: list[int | str] = ["B", "M", 4, 6]
    body = ""
    for n in range(data.draw(st.integers(1, 5))):
        before = "x" if n == 0 else f"v{n - 1}"
        match data.draw(st.sampled_from(("slice", "step", "flip", "permute", "reshape", "insert"))):
            case "slice" | "step" as kind if fixed := [i for i, d in enumerate(dims) if isinstance(d, int)]:
                axis = data.draw(st.sampled_from(fixed))
                extent = int(dims[axis])
                start = data.draw(st.integers(0, extent - 1))
                stop, step = data.draw(st.integers(start + 1, extent)), 1 if kind == "slice" else 2
                dims[axis] = -(-(stop - start) // step)
                word = f"{before}[{':, ' * axis}{start}:{stop}:{step}]"
            case "flip":
                word = f"flip({before}, {data.draw(st.integers(0, len(dims) - 1))})"
            case "permute" if len(dims) > 1:
                order = data.draw(st.permutations(range(len(dims))))
                dims = [dims[axis] for axis in order]
                word = f"permute({before}, {tuple(order)})"
            case "reshape":
                dims = data.draw(reshaped(dims))
                word = f"reshape({before}, {_shape(dims)})"
            case _:
                axis = data.draw(st.integers(0, len(dims)))
                dims.insert(axis, 1)
                word = f"{before}[{':, ' * axis}None]"
        body += f"v{n} = {word}\n"
    text = f"kernel f[B, M](x: f32[B, M, 4, 6]) -> f32[{_shape(dims)[1:-1]}] {{\n{body}return v{n} }}"
    stages(text, seed)


def _shape(dims: list[int | str]) -> str:
    return f"({', '.join(map(str, dims))}{',' * (len(dims) == 1)})"


@st.composite
def reshaped(draw: st.DrawFn, dims: list[int | str]) -> list[int | str]:
    """Split an axis of known extent, merge two axes, or drop an axis of extent 1."""
    splits = [(i, n) for i, d in enumerate(dims) if isinstance(d, int) for n in (2, 3) if d % n == 0]
    merges = [i for i in range(len(dims) - 1) if isinstance(dims[i], int) or isinstance(dims[i + 1], int)]
    if splits and draw(st.booleans()):
        axis, by = draw(st.sampled_from(splits))
        return [*dims[:axis], int(dims[axis]) // by, by, *dims[axis + 1 :]]
    if not merges:
        return dims
    axis = draw(st.sampled_from(merges))
    one, other = dims[axis : axis + 2]
    if isinstance(one, int) and isinstance(other, int):
        merged: int | str = one * other
    else:
        merged = one if other == 1 else other if one == 1 else f"{one}*{other}"
    return [*dims[:axis], merged, *dims[axis + 2 :]]
