"""Programs that attention is fuzzed with, and what each computes of scores."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Score = Callable[[Any, Any, Any, dict[str, Any]], Any]
"""Computes scores of scaled products, indices of rows and columns, and further tensors, all in float64."""


@dataclass(frozen=True)
class Form:
    """A program: its text, the type and widths of its operands, and how scores are computed."""

    kernel: str
    dtype: str
    widths: tuple[int, int]
    result: str
    score: Score = lambda x, i, j, more: x
    more: str = ""
    """Parameters besides q, k and v, with commas between them."""
    lead: tuple[str, str] = ("B, H", "B, H")
    few: bool = False
    """Whether there is one query."""
    empty: float = 0.0
    """What rows without a key get."""
    normalised: bool = True
    """Whether weights are a softmax of scores; otherwise scores are weights, 0 where they are -infinity."""
    adds: bool = False
    """Whether the tensor x is added to the result."""
    page: int = 0
    """How many keys a page has; 0 where keys follow each other."""
    gives: str = "result"
    """What is computed: the `result`, with `sums` the log-sum-exp too, or `gradients` of all operands."""
    learned: str = ""
    """The name of a mask whose gradient is computed with the others."""
    settings: tuple[str, ...] = ()
    """Settings of the schedule for sm_90a."""

    @property
    def key(self) -> str:
        return self.kernel

    @property
    def result_dtype(self) -> str:
        """The type of the result."""
        return "bf16" if self.dtype == "e4m3" else self.dtype

    @property
    def _paged_text(self) -> str:
        """The program, whose keys and values lie in pages."""
        rows, keys = ("1" if self.few else "S"), f"N*{self.page}"
        query = f"{self.dtype}[{self.lead[0]}, {rows}, {self.widths[0]}]"
        shared = "[:, :, None]" if self.lead[1].endswith(", 1") else ""

        def named(text: str) -> str:
            """Return text about keys, values and their number, for those of pages."""
            names = {"T": keys, "k": "keys", "v": "values"}
            return re.sub(r"\b[Tkv]\b", lambda found: names[found[0]], text)

        pools = [f"{x}: {self.dtype}[P, {self.page}, H, {w}]" for x, w in zip("kv", self.widths, strict=True)]
        gathered = [
            f"    {name} = permute(reshape(gather({x}, table), (B, {keys}, H, {w})), (0, 2, 1, 3)){shared}"
            for name, x, w in zip(("keys", "values"), "kv", self.widths, strict=True)
        ]
        out, value = f"{self.result_dtype}[{self.lead[0]}, {rows}, {self.widths[1]}]", self.result
        if self.gives == "sums":
            arguments = self.result.removeprefix("attention(q, k, v").removesuffix(")")
            out = f"(y: {out}, l: f32[{self.lead[0]}, {rows}])"
            value = f"{self.result}, attention_logsumexp(q, k{arguments})"
        parameters = ", ".join([f"q: {query}", *pools, "table: s32[B, N]", *filter(None, [named(self.more)])])
        return "\n".join(
            [
                f"kernel {self.kernel}[B, H, P, N{'' if self.few else ', S'}]({parameters}) -> {out} {{",
                *map(named, self._indices(rows)),
                *gathered,
                f"    return {named(value)}",
                "}",
                "",
            ]
        )

    def _indices(self, rows: str) -> list[str]:
        """Define the indices of a row and of a column, where scores depend on them."""
        used = ((axis, n) for axis, n in enumerate("ij") if f" {n} " in self.result)
        return [f"    {n} = iota(({rows}, T), axis={axis})" for axis, n in used]

    @property
    def stem(self) -> str:
        return self.kernel

    @property
    def text(self) -> str:
        if self.page:
            return self._paged_text
        of_query, of_key = self.lead
        rows, (wide, result) = ("1" if self.few else "S"), self.widths
        q, k, v = (
            f"{self.dtype}[{lead}, {n}, {w}]"
            for lead, n, w in ((of_query, rows, wide), (of_key, "T", wide), (of_key, "T", result))
        )
        out = f"{self.result_dtype}[{of_query}, {rows}, {result}]"
        more = f", {self.more}" if self.more else ""
        sums, value = f"f32[{of_query}, {rows}]", self.result
        arguments = self.result.removeprefix("attention(q, k, v").removesuffix(")")
        if self.gives == "sums":
            out, value = f"(y: {out}, l: {sums})", f"{self.result}, attention_logsumexp(q, k{arguments})"
        if self.gives == "gradients":
            more += f", y: {out}, l: {sums}, dy: {out}"
            out = f"(dq: {q}, dk: {k}, dv: {v})"
            wanted = [*"qkv"]
            if self.learned:
                types = dict(part.split(": ", 1) for part in re.split(r", (?=\w+:)", self.more))
                out = f"{out[:-1]}, db: {types[self.learned]})"
                wanted.append("mask")
            value = ", ".join(f"attention_d{x}(q, k, v, y, l, dy{arguments})" for x in wanted)
        dims = ", ".join(
            [*dict.fromkeys(d for d in of_query.split(", ") if d.isalpha()), *rows.strip("1"), "T"]
        )
        lines = [f"kernel {self.kernel}[{dims}](q: {q}, k: {k}, v: {v}{more}) -> {out} {{"]
        schedule = [f"schedule {self.kernel} for sm_90a {{", *(f"    {s}" for s in self.settings), "}", ""]
        lines += [*self._indices(rows), f"    return {value}", "}", ""]
        return "\n".join([*lines, *(schedule if self.settings else [])])


def _where(seen: Any, x: Any) -> Any:
    return x.masked_fill(~seen, -math.inf)


def _labelled(more: dict[str, Any]) -> Any:
    return more["of_row"][:, None, :, None] == more["of_key"][:, None, None]


def _lengths(more: dict[str, Any], x: Any) -> Any:
    return more["n"].reshape(-1, *[1] * (x.ndim - 1))


def _capped(x: Any, i: Any = None, j: Any = None, more: Any = None) -> Any:
    return (x / 20).tanh() * 20


def _causal(x: Any, i: Any, j: Any, more: dict[str, Any]) -> Any:
    return _where(j <= i, x)


def _until_length(x: Any, i: Any, j: Any, more: dict[str, Any]) -> Any:
    return _where(j < _lengths(more, x), x)


def _cached(kernel: str, page: int = 0, few: bool = True, dtype: str = "bf16") -> Form:
    """Attention of four query heads for each key head to the first n keys of a cache, or of its pages."""
    return Form(
        kernel,
        dtype,
        (128, 128),
        "attention(q, k, v, mask=iota((B, 1, 1, 1, T), axis=4) < n[:, None, None, None, None])",
        _until_length,
        more="n: s32[B]",
        lead=("B, H, 4", "B, H, 1"),
        few=few,
        page=page,
    )


def _paged(
    kernel: str, dtype: str, widths: tuple[int, int], page: int, result: str, score: Score, **more: Any
) -> Form:
    """Attention of heads that share keys in pages, for sequences of n keys, with a function of scores."""
    given: dict[str, Any] = {"lead": ("B, H, 4", "B, H, 1"), "few": True, "more": "n: s32[B]", **more}
    return Form(kernel, dtype, widths, result, score, page=page, **given)


_PRODUCT = "q @ permute(k, (0, 1, 2, 4, 3))"
_ENDS = "n[:, None, None, None, None]"


def _distance(x: Any, i: Any, j: Any, more: dict[str, Any]) -> Any:
    """How far before a row's own key, the last one of a sequence in the first row, another one lies."""
    return _lengths(more, x) - 1 + i - j


