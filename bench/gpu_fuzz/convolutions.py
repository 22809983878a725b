"""Forms with a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.composites import FLOATS, kept_over, norm, softmax
from bench.gpu_fuzz.drafts import FEW, Draft, Env, Expr, root
from bench.gpu_fuzz.pointwise import REDUCTIONS, chain, results
from bench.gpu_fuzz.reference import Bounded

torch: Any = ref.torch

CHANNELS = (8, 1, 2, 3, 4, 5, 16, 24, 32, 33, 40, 64, 72)
WHOLE, LINES = (32, 8, 16, 24, 40, 64, 72, 128), (16, 8, 12, 20, 36, 4)
PLACES = (8, 1, 2, 3, 5, 7, 12, 13, 16, 20, 36)


def windows_of(x: Any, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Any:
    """`[N, C, ...]` as `[N, C, places..., taps...]`."""
    for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True), start=2):
        places = (x.shape[axis] - dilation * (size - 1) - 1) // stride + 1
        first = torch.arange(places, device=x.device)[:, None] * stride
        taps = torch.arange(size, device=x.device)[None] * dilation
        x = (
            x.index_select(axis, (first + taps).flatten())
            .unflatten(axis, (places, size))
            .movedim(axis + 1, -1)
        )
    return x


def convolutions(d: Draft) -> None:
    """Draft a convolution or a transposed one, with channels first or last, with pointwise work and perhaps a
    reduction of its channels behind.
    """
    axes = d.c.pick((2, 2, 1, 3))
    transposed = d.c.chance(1, 3)
    dtype = d.c.pick((*FLOATS, *FLOATS, "e4m3", "s8"))
    whole = d.c.chance(1, 2)  # what warpgroups take: rows and channels of 16 bytes
    planes = whole and d.c.chance(1, 2)
    dtype = "f32" if planes else dtype
    groups = d.c.pick((1, 1, 1, 2, 3, 16)) if not whole else d.c.pick((1, 1, 2, 4))
    inputs, outputs = (d.c.pick(CHANNELS if groups == 1 else (1, 1, 4, 8, 3, 32)) for _ in range(2))
    extents = [d.c.pick(PLACES if axes < 3 else PLACES[:6]) for _ in range(axes)]
    if whole:
        inputs, extents[-1] = d.c.pick(WHOLE if groups == 1 else (8, 32, 64)), d.c.pick(LINES)
    sizes = [d.c.pick((3, 1, 2, 4, 5)) for _ in range(axes)]
    strides = [d.c.pick((1, 1, 2, 3)) for _ in range(axes)]
    dilations = [d.c.pick((1, 1, 1, 2, 3)) for _ in range(axes)]
    pads = [d.c.pick((1, 0, 2)) for _ in range(axes)]
    reaches = [dilation * (size - 1) + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    if transposed:
        pads = [min(p, (r - 1) // 2) for p, r in zip(pads, reaches, strict=True)]
        more = [min(d.c.pick((0, 0, 1, 2)), max(s, w) - 1) for s, w in zip(strides, dilations, strict=True)]
        places = [
            (e - 1) * s - 2 * p + r + m
            for e, s, p, r, m in zip(extents, strides, pads, reaches, more, strict=True)
        ]
    else:
        more = [0] * axes
        extents = [max(e, r - 2 * p) for e, r, p in zip(extents, reaches, pads, strict=True)]
        extents[-1] += -extents[-1] % 4 if whole else 0
        places = [
            (e + 2 * p - r) // s + 1 for e, s, p, r in zip(extents, strides, pads, reaches, strict=True)
        ]
    batch = d.dim("N", FEW)
    weights = (groups * inputs, outputs) if transposed else (groups * outputs, inputs)
    last = [d.c.chance(1, 2) and not (planes and i == 0) for i in range(3)]
    order = (0, axes + 1, *range(1, axes + 1))

    def operand(stem: str, lead: tuple[Any, Any], inner: Sequence[int], is_last: bool, count: int) -> Expr:
        dims = (lead[0], *inner, lead[1]) if is_last else (*lead, *inner)
        x = d.tensor(
            dims,
            dtype,
            stem=stem,
            scale=root(count),
            kind="integer" if dtype == "s8" else "normal",
            layout="row" if planes and stem == "x" else None,
        )
        if not is_last:
            return x
        moved = (lead[0], lead[1], *inner)

        def compute(env: Env) -> Bounded:
            found = x.value(env)
            return Bounded(found.value.permute(order), found.error.permute(order))

        return Expr(f"permute({x.text}, {order})", dtype, moved, compute)

    count = inputs * max(1, int(torch.tensor(sizes).prod()))
    x = operand("x", (batch, groups * inputs), extents, last[0], 1)
    w = operand("w", weights, sizes, last[1], count)
    suffix, way = "", {"e4m3": "8", "s8": "exact"}.get(dtype, "16")
    made_of = "f32" if dtype in ("e4m3", "s8") else dtype
    if planes:
        way = "tf32"
    elif dtype == "f32":
        suffix, way = d.c.pick((("", "tf32"), (", compute=f32", "f32"), (", compute=tf32x3", "tf32x3")))

    def matrices(x: Any, w: Any) -> tuple[Any, Any]:
        """Windows `[N, groups, places, K]` and weights `[groups, K, O]`."""
        if transposed:
            spread = x.new_zeros(
                *x.shape[:2], *((e - 1) * s + 1 for e, s in zip(extents, strides, strict=True))
            )
            spread[(..., *(slice(None, None, s) for s in strides))] = x
            x, steps = spread, [1] * axes
            w = w.unflatten(0, (groups, inputs)).movedim(2, 1).flatten(0, 1).flip(tuple(range(2, axes + 2)))
            borders = [r - 1 - p for r, p in zip(reaches, pads, strict=True)]
        else:
            steps, borders = strides, pads
        around = [p for b, m in zip(reversed(borders), reversed(more), strict=True) for p in (b, b + m)]
        seen = windows_of(torch.nn.functional.pad(x, around), sizes, steps, dilations)
        seen = seen.unflatten(1, (groups, inputs)).movedim(2, 2 + axes).flatten(2, 1 + axes).flatten(3)
        return seen, w.unflatten(0, (groups, outputs)).flatten(2).mT

    def compute(env: Env) -> Bounded:
        a, b = x.value(env), w.value(env)
        (value, weight), (error, weight_error) = matrices(a.value, b.value), matrices(a.error, b.error)
        made = ref.product(Bounded(value, error), Bounded(weight, weight_error), way)
        parts = (part.mT.flatten(1, 2).unflatten(2, places) for part in made)
        return env.passed(Bounded(*parts), made_of)

    def text(numbers: Sequence[int]) -> str:
        return str(numbers[0]) if axes == 1 else f"({', '.join(map(str, numbers))})"

    function = "conv_transpose" if transposed else "conv"
    if any(more):
        suffix = f", output_pad={text(more)}{suffix}"
    options = f"stride={text(strides)}, pad={text(pads)}, dilation={text(dilations)}, groups={groups}{suffix}"
    y = Expr(
        f"{function}({x.text}, {w.text}, {options})", made_of, (batch, groups * outputs, *places), compute
    )
    if last[2]:
        made, back = y, (0, *range(2, axes + 2), 1)

        def reordered(env: Env) -> Bounded:
            found = made.value(env)
            return Bounded(found.value.permute(back), found.error.permute(back))

        y = Expr(f"permute({y.text}, {back})", made_of, (batch, *places, groups * outputs), reordered)
    y = chain(d, y)
    if d.c.chance(1, 4):
        spatial = tuple(range(1, axes + 1)) if last[2] else tuple(range(2, axes + 2))
        whole_elements = tuple(range(1, axes + 2))
        y = norm(d, y, "layer_norm", whole_elements if axes == 1 or d.c.chance(1, 3) else spatial)
        y = chain(d, y, 2)
    if d.c.chance(1, 3):
        y, axis = d.named(y), axes + 1 if last[2] else 1
        kind = d.c.pick(("softmax", *REDUCTIONS, "mean"))
        y = softmax(d, y, axis) if kind == "softmax" else kept_over(d, y, kind, axis)
        y = chain(d, y, 2)
    results(d, y)
