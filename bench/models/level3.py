"""Networks of the kinds of KernelBench's level 3, by its published names and sizes.

MLPs, convolutional networks, transformers and recurrent networks; those of torchvision are taken from it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from bench.models.forms import Case, Model
from bench.models.networks import torch

nn: Any = torch.nn
_Module: Any = nn.Module
_functional: Any = nn.functional


def _mlp(batch: int, *widths: int) -> Callable[[Any], Case]:
    """Return linear layers with ReLU between them."""

    def make(torch: Any) -> Case:
        layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
        return Case(nn.Sequential(*layers[:-1]), (torch.rand(batch, widths[0]),))

    return make


def _vision(name: str, batch: int, size: int = 224, **options: Any) -> Callable[[Any], Case]:
    """Return a network of torchvision, without random weights from the net, for images of `size`."""

    def make(torch: Any) -> Case:
        module = getattr(importlib.import_module("torchvision").models, name)(weights=None, **options)
        return Case(module, (torch.rand(batch, 3, size, size),))

    return make


def lenet5(torch: Any) -> Case:
    module = nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 20),
    )
    return Case(module, (torch.rand(4096, 1, 32, 32),))


class _Attention(_Module):
    """Self-attention: causal, or with ReLU in the place of softmax, or neither."""

    def __init__(self, width: int, heads: int, causal: bool = False, relu: bool = False):
        _Module.__init__(self)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal, self.relu = heads, causal, relu

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        if self.causal or self.relu:
            later = torch.ones(length, length, device=x.device, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        weights = torch.relu(scores) if self.relu else torch.softmax(scores, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class _Block(_Module):
    """A block of minGPT, in which GELU is computed by tanh."""

    def __init__(self, width: int, heads: int):
        _Module.__init__(self)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(width, heads, causal=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.down(_functional.gelu(self.up(self.second(x)), approximate="tanh"))


def mingpt(layers: int) -> Callable[[Any], Case]:
    """Return blocks of minGPT, one after the other, on 8 sequences of 512 tokens."""
    return _tokens(lambda: nn.Sequential(*(_Block(768, 8) for _ in range(layers))), 8, 512, 768)


def _tokens(module: Callable[[], Any], *shape: int) -> Callable[[Any], Case]:
    return lambda torch: Case(module(), (torch.rand(*shape),))


class _VisionTransformer(_Module):
    """A vision transformer of torch's encoder layers, on patches of 16x16."""

    def __init__(self, width: int, depth: int, heads: int, inner: int, classes: int):
        _Module.__init__(self)
        self.embed = nn.Linear(3 * 16 * 16, width)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width))
        layer = nn.TransformerEncoderLayer(width, heads, inner, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, classes))

    def forward(self, images: Any) -> Any:
        patches = images.unfold(2, 16, 16).unfold(3, 16, 16).reshape(images.shape[0], -1, 3 * 16 * 16)
        tokens = torch.cat([self.token.expand(images.shape[0], -1, -1), self.embed(patches)], 1)
        return self.head(self.encoder(tokens + self.places)[:, 0])


class _VisionAttention(_Module):
    """Attention over all places of an image, with a residual and a layer norm."""

    def __init__(self, width: int, heads: int):
        _Module.__init__(self)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, images: Any) -> Any:
        batch, width, rows, columns = images.shape
        x = images.flatten(2).transpose(1, 2)
        x = self.norm(self.attention(x, x, x, need_weights=False)[0] + x)
        return x.transpose(1, 2).reshape(batch, width, rows, columns)


