"""Draft work on tensors whose axes are permuted, which kernels read by tiles or do in the other order."""

from __future__ import annotations

from bench.gpu_fuzz.composites import FLOATS, kept_over, norm, softmax
from bench.gpu_fuzz.drafts import FEW, Dim, Dims, Draft, Expr
from bench.gpu_fuzz.pointwise import BINARY, SUBTRACT, binary, chain, partner, reduced, results, scanned
from bench.gpu_fuzz.reference import Bounded

LONG = (64, 1, 31, 33, 63, 65, 127, 130, 200)
"""Extents of the axes along which tiles lie: those of tiles, and their neighbours."""

DTYPES = (*FLOATS, "s8", "u8", "e4m3", "e5m2", "s32")
"""Dtypes of operands: kernels read them in tiles together, whatever their sizes."""


def orders(d: Draft) -> None:
    """Draft pointwise work, norms and reductions between permutations, which may cancel."""
    rank = 2 + d.c.number(4)
    long = {d.c.number(rank), d.c.number(rank)}
    dims: Dims = tuple(d.dim(f"D{i}", LONG) if i in long else d.dim(f"D{i}", FEW) for i in range(rank))
    order = draw_order(d, rank)
    y = _permuted(d, dims, order, d.c.pick(FLOATS))
    for _ in range(1 + d.c.number(4)):
        match d.c.pick(("operand", "operand", "chain", "softmax", "norm", "kept", "scan")):
            case "operand":
                y = binary(d.c.pick(BINARY), y, _operand(d, dims, order), dims)
            case "chain":
                y = chain(d, y, 2)
            case "softmax":
                y = softmax(d, y, d.c.number(rank), logarithm=d.c.chance(1, 3))
            case "norm":
                axes = tuple(sorted({d.c.number(rank), d.c.number(rank)}))
                y = norm(d, y, d.c.pick(("layer_norm", "rms_norm")), axes)
            case "kept":
                y = d.named(y)
                kind = d.c.pick(("max", "min", "sum", "amax"))
                y = binary(SUBTRACT, y, kept_over(d, y, kind, d.c.number(rank)), dims)
            case _:
                y = scanned(d, y)
    if d.c.chance(1, 3):
        d.result(reduced(d, y), "f32")
        return
    back = tuple(order.index(axis) for axis in range(rank))
    results(d, permute(y, d.c.pick((back, back, draw_order(d, rank), tuple(range(rank))))))


def draw_order(d: Draft, rank: int) -> tuple[int, ...]:
    """Draw an order of axes."""
    left = list(range(rank))
    return tuple(left.pop(d.c.number(len(left))) for _ in range(rank))


def permute(y: Expr, order: tuple[int, ...]) -> Expr:
    """Return a tensor with its axes in another order."""
    dims = tuple(y.dims[axis] for axis in order)
    text = f"permute({y.text}, ({', '.join(map(str, order))}))"
    return Expr(text, y.dtype, dims, lambda env: Bounded(*(t.permute(order) for t in y.value(env))))


def _permuted(d: Draft, dims: Dims, order: tuple[int, ...], dtype: str) -> Expr:
    """Return a parameter with these dims after its axes were permuted."""
    source: list[Dim] = [dims[order.index(axis)] for axis in range(len(dims))]
    kind = "integer" if dtype in ("s8", "u8", "s32") else "normal"
    return permute(d.tensor(tuple(source), dtype, stem="x", kind=kind), order)


def _operand(d: Draft, dims: Dims, order: tuple[int, ...]) -> Expr:
    """Return an operand of all extents in the given order, its own, or another, or one that broadcasts."""
    rank = len(dims)
    match d.c.pick(("given", "given", "own", "other", "part", "ones")):
        case "given":
            return _permuted(d, dims, order, d.c.pick(DTYPES))
        case "own":
            return _permuted(d, dims, tuple(range(rank)), d.c.pick(DTYPES))
        case "other":
            return _permuted(d, dims, draw_order(d, rank), d.c.pick(DTYPES))
        case "ones":
            ones = tuple(d.c.pick((e, e, 1)) for e in dims)
            return _permuted(d, ones, order, d.c.pick(DTYPES))
        case _:
            return partner(d, dims, "f32")
