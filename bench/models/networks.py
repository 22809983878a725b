"""Networks of the benchmark that no library has in this form."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

TABLES = 26
"""Categorical features of the recommender, as in the Criteo data set."""
ROWS = 100_000
WIDTH = 64


def _torch() -> Any:
    return importlib.import_module("torch")


# Named here, since an import within `forward` would break torch.compile's graph.
torch: Any = _torch()
_Module: Any = torch.nn.Module


class Decoder(_Module):
    """A language model that computes one token over a static cache of earlier ones, which stays in place."""

    def __init__(self, model: Any, config: Any, context: int):
        _Module.__init__(self)
        self.model, self.config, self.context = model, config, context
        self.cache: Any = None

    def forward(self, tokens: Any, position: Any) -> Any:
        if self.cache is None:
            self.cache = self._made(tokens)
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.context - 1)
        found = self.model(
            input_ids=tokens,
            position_ids=position[None].expand(tokens.shape[0], -1),
            past_key_values=self.cache,
            use_cache=True,
        )
        return found.last_hidden_state

    def _made(self, tokens: Any) -> Any:
        """Return a cache that is full but for one place, of random keys and values."""
        config, weight = self.config, next(self.model.parameters())
        heads = config.num_key_value_heads
        width = config.hidden_size // config.num_attention_heads
        cache = importlib.import_module("transformers").StaticCache(config=config, max_cache_len=self.context)
        made = torch.Generator(device=weight.device).manual_seed(1)
        for layer in range(config.num_hidden_layers):
            shape = (tokens.shape[0], heads, self.context - 1, width)
            keys, values = (
                torch.randn(shape, device=weight.device, generator=made).bfloat16().to(weight.dtype)
                for _ in "kv"
            )
            cache.update(keys, values, layer)
        return cache


class Recommender(_Module):
    """A recommender like DLRM: embeddings, a bottom MLP, pairwise products, a top MLP."""

    def __init__(self, torch: Any):
        _Module.__init__(self)
        nn = torch.nn
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.bottom = _mlp(nn, 13, 512, 256, WIDTH)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(_mlp(nn, pairs + WIDTH, 1024, 1024, 512, 256), nn.Linear(256, 1))
        rows, columns = torch.tril_indices(TABLES + 1, TABLES + 1, -1)
        self.register_buffer("pairs", rows * (TABLES + 1) + columns)

    def forward(self, dense: Any, sparse: Any) -> Any:
        below = self.bottom(dense)
        features = torch.stack([below, *(t(sparse[:, n]) for n, t in enumerate(self.tables))], 1)
        products = torch.bmm(features, features.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.top(torch.cat([below, products], 1)))


def _mlp(nn: Any, *widths: int) -> Any:
    layers: list[Any] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers)


class _Level(_Module):
    """A level of a U-Net: two convolutions on the way down, what is below, two on the way up."""

    def __init__(self, nn: Any, outside: int, inside: int, below: Any):
        _Module.__init__(self)
        self.down = _convolutions(nn, outside, inside)
        self.pool = nn.MaxPool2d(2)
        self.below = below
        self.up = nn.ConvTranspose2d(2 * inside, inside, 2, stride=2)
        self.join = _convolutions(nn, 2 * inside, inside)

    def forward(self, x: Any) -> Any:
        kept = self.down(x)
        return self.join(torch.cat([kept, self.up(self.below(self.pool(kept)))], 1))


def _convolutions(nn: Any, a: int, b: int) -> Any:
    layers: list[Any] = []
    for inside in (a, b):
        layers += [nn.Conv2d(inside, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers)


def unet(torch: Any) -> Any:
    """Return a U-Net of four levels that begins with 64 channels."""
    nn = torch.nn
    widths = (64, 128, 256, 512)
    inner: Any = _convolutions(nn, 512, 1024)
    for n in reversed(range(len(widths))):
        inner = _Level(nn, 3 if n == 0 else widths[n - 1], widths[n], inner)
    return nn.Sequential(inner, nn.Conv2d(64, 2, 1))
