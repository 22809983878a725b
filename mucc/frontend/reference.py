"""Generate the reference card (`mucc docs --card`) and the tables of docs/language.md from the compiler."""

from __future__ import annotations

from mucc.frontend.grammar import grammar
from mucc.target import DEFAULT_TARGET, TARGETS

__all__ = ["card", "grammar"]

_CARD = """\
# mucc reference card

`.mcu` tensor programs become fused kernels for NVIDIA GPUs: sm_90a (Hopper, the default) or, with fewer
kernels, {targets} (`--target`).

```mcu
kernel mlp[M, D, H=4096](
    x: bf16[M, D],
    w1: bf16[H, D],
    b: bf16[H],
    w2: bf16[D, H],
    r: f32[M],
    a: f32,
) -> (y: bf16[M, D], top: f32[M])
    where D % 8 == 0
{
    stage h = gelu(x @ w1.T + b)
    y = a * r[:, None] * (h @ w2.T)
    return y, max(abs(y), axis=1)
}

schedule mlp.h for sm_90a {
    tile      = 128x256x64
    scheduler = persistent(raster=along_n, swizzle=2)
}
```

## Kernels
* Lines `name = expr` (bound once), then one `return`. No loops, strings or `;`.
* Dims are run-time sizes, and numbers in expressions. `K=4096` binds one; others follow from extents of
  parameters, which are arithmetic: [2*N, (K-2)/4] (/ is exact). `where K % 8 == 0, M >= 1` promises.
* Types: bf16[M, 8], f16, f32[] (tensor of one number), f32 (scalar by value). e4m3, e5m2, s8,
  u8, s32 saturate when stored; s4, u4 (`mucc.pack_s4`) only for parameters; bool only inside expressions.
  Layouts of parameters: col_major (last axes swapped), strides(_, 1) (elements, _ = run-time);
  sparse (2:4 along K, `mucc.sparsify(w)`; only `x @ w.T`, sm_90a).

* `kernel each NAME`: callers give lists of problems.
* Results have the declared shape; dtypes convert.
* `fn f(x, a) { return x * sigmoid(a * x) }` beside kernels: no types, inlined.
* `stage h = expr` stores h between two device kernels.

## Expressions
* Operators and precedence: Python's or and not < > == + - * / % @ .T [...], no chains.
* `a @ b`: [.., M, K] @ [.., K, N], leading axes broadcast. A weight [N, K] is `x @ w.T`;
  .T is free. bf16 and f16 multiply as they are, f32 in tf32 (more precise: `matmul(a, b, compute=tf32x3)` or
  f32); sums are f32. e4m3 with e4m3 or e5m2 gives f32, s8 or u8 with either s32: K
  contiguous, scaled as in `(x @ w.T) * sx[:, None] * sw`. bf16, f16 also with s4 and 8-bit weights: `x @
  dequantize(w, s).T`, groups of K by `s: bf16[N, K/128]`. Blocks of e4m3: `matmul(x, w.T, scale_a=sx,
  scale_b=sw)`, sx f32[M, K/128], sw f32[N/128, K/128].
* `grouped_matmul(x, w.T, offsets)`: x [T, K], w [E, N, K], offsets s32[E] (ends of groups of rows, the last
  is T), scale f32[E], bias [E, N]; it and block scales: sm_90a. `gather(x, rows)` is x[rows]; `scatter(y,
  rows, T)` the way back, other rows zero.
* Broadcasting and indexing are NumPy's: extents agree if equal, or 1; b [N] is per column of [M, N],
  `r[:, None]` per row; `x[:, 0]`, `x[..., K/2:]`.
* Inside a stage all is f32; dtypes are for storing. bf16 with f16 or f32 gives f32; `cast(x, bf16)` rounds.
  Conditions: `where(x > 0 and x < 1, a, -inf)`.
* Often wrong: `sum(x, axis=1, keepdims=on)`, not x.sum, torch., dim, True; max(x, axis=1) reduces,
  max(x, 1) compares; lists are (M, N), without -1; one value a line: v = topk(x, 4), i = argtopk(x, 4); //
  comments; pow(x, 2); `layer_norm(x) * g + b`; reductions give f32: `cast(mean(x, axis=1), bf16) @ w`.

## Functions (names in a row share parameters)
{functions}

Reductions drop `axis`, 1 or (0, 1). conv, pools: x [N, C, ...], w [O, C/groups,
...]; conv: e4m3, s8 give f32. MU2010: no kernel.

## Schedules (optional)
`schedule KERNEL for sm_90a { ... }` for all contractions, KERNEL.STAGE for one. {schedules}

## Command line
mucc f.mcu -o f.so; mucc check|fmt f.mcu; mucc run|tune f.mcu --dims M=16,D=4096 (tune: for
later builds); mucc f.mcu --explain-schedule --dims M=16; --emit=stages|schedule|cu.
Python: `m =
mucc.load("f.so"); y, top = m.mlp(x, w1, b, w2, r, 0.5)`, torch tensors.
"""


_ATTENTION = "mask=none, causal=off, scale=auto"


def card() -> str:
    """Generate the reference card: the language on one page, short enough for a model's context.

    Paragraphs and list items are one line each, because line breaks cost tokens.
    """
    from mucc.frontend.functions import FUNCTIONS
    from mucc.kernels.registry import kinds

    names_by_params: dict[str, list[str]] = {}
    for function in (f for overloads in FUNCTIONS.values() for f in overloads):
        names_by_params.setdefault(", ".join(p.brief for p in function.params), []).append(function.name)
    functions = "; ".join(f"{' '.join(names)}({params})" for params, names in names_by_params.items())
    # The keywords of attention are those of each function of its family.
    first, *others = functions.partition(_ATTENTION)
    functions = first + others[0] + others[1].replace(_ATTENTION, "...")
    # A kind that begins with a paragraph continues the line above; kinds that have only list items follow.
    cards = sorted(
        (kind.card().rstrip() for kind in kinds() if kind.has_schedule), key=lambda c: c.startswith("*")
    )
    schedules = "\n".join(cards)
    targets = ", ".join(name for name in TARGETS if name != DEFAULT_TARGET)
    text = _CARD.replace("{functions}", functions).replace("{schedules}", schedules)
    blocks = text.replace("{targets}", targets).split("```")
    return "```".join(block if i % 2 else _joined(block) for i, block in enumerate(blocks))


def function_table() -> str:
    """Generate the Markdown table of functions in docs/language.md."""
    from mucc.frontend.functions import FUNCTIONS

    lines = ["| function | meaning |", "|---|---|"]
    for function in (f for overloads in FUNCTIONS.values() for f in overloads):
        cells = (f"`{function.signature}`", function.doc.rstrip("."))
        lines.append(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
    return "\n".join(lines) + "\n"


def settings_table() -> str:
    """Generate the Markdown table of schedule settings in docs/language.md."""
    from mucc.dialects.mu.settings import SETTINGS

    rows = (f"| `{setting.name}` | {setting.meaning} |\n" for setting in SETTINGS.values())
    return "| setting | values |\n|---|---|\n" + "".join(rows)


def _joined(text: str) -> str:
    """Join each paragraph and list item of a Markdown text to one line."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line and lines and lines[-1] and not line.startswith(("*", "#")) and lines[-1][0] != "#":
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)