FORMS = (
    Form("full64", "bf16", (64, 64), "attention(q, k, v)"),
    Form("full128", "f16", (128, 64), "attention(q, k, v)"),
    Form("full96", "bf16", (96, 96), "attention(q, k, v)"),
    Form("added", "bf16", (64, 64), "attention(q, k, v) + x", more="x: bf16[B, H, S, 64]", adds=True),
    Form("causal64", "bf16", (64, 64), "attention(q, k, v, causal=on)", _causal),
    Form("causal128", "f16", (128, 128), "attention(q, k, v, causal=on)", _causal),
    Form("causal40", "f16", (40, 24), "attention(q, k, v, causal=on)", _causal),
    Form(
        "grouped256",
        "bf16",
        (256, 256),
        "attention(q, k, v, causal=on)",
        _causal,
        lead=("B, H, G", "B, H, 1"),
    ),
    Form(
        "window",
        "bf16",
        (64, 64),
        "attention(q, k, v, mask= j <= i and i - j < 100)",
        lambda x, i, j, m: _where((j <= i) & (i - j < 100), x),
    ),
    Form(
        "band",
        "f16",
        (96, 96),
        "attention(q, k, v, mask= j - i < 70 and i - j < 30)",
        lambda x, i, j, m: _where((j - i < 70) & (i - j < 30), x),
    ),
    Form(
        "alibi",
        "bf16",
        (64, 64),
        "attention(q, k, v, mask=slope[:, None, None] * ( j - i ), causal=on)",
        lambda x, i, j, m: _where(j <= i, x + m["slope"][:, None, None] * (j - i)),
        more="slope: f32[H]",
    ),
    Form(
        "capped",
        "f16",
        (128, 128),
        f"softmax(tanh(q @ permute(k, (0, 1, 3, 2)) * {128**-0.5} / 20) * 20) @ v",
        _capped,
    ),
    Form(
        "kept",
        "bf16",
        (64, 64),
        "attention(q, k, v, mask=m > 0)",
        lambda x, i, j, m: _where(m["m"] > 0, x),
        more="m: s8[B, 1, S, T]",
    ),
    Form(
        "biased",
        "f16",
        (64, 64),
        "attention(q, k, v, mask=b)",
        lambda x, i, j, m: x + m["b"],
        more="b: f32[S, T]",
    ),
    Form(
        "lengths",
        "f16",
        (128, 128),
        "attention(q, k, v, mask= j < n[:, None, None, None] and j <= i )",
        lambda x, i, j, m: _where((j < _lengths(m, x)) & (j <= i), x),
        more="n: s32[B]",
    ),
    Form(
        "documents",
        "bf16",
        (128, 128),
        "attention(q, k, v, mask=of_row[:, None, :, None] == of_key[:, None, None])",
        lambda x, i, j, m: _where(_labelled(m), x),
        more="of_row: s32[B, S], of_key: s32[B, T]",
    ),
    Form(
        "packed",
        "f16",
        (64, 64),
        "attention(q, k, v, mask= j <= i and of_row[:, None, :, None] == of_key[:, None, None])",
        lambda x, i, j, m: _where((j <= i) & _labelled(m), x),
        more="of_row: s32[B, S], of_key: s32[B, T]",
    ),
    Form(
        "packed_heads",
        "bf16",
        (96, 96),
        "attention(q, k, v, causal=on, mask=where("
        "of_row[:, None, :, None] != of_key[:, None, None], -inf, slope[:, None, None]))",
        lambda x, i, j, m: _where((j <= i) & _labelled(m), x + m["slope"][:, None, None]),
        more="of_row: s32[B, S], of_key: s32[B, T], slope: f32[H]",
    ),
    Form(
        "sinks",
        "bf16",
        (64, 64),
        "attention(q, k, v, mask= j <= i and i - j < 128 , sinks=sink)",
        lambda x, i, j, m: _where((j <= i) & (i - j < 128), x),
        more="sink: f32[H]",
    ),
    Form(
        "sinks_decode",
        "bf16",
        (64, 64),
        "attention(q, k, v, sinks=sink[:, None])",
        lead=("B, H, 8", "B, H, 1"),
        few=True,
        more="sink: f32[H]",
    ),
    Form(
        "sigmoids",
        "bf16",
        (128, 128),
        f"cast(sigmoid(cast(q @ permute(k, (0, 1, 3, 2)), f32) * {128**-0.5} + slope[:, None, None] - 4), "
        "bf16) @ v",
        lambda x, i, j, m: (x + m["slope"][:, None, None] - 4).sigmoid(),
        more="slope: f32[H]",
        normalised=False,
    ),
    Form(
        "rectified",
        "bf16",
        (64, 64),
        "cast(relu(where( j <= i , cast(q @ permute(k, (0, 1, 3, 2)), f32) * 0.125, -inf)), bf16) @ v",
        lambda x, i, j, m: _where(j <= i, x).relu(),
        normalised=False,
    ),
    Form(
        "linear",
        "bf16",
        (96, 64),
        f"cast(where( j <= i , cast(q @ permute(k, (0, 1, 3, 2)), f32) * {96**-0.5}, 0), bf16) @ v",
        lambda x, i, j, m: _where(j <= i, x),
        normalised=False,
    ),
    Form(
        "sigmoids_decode",
        "f16",
        (64, 64),
        "cast(sigmoid(cast(q @ permute(k, (0, 1, 2, 4, 3)), f32) * 0.125), f16) @ v",
        lambda x, i, j, m: x.sigmoid(),
        lead=("B, H, 4", "B, H, 1"),
        few=True,
        normalised=False,
    ),
    Form("full_f32", "f32", (64, 96), "attention(q, k, v)"),
    Form("causal_f32", "f32", (96, 96), "attention(q, k, v, causal=on)", _causal),
    Form(
        "rectified_f32",
        "f32",
        (64, 64),
        "relu(where( j <= i , q @ permute(k, (0, 1, 3, 2)) * 0.125, -inf)) @ v",
        lambda x, i, j, m: _where(j <= i, x).relu(),
        normalised=False,
    ),
    Form("narrow64", "e4m3", (64, 64), "attention(q, k, v)"),
    Form("narrow128", "e4m3", (128, 96), "attention(q, k, v, causal=on)", _causal),
    Form(
        "narrow_grouped",
        "e4m3",
        (128, 128),
        "attention(q, k, v, causal=on)",
        _causal,
        lead=("B, H, G", "B, H, 1"),
    ),
    Form(
        "narrow_lengths",
        "e4m3",
        (96, 48),
        "attention(q, k, v, mask= j < n[:, None, None, None] )",
        _until_length,
        more="n: s32[B]",
        gives="sums",
    ),
    Form(
        "narrow_sinks",
        "e4m3",
        (256, 256),
        "attention(q, k, v, mask= j <= i and i - j < 128 , sinks=sink)",
        lambda x, i, j, m: _where((j <= i) & (i - j < 128), x),
        more="sink: f32[H]",
    ),
    Form(
        "narrow_capped",
        "e4m3",
        (64, 128),
        "cast(softmax(tanh(q @ permute(k, (0, 1, 3, 2)) * 0.125 / 20) * 20), e4m3) @ v",
        _capped,
    ),
    Form("narrow_few", "e4m3", (128, 128), "attention(q, k, v)", lead=("B, H, 8", "B, H, 1"), few=True),
    Form("narrow_few256", "e4m3", (256, 64), "attention(q, k, v)", few=True, gives="sums"),
    _cached("narrow_cached", page=64, dtype="e4m3"),
    Form("sums64", "bf16", (64, 64), "attention(q, k, v)", gives="sums"),
    Form(
        "sums128",
        "f16",
        (128, 128),
        "attention(q, k, v, causal=on)",
        _causal,
        gives="sums",
    ),
    Form(
        "sums_lengths",
        "bf16",
        (64, 64),
        "attention(q, k, v, mask= j < n[:, None, None, None] )",
        _until_length,
        more="n: s32[B]",
        gives="sums",
    ),
    Form(
        "sums_decode",
        "bf16",
        (128, 128),
        "attention(q, k, v)",
        lead=("B, H, 8", "B, H, 1"),
        few=True,
        gives="sums",
    ),
    Form("gradients64", "bf16", (64, 64), "attention(q, k, v)", gives="gradients"),
    Form("gradients128", "f16", (128, 128), "attention(q, k, v)", gives="gradients"),
    Form(
        "gradients_causal",
        "bf16",
        (128, 128),
        "attention(q, k, v, causal=on)",
        _causal,
        gives="gradients",
    ),
    Form(
        "gradients_grouped",
        "bf16",
        (64, 64),
        "attention(q, k, v, causal=on)",
        _causal,
        lead=("B, H, G", "B, H, 1"),
        gives="gradients",
    ),
    Form(
        "gradients_window",
        "bf16",
        (96, 96),
        "attention(q, k, v, mask= j <= i and i - j < 100)",
        lambda x, i, j, m: _where((j <= i) & (i - j < 100), x),
        gives="gradients",
    ),
    Form(
        "gradients_biased",
        "f16",
        (64, 64),
        "attention(q, k, v, mask=b)",
        lambda x, i, j, m: x + m["b"],
        more="b: f32[S, T]",
        gives="gradients",
    ),
    Form(
        "gradients_lengths",
        "bf16",
        (32, 48),
        "attention(q, k, v, mask= j < n[:, None, None, None] and j <= i )",
        lambda x, i, j, m: _where((j < _lengths(m, x)) & (j <= i), x),
        more="n: s32[B]",
        gives="gradients",
    ),
    Form(
        "gradients_packed",
        "bf16",
        (128, 128),
        "attention(q, k, v, mask= j <= i and of_row[:, None, :, None] == of_key[:, None, None])",
        lambda x, i, j, m: _where((j <= i) & _labelled(m), x),
        more="of_row: s32[B, S], of_key: s32[B, T]",
        gives="gradients",
    ),
    Form(
        "gradients_documents",
        "f16",
        (64, 64),
        "attention(q, k, v, mask=of_row[:, None, :, None] == of_key[:, None, None])",
        lambda x, i, j, m: _where(_labelled(m), x),
        more="of_row: s32[B, S], of_key: s32[B, T]",
        gives="gradients",
    ),
    Form(
        "gradients_learned",
        "bf16",
        (64, 64),
        "attention(q, k, v, mask=w, causal=on)",
        lambda x, i, j, m: _where(j <= i, x + m["w"]),
        more="w: bf16[B, H, S, T]",
        gives="gradients",
        learned="w",
    ),
    Form(
        "gradients_learned128",
        "f16",
        (128, 128),
        "attention(q, k, v, mask=w)",
        lambda x, i, j, m: x + m["w"],
        more="w: f32[B, H, S, T]",
        gives="gradients",
        learned="w",
    ),
    Form(
        "abreast",
        "bf16",
        (64, 64),
        "attention(q, k, v, causal=on)",
        lambda x, i, j, m: _where(j <= i, x),
        settings=("tile = 128x208x64", "mainloop = cooperative", "stages = 3"),
    ),
    Form("one_group", "f16", (128, 96), "attention(q, k, v)", settings=("tile = 64x96x128", "stages = 3")),
    Form(
        "by_threads",
        "bf16",
        (128, 128),
        "attention(q, k, v)",
        settings=("tile = 128x32x128", "mainloop = multistage"),
    ),
    Form(
        "parts",
        "bf16",
        (128, 128),
        "attention(q, k, v)",
        lead=("B, H, 8", "B, H, 1"),
        few=True,
        settings=("tile = 16x128x128", "stages = 3", "scheduler = split_k(16)"),
    ),
    Form("decode", "bf16", (128, 128), "attention(q, k, v)", lead=("B, H, 8", "B, H, 1"), few=True),
    Form("decode80", "f16", (80, 48), "attention(q, k, v)", few=True),
    _cached("cached"),
    _cached("paged16", page=16),
    _cached("paged64", page=64),
    _cached("paged_many", page=64, few=False),
    _paged(
        "paged_capped",
        "bf16",
        (128, 64),
        64,
        f"softmax(where( j < {_ENDS}, tanh({_PRODUCT} * {128**-0.5} / 20) * 20, -inf)) @ v",
        lambda x, i, j, m: _until_length(_capped(x), i, j, m),
        empty=math.nan,
    ),
    _paged(
        "paged_window",
        "f16",
        (64, 64),
        16,
        f"attention(q, k, v, mask=where({_ENDS} - 1 + i - j >= 0 and {_ENDS} - 1 + i - j < 100, "
        f"slope[:, None, None, None] * ( j - {_ENDS} - i ), -inf))",
        lambda x, i, j, m: _where(
            (_distance(x, i, j, m) >= 0) & (_distance(x, i, j, m) < 100),
            x - m["slope"][:, None, None, None] * (_distance(x, i, j, m) + 1),
        ),
        more="n: s32[B], slope: f32[H]",
    ),
    _paged(
        "paged_capped_window",
        "bf16",
        (96, 128),
        128,
        f"cast(softmax(where({_ENDS} - 1 + i - j >= 0 and {_ENDS} - 1 + i - j < 100, tanh({_PRODUCT} "
        f"* {96**-0.5} / 20) * 20 - slope[:, None, None, None] * ({_ENDS} + i - j ), -inf)), bf16) @ v",
        lambda x, i, j, m: _where(
            (_distance(x, i, j, m) >= 0) & (_distance(x, i, j, m) < 100),
            _capped(x) - m["slope"][:, None, None, None] * (_distance(x, i, j, m) + 1),
        ),
        more="n: s32[B], slope: f32[H]",
        few=False,
        empty=math.nan,
    ),
    _paged(
        "paged_sigmoid",
        "f16",
        (64, 64),
        64,
        f"where( j < {_ENDS}, sigmoid({_PRODUCT} * 0.125 - 2), 0) @ v",
        lambda x, i, j, m: _until_length((x - 2).sigmoid(), i, j, m),
        normalised=False,
        few=False,
    ),
    _paged(
        "paged_biased",
        "bf16",
        (64, 64),
        64,
        f"cast(softmax(tanh({_PRODUCT} * 0.125 / 20) * 20 + b), bf16) @ v",
        lambda x, i, j, m: _capped(x) + m["b"],
        more="b: f32[S, T]",
        lead=("B, H, 2", "B, H, 1"),
        few=False,
        empty=math.nan,
    ),
    _paged(
        "paged_heads",
        "f16",
        (80, 80),
        16,
        f"softmax(tanh(q @ permute(k, (0, 1, 3, 2)) * {80**-0.5} / 20) * 20) @ v",
        _capped,
        lead=("B, H", "B, H"),
        more="",
    ),
    _paged(
        "paged_sums",
        "bf16",
        (128, 128),
        64,
        "attention(q, k, v)",
        lambda x, i, j, m: x,
        more="",
        gives="sums",
    ),
    _paged(
        "narrow_paged_capped",
        "e4m3",
        (128, 128),
        64,
        f"cast(softmax(where( j < {_ENDS}, tanh({_PRODUCT} * {128**-0.5} / 20) * 20, -inf)), e4m3) @ v",
        lambda x, i, j, m: _until_length(_capped(x), i, j, m),
        empty=math.nan,
    ),
    Form(
        "paged_many16",
        "f16",
        (64, 64),
        "attention(q, k, v, mask=iota((B, 1, 1, 1, T), axis=4) < n[:, None, None, None, None])",
        _until_length,
        more="n: s32[B]",
        lead=("B, H, 2", "B, H, 1"),
        page=16,
    ),
)
