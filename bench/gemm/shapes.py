"""The problems: layers of models at prefill and decode sizes, squares, odd extents."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """`y[M, N] = x[M, K] @ w[N, K].T`, and where it comes from."""

    source: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def dims(self) -> dict[str, int]:
        return {"M": self.m, "N": self.n, "K": self.k}

    @property
    def flop(self) -> int:
        return 2 * self.m * self.n * self.k

    def bytes(self, element: int, result: int) -> int:
        """Compulsory traffic in bytes for operands of `element` bytes and a result of `result`."""
        return (self.m + self.n) * self.k * element + self.m * self.n * result


def _layers(model: str, tokens: tuple[int, ...], layers: dict[str, tuple[int, int]]) -> list[Shape]:
    return [Shape(f"{model} {layer}", m, n, k) for layer, (n, k) in layers.items() for m in tokens]


SQUARES = [Shape("square", s, s, s) for s in (512, 1024, 2048, 4096, 8192, 16384)]

# Llama 3 8B and 70B: hidden 4096 and 8192, feed-forward 14336 and 28672, grouped-query attention.
LLAMA_8B = {"qkv": (6144, 4096), "o": (4096, 4096), "gate": (14336, 4096), "down": (4096, 14336)}
LLAMA_70B = {"qkv": (10240, 8192), "down": (8192, 28672)}
# Qwen 2.5 7B: hidden 3584, feed-forward 18944.
QWEN_7B = {"qkv": (4608, 3584), "up": (18944, 3584), "down": (3584, 18944)}
# Mixtral 8x7B, one expert. ViT-L/16: 197 tokens for each of 32 images.
MIXTRAL = {"expert up": (14336, 4096), "expert down": (4096, 14336)}
VIT_L = {"qkv": (3072, 1024), "fc1": (4096, 1024), "fc2": (1024, 4096)}

PLAIN = [
    *SQUARES,
    *_layers("Llama 8B", (128, 2048, 8192), LLAMA_8B),
    *_layers("Llama 70B", (64, 4096), LLAMA_70B),
    *_layers("Qwen 7B", (64, 1024), QWEN_7B),
    *_layers("Mixtral", (512,), MIXTRAL),
    *_layers("ViT-L", (6304,), VIT_L),
]
"""Shapes of which every extent is a multiple of 16: 33 of them."""

ODD = [Shape("odd K", 1024, 4096, 4095), Shape("odd K", 4096, 4096, 1001), Shape("odd N", 2048, 4097, 2048)]
"""Rows that are no multiple of 16 bytes."""

SKINNY = [
    Shape("decode", m, n, k)
    for n, k in ((14336, 4096), (4096, 14336), (28672, 8192))
    for m in (1, 2, 4, 8, 16)
]
"""Weights that are read once: bound by bandwidth."""

SPARSE = [
    Shape("square", 4096, 4096, 4096),
    Shape("square", 8192, 8192, 8192),
    *_layers("Llama 8B", (128, 2048), {"gate": LLAMA_8B["gate"], "down": LLAMA_8B["down"]}),
    *_layers("Llama 70B", (4096,), {"qkv": LLAMA_70B["qkv"]}),
]
"""Shapes for weights of which half are zero."""

MIXED = [Shape("Llama 8B gate", m, 14336, 4096) for m in (16, 128, 2048)]
"""Shapes for weights of 4 and 8 bits, all with one K: a program binds it, and so the number of scales."""

FUSED = [Shape("Llama 8B up", 4096, 14336, 4096), Shape("Qwen 7B qkv", 1024, 4608, 3584)]
"""Shapes for layers with an epilogue."""