class _Recurrent(_Module):
    """Layers of LSTM or GRU, and a linear layer on the last step."""

    def __init__(self, kind: str, bidirectional: bool):
        _Module.__init__(self)
        self.layers = getattr(nn, kind)(128, 256, 6, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(512 if bidirectional else 256, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(x)[0][:, -1])


class _Cell(_Module):
    """A step of a vanilla recurrent network."""

    def __init__(self, inputs: int, hidden: int, outputs: int):
        _Module.__init__(self)
        self.hidden, self.out = nn.Linear(inputs + hidden, hidden), nn.Linear(hidden, outputs)

    def forward(self, x: Any, state: Any) -> Any:
        return self.out(torch.tanh(self.hidden(torch.cat([x, state], 1))))


class _VLAD(_Module):
    """NetVLAD: features gathered by soft clusters."""

    def __init__(self, clusters: int, width: int, ghosts: int):
        _Module.__init__(self)
        self.clusters = clusters
        self.assign = nn.Parameter(torch.randn(width, clusters + ghosts) * width**-0.5)
        self.norm = nn.BatchNorm1d(clusters + ghosts)
        self.centres = nn.Parameter(torch.randn(1, width, clusters) * width**-0.5)

    def forward(self, x: Any) -> Any:
        batch, features, width = x.shape
        shares = torch.softmax(self.norm(x.reshape(-1, width) @ self.assign), 1)[:, : self.clusters]
        shares = shares.view(batch, features, self.clusters)
        found = (shares.transpose(1, 2) @ x).transpose(1, 2) - shares.sum(1, keepdim=True) * self.centres
        return _functional.normalize(_functional.normalize(found).reshape(batch, -1))


def _models() -> Sequence[tuple[str, Callable[[Any], Case]]]:
    return (
        ("mlp", _mlp(128, 16384, 16384, 16384, 8192)),
        ("shallow-wide-mlp", _mlp(128, 16384, 32768, 32768, 16384)),
        ("deep-narrow-mlp", _mlp(1024, 8192, *[1024] * 16, 8192)),
        ("lenet5", lenet5),
        ("alexnet", _vision("alexnet", 1024)),
        ("googlenet", _vision("googlenet", 10, aux_logits=False, init_weights=False)),
        ("resnet18", _vision("resnet18", 2)),
        ("resnet101", _vision("resnet101", 10)),
        ("vgg16", _vision("vgg16", 10)),
        ("vgg19", _vision("vgg19", 10)),
        ("densenet121", _vision("densenet121", 10)),
        ("squeezenet", _vision("squeezenet1_0", 64, 512)),
        ("mobilenet-v2", _vision("mobilenet_v2", 10)),
        ("efficientnet-b0", _vision("efficientnet_b0", 10)),
        ("shufflenet", _vision("shufflenet_v2_x1_0", 10)),
        ("regnet", _vision("regnet_x_400mf", 8)),
        ("swin-v2", _vision("swin_v2_t", 10)),
        ("vision-transformer", _tokens(lambda: _VisionTransformer(512, 6, 8, 2048, 10), 2, 3, 224, 224)),
        ("vision-attention", _tokens(lambda: _VisionAttention(128, 4), 2, 128, 128, 128)),
        ("vanilla-rnn", lambda t: Case(_Cell(16384, 16384, 8192), (t.rand(256, 16384), t.rand(256, 16384)))),
        ("lstm", _tokens(lambda: _Recurrent("LSTM", False), 10, 512, 128)),
        ("lstm-bidirectional", _tokens(lambda: _Recurrent("LSTM", True), 10, 512, 128)),
        ("gru", _tokens(lambda: _Recurrent("GRU", False), 10, 512, 128)),
        ("gru-bidirectional", _tokens(lambda: _Recurrent("GRU", True), 10, 512, 128)),
        ("mingpt-attention", _tokens(lambda: _Attention(768, 8, causal=True), 16, 512, 768)),
        ("mingpt-block", _tokens(lambda: _Block(768, 8), 128, 512, 768)),
        ("relu-attention", _tokens(lambda: _Attention(768, 12, relu=True), 16, 1024, 768)),
        ("netvlad", _tokens(lambda: _VLAD(32, 512, 0), 2048, 100, 512)),
        ("netvlad-ghosts", _tokens(lambda: _VLAD(32, 512, 16), 2048, 100, 512)),
    )


LEVEL3: tuple[Model, ...] = tuple(Model(name, make) for name, make in _models())
