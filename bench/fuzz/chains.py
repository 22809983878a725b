"""Random chains of operations on whole tensors of small extents, in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from bench.fuzz.attending import gradients, optioned, paged
from bench.fuzz.conditions import all_or_any, as_number, combined, compared, masking, selecting
from bench.fuzz.drawing import NAMES, Chain, Operation, Unfit, Value
from bench.fuzz.elementary import (
    bounded,
    broadcast,
    cast,
    chosen,
    counted,
    dropped,
    element,
    extreme,
    gathered,
    indexed,
    moved,
    normed,
    ordered,
    permuted,
    pointwise,
    ranked,
    reduced,
    reshaped,
    scanned,
    scattered,
    smooth,
    sorted_,
    summed,
    taken,
)
from bench.fuzz.integral import arithmetic, bits, counted_up, put_in_order, running, whole_element
from bench.fuzz.products import (
    attended,
    convolved,
    grouped,
    multiplied,
    narrow,
    outer,
    pooled,
    shared,
    written_out,
)
from bench.fuzz.scalars import bounded_slice, joined_rest, measured, scaled

OPERATIONS: dict[Operation, int] = {
    element: 5,
    pointwise: 5,
    chosen: 2,
    cast: 2,
    dropped: 1,
    permuted: 3,
    reshaped: 4,
    indexed: 4,
    moved: 5,
    broadcast: 3,
    reduced: 5,
    extreme: 1,
    normed: 3,
    scanned: 2,
    ordered: 2,
    gathered: 2,
    scattered: 2,
    taken: 2,
    multiplied: 5,
    outer: 1,
    grouped: 2,
    narrow: 2,
    attended: 3,
    written_out: 2,
    shared: 1,
    counted: 2,
    bounded: 1,
    ranked: 2,
    convolved: 5,
    pooled: 4,
    compared: 3,
    combined: 4,
    selecting: 5,
    masking: 1,
    all_or_any: 3,
    as_number: 3,
    bits: 3,
    arithmetic: 3,
    whole_element: 2,
    counted_up: 3,
    put_in_order: 2,
    running: 2,
    optioned: 3,
    gradients: 1,
    paged: 2,
    scaled: 2,
    measured: 2,
    bounded_slice: 3,
    joined_rest: 2,
}
"""Operations with their weights: how often each is drawn relative to the others."""

EXACT = (
    *(pointwise, chosen, dropped, permuted, reshaped, indexed, moved, broadcast),
    *(scanned, gathered, scattered, taken, pooled, smooth, summed, sorted_),
)
"""Operations that round nothing but sums in f32."""

NARROW = ("s8", "u8", "e4m3", "e5m2")
"""Dtypes of 8 bits, of which a chain may begin with a tensor."""

UNROUNDED = "// rounds nothing\n"
"""The first line of programs of 16 bits that round nothing, and have results in f32."""


def chain(seed: str, rounds: bool = True) -> str:
    """Draw the text of a program of 1 to 9 operations."""
    c = Chain(random.Random(seed), rounds)
    weights = OPERATIONS if rounds else dict.fromkeys(EXACT, 1)
    operations = [o for o, weight in weights.items() for _ in range(weight)]
    dtype = c.pick(
        ("f32",) * 6 + ("bf16", "bf16", "f16", "f16", "s32", "s32", *NARROW) if rounds else ("bf16", "f16")
    )
    v = c.param(c.dims(c.pick((1, 2, 2, 2, 3, 3, 4, 4, 5))), dtype)
    c.values.append(v)
    done, wanted = 0, c.rng.randint(1, 9)
    while done < wanted:
        start = v if c.chance(0.8) else c.pick(c.values)
        before = len(c.params)
        try:
            made = c.pick(operations)(c, start)
        except Unfit:
            del c.params[before:]
            continue
        done += 1
        v = c.named(made) if c.chance(0.8) else made
        c.values.append(v)
    first = c.chance(0.8)  # else the parameter itself may be a result
    results = [v, *(c.pick(c.values[first:]) for _ in range(c.pick((0, 0, 0, 1, 2))))]
    return written(c, results)


def written(c: Chain, results: Sequence[Value]) -> str:
    """Return the program of a chain; with `rounds` results may have the dtype of their values."""
    results = [
        replace(r, text=f"cast({r.text}, f32)", dtype="f32") if r.dtype == "bool" else r for r in results
    ]
    wide = [(r, r.dtype if r.dtype in ("s32", "s8", "u8") else "f32") for r in results]
    stored = [(r, c.pick((wide, r.dtype))) for r, wide in wide] if c.rounds else wide
    types = [f"{dtype}[{', '.join(map(str, r.dims))}]" for r, dtype in stored]
    to = types[0] if len(types) == 1 else f"({', '.join(f'y{i}: {t}' for i, t in enumerate(types))})"
    used = " ".join((*c.params, *c.lines, *types)).replace("None", "")
    names = [n for n in NAMES if n in used]
    plain = {d for p in c.params for d in p.partition("[")[2].partition("]")[0].split(", ")}
    known = [f"{n.lower()}: f32[{n}]" for n in names if n not in plain]
    declared = ", ".join([*c.params, *known])
    opened = f"[{', '.join(names)}]" if names else ""
    head = f"kernel f{opened}({declared}) -> {to} {{"
    lines = [*c.lines, f"return {', '.join(r.text for r in results)}"]
    return ("" if c.rounds else UNROUNDED) + "\n".join([head, *(f"    {line}" for line in lines), "}\n"])
