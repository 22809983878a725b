"""Attention to keys and values in pages, by functions of scores."""

from __future__ import annotations

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.composites import cast_to, softmax
from bench.gpu_fuzz.contractions import factor, matmul
from bench.gpu_fuzz.drafts import FEW, Draft, Env, Expr, Param
from bench.gpu_fuzz.pointwise import FUNCTIONS, chain, results, unary
from bench.gpu_fuzz.reference import Bounded

SIGMOID = next(function for function in FUNCTIONS if function.text.startswith("sigmoid"))


def paged(d: Draft) -> None:
    """Draft attention that is written out, whose keys and values lie in pages."""
    batch, count, pool = (d.dim(name, FEW, may_be_number=False) for name in "BNP")
    page, heads, width = d.c.pick((64, 16, 128, 24)), d.c.pick((1, 2)), d.c.pick((64, 16, 96))
    rows = d.c.pick((1, 4)) if d.c.chance(1, 2) else d.dim("M")
    groups = (d.c.pick((2, 3)),) if d.c.chance(1, 2) else ()
    dtype, keys = d.c.pick(("bf16", "f16")), f"{page}*{count}"
    q = d.tensor((batch, heads, *groups, rows, width), dtype, stem="q", layout=d.c.pick(("row", "pitch")))
    table = d.name("table")
    d.add(Param(table, f"{table}: s32[{batch}, {count}]", "s32", "index"))

    def read(stem: str) -> Expr:
        x = d.tensor((pool, page, heads, width), dtype, stem=stem, layout="row")

        def compute(env: Env) -> Bounded:
            index = env.inputs[table].value.long()
            found = (t[index].flatten(1, 2).transpose(1, 2) for t in x.value(env))
            return Bounded(*(t.unsqueeze(2) if groups else t for t in found))

        gathered = f"reshape(gather({x.text}, {table}), ({batch}, {keys}, {heads}, {width}))"
        text = f"permute({gathered}, (0, 2, 1, 3)){'[:, :, None]' if groups else ''}"
        return Expr(text, dtype, (batch, heads, *(1 for _ in groups), keys, width), compute)

    key, value = read("k"), read("v")
    dims = (batch, heads, *groups, rows, keys)

    def multiplied(env: Env) -> Bounded:
        turned = Bounded(*(t.mT for t in factor(key, env)))
        scores = ref.product(factor(q, env), turned, "16")
        return env.passed(Bounded(*(t * width**-0.5 for t in scores)), dtype)

    scores = Expr(f"({q.text} @ {key.text}.T * {width**-0.5})", dtype, dims, multiplied)
    scores = chain(d, scores, 2)
    weights = unary(scores, SIGMOID) if d.c.chance(1, 4) else softmax(d, scores, -1)
    y = matmul(cast_to(weights, dtype), value, (batch, heads, *groups, rows, width))
    results(d, chain(d, y, 1))
