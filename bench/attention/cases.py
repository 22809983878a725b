"""What is measured: kinds of attention, each a program, and the sizes it is called with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from bench.attention.backward import text_of

WINDOW = 1024
CAP = 50.0

KINDS = {
    "full": "attention(q, k, v)",
    "causal": "attention(q, k, v, causal=on)",
    "gqa": "attention(q, k, v, causal=on)",
    "decode": "attention(q, k, v)",
    "paged": "attention(q, ks, vs)",
    "window": f"attention(q, k, v, mask=j <= i and i - j < {WINDOW})",
    "alibi": "attention(q, k, v, mask=slope[:, None, None] * (j - i), causal=on)",
    "document": "attention(q, k, v, mask=j <= i and doc[:, None, :, None] == doc[:, None, None])",
    "sink": "attention(q, k, v, causal=on, sinks=sink)",
    "sigmoid": "cast(sigmoid(cast(q @ permute(k, (0, 1, 3, 2)), f32) * {scale}), bf16) @ v",
    "full_f32": "attention(q, k, v)",
    "full_e4m3": "attention(q, k, v)",
    "causal_e4m3": "attention(q, k, v, causal=on)",
    "decode_e4m3": "attention(q, k, v)",
    "paged_e4m3": "attention(q, ks, vs)",
    "causal_f32": "attention(q, k, v, causal=on)",
    "relu_f32": "relu(where(j <= i, q @ permute(k, (0, 1, 3, 2)) * {scale}, -inf)) @ v",
    "softcap": f"softmax(tanh(q @ permute(k, (0, 1, 3, 2)) * {{scale}} / {CAP:g}) * {CAP:g}) @ v",
    "paged_softcap": f"softmax(tanh(q @ ks.T * {{scale}} / {CAP:g}) * {CAP:g}) @ vs",
}
"""The result of each kind, over queries q, keys k and values v, indices i and j."""

INDEXED = ("window", "alibi", "document", "relu_f32")
MORE = {"alibi": "slope: f32[H]", "document": "doc: s32[B, S]", "sink": "sink: f32[H]"}
"""Parameters of a kind besides q, k and v."""

DOCUMENTS = (1536, 512, 1024, 256, 768)
"""Lengths of the documents of a sequence, in turns."""
SDPA = (
    *("full", "causal", "gqa", "decode", "paged", "full_f32", "causal_f32"),
    *("full_e4m3", "causal_e4m3", "decode_e4m3", "paged_e4m3"),
)
"""What `scaled_dot_product_attention` computes without a mask in memory; of pages, it has keys that follow
each other, and of e4m3 the same numbers in bf16."""

PAGE = 64
"""Keys of a page."""

WRITTEN = ("sigmoid", "relu_f32")
"""What is neither, and is written as two products for torch.compile."""

FLEX = ("window", "alibi", "softcap", "document", "sink", "paged_softcap")
"""What only FlexAttention computes; with sinks, their share follows from its log-sum-exp. Of pages, it has
keys that follow each other."""


FEW = ("decode", "decode_e4m3")
PAGED = ("paged", "paged_e4m3", "paged_softcap")
"""What has one query of each head; of pages too."""

CAUSAL = (
    *("causal", "gqa", "alibi", "window", "document", "sink", "causal_f32", "relu_f32"),
    "causal_e4m3",
    *("backward_causal", "backward_gqa"),
)


@dataclass(frozen=True)
class Case:
    """A call: `groups` heads of queries share each of `heads` heads of keys."""

    kind: str
    width: int
    batch: int
    heads: int
    groups: int
    queries: int
    keys: int

    @property
    def key(self) -> str:
        """The name, such as `causal/d128/16x16x1024` or `decode/d128/16x8x8x32768`."""
        heads = f"{self.heads}x{self.groups}" if self.is_grouped else str(self.heads)
        return f"{self.kind}/d{self.width}/{self.batch}x{heads}x{self.keys}"

    @property
    def dtype(self) -> str:
        """The type of all tensors but further ones: f32 is multiplied as tf32; results of e4m3 are bf16."""
        end = self.kind.rpartition("_")[2]
        return end if end in ("f32", "e4m3") else "bf16"

    @property
    def result_dtype(self) -> str:
        """The type of the result."""
        return "bf16" if self.dtype == "e4m3" else self.dtype

    @property
    def stem(self) -> str:
        return self.kernel

    @property
    def is_grouped(self) -> bool:
        """Whether the program has an axis of queries that share keys."""
        return self.kind in ("gqa", "backward_gqa", *FEW, *PAGED)

    @property
    def is_few(self) -> bool:
        """Whether there is one query of each head, whose time is that of reading keys and values."""
        return self.kind in (*FEW, *PAGED)

    @property
    def is_backward(self) -> bool:
        """Whether gradients are computed."""
        return self.kind.startswith("backward_")

    @property
    def is_causal(self) -> bool:
        """Whether rows see no later columns."""
        return self.kind in CAUSAL

    @property
    def kernel(self) -> str:
        return f"{self.kind}{self.width}" + (f"g{self.groups}" if self.is_few else "")

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The extents of queries, and of keys and values."""
        if not self.is_grouped:
            head = (self.batch, self.heads)
            return (*head, self.queries, self.width), (*head, self.keys, self.width)
        head = (self.batch, self.heads)
        return (*head, self.groups, self.queries, self.width), (*head, 1, self.keys, self.width)

    @property
    def text(self) -> str:
        """The program, whose extents are open but for those of a head."""
        if self.is_backward:
            return text_of(self)
        if self.kind in PAGED:
            return self._paged_text
        rows = "1" if self.kind in FEW else "S"
        group = f"{self.groups}" if self.kind in FEW else "G"
        lead, shared = (f"B, H, {group}", "B, H, 1") if self.is_grouped else ("B, H", "B, H")
        of_query, of_key = (
            f"{self.dtype}[{axes}, {n}, {self.width}]" for axes, n in ((lead, rows), (shared, "T"))
        )
        dims = ["B", "H", *(["G"] if self.kind == "gqa" else []), *([] if rows == "1" else ["S"]), "T"]
        more = f", {MORE[self.kind]}" if self.kind in MORE else ""
        if self.kind == "document":
            dims.remove("T")  # labels of queries are those of keys
            of_key = of_key.replace("T", "S")
        columns = "S" if self.kind == "document" else "T"
        indices = [f"    {n} = iota((S, {columns}), axis={a})" for a, n in enumerate("ij")]
        result = KINDS[self.kind].format(scale=1 / math.sqrt(self.width))
        return "\n".join(
            [
                f"kernel {self.kernel}[{', '.join(dims)}](",
                f"    q: {of_query}, k: {of_key}, v: {of_key}{more}",
                f") -> {of_query.replace(self.dtype, self.result_dtype)} {{",
                *(indices if self.kind in INDEXED else []),
                f"    return {result}",
                "}",
                "",
            ]
        )

    @property
    def _paged_text(self) -> str:
        """The program of one query for each sequence, whose keys and values lie in pages."""
        of_query = f"{self.dtype}[B, {self.heads}, {self.groups}, 1, {self.width}]"
        pool = f"{self.dtype}[P, {PAGE}, {self.heads}, {self.width}]"

        def rows(name: str) -> str:
            gathered = f"reshape(gather({name}, table), (B, N*{PAGE}, {self.heads}, {self.width}))"
            return f"    {name}s = permute({gathered}, (0, 2, 1, 3))[:, :, None]"

        return "\n".join(
            [
                f"kernel {self.kernel}[B, P, N](",
                f"    q: {of_query}, k: {pool}, v: {pool}, table: s32[B, N]",
                f") -> {of_query.replace(self.dtype, self.result_dtype)} {{",
                *map(rows, "kv"),
                f"    return {KINDS[self.kind].format(scale=1 / math.sqrt(self.width))}",
                "}",
                "",
            ]
        )

    @property
    def pairs(self) -> int:
        """How many scores of a head count: those that a mask leaves."""
        n = self.queries
        match self.kind:
            case "window":
                seen = min(n, WINDOW)
                return seen * (seen + 1) // 2 + (n - seen) * WINDOW
            case "document":
                return sum(n * (n + 1) // 2 for n in documents_of(n))
            case _:
                return n * (n + 1) // 2 if self.is_causal else n * self.keys

    @property
    def flops(self) -> float:
        """Multiplications and additions of both products."""
        return 4.0 * self.batch * self.heads * self.groups * self.pairs * self.width

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values."""
        return (2 if self.dtype == "e4m3" else 4) * self.batch * self.heads * self.keys * self.width


def documents_of(length: int) -> list[int]:
    """Return the lengths of the documents of a sequence."""
    found: list[int] = []
    while (left := length - sum(found)) > 0:
        found.append(min(left, DOCUMENTS[len(found) % len(DOCUMENTS)]))
    return found


def _prefill() -> Iterator[Case]:
    for kind in ("full", "causal", "gqa", "window", "alibi", "softcap"):
        for width in (64, 96, 128, 256):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                if kind == "window" and length <= WINDOW:
                    continue
                batch, heads = max(1, 16384 // length), max(8, 2048 // width)
                groups = 8 if kind == "gqa" else 1
                yield Case(kind, width, batch, heads // groups, groups, length, length)


def _others() -> Iterator[Case]:
    """What has fewer shapes: documents, sinks, and attention without softmax."""
    for kind in ("document", "sink", "sigmoid"):
        for width in (64, 128):
            for length in (2048, 8192, 16384):
                yield Case(kind, width, 16384 // length, 2048 // width, 1, length, length)
    # The attention of KernelBench's networks, level 3: 43 and 44, 50, 28, at batches from 1 on.
    for batch in (1, 8, 64, 128):
        yield Case("causal_f32", 96, batch, 8, 1, 512, 512)
        yield Case("relu_f32", 64, batch // 2 or 1, 12, 1, 1024, 1024)
    yield Case("full_f32", 64, 8, 8, 1, 197, 197)
    for length in (1024, 4096):
        yield Case("full_f32", 64, 4, 16, 1, length, length)
        yield Case("full_f32", 128, 4, 16, 1, length, length)


def _narrow() -> Iterator[Case]:
    """Yield calls with operands of e4m3."""
    for kind in ("full_e4m3", "causal_e4m3"):
        for width in (64, 128, 256):
            for length in (1024, 4096, 16384):
                yield Case(kind, width, max(1, 16384 // length), max(8, 2048 // width), 1, length, length)

    for batch, keys in ((1, 4096), (1, 32768), (16, 4096), (16, 32768), (64, 4096), (64, 32768)):
        yield Case("decode_e4m3", 128, batch, 8, 8, 1, keys)
        if batch == 16:
            yield Case("decode_e4m3", 128, batch, 32, 1, 1, keys)
            yield Case("paged_e4m3", 128, batch, 8, 8, 1, keys)
    yield Case("decode_e4m3", 64, 16, 8, 8, 1, 32768)


def _decode() -> Iterator[Case]:
    for heads, groups in ((8, 8), (32, 1)):
        for batch in (1, 4, 16, 64, 128):
            for keys in (1024, 4096, 16384, 32768, 65536):
                case = Case("decode", 128, batch, heads, groups, 1, keys)
                if case.cache_bytes <= 40 << 30:
                    yield case


def _paged() -> Iterator[Case]:
    for batch in (1, 16, 64):
        for keys in (4096, 16384, 32768):
            yield Case("paged", 128, batch, 8, 8, 1, keys)
            if keys != 16384:
                yield Case("paged_softcap", 128, batch, 8, 8, 1, keys)


def _backward() -> Iterator[Case]:
    for kind in ("full", "causal", "gqa"):
        for width in (64, 96, 128):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                batch, heads = max(1, 16384 // length), max(8, 2048 // width)
                groups = 8 if kind == "gqa" else 1
                yield Case(f"backward_{kind}", width, batch, heads // groups, groups, length, length)


CASES: tuple[Case, ...] = (*_prefill(), *_others(), *_narrow(), *_decode(), *_paged(), *_backward())
