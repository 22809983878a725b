"""Pools: those of well-known networks in f32 and bf16, and forms of pools of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.layers.forms import Form, Input, tensor
from mucc.dialects.mu.windows import Window

GROUP = "pools"


class Pool(NamedTuple):
    """Pooling of `[N, C, ...]`, by windows that are alike along all spatial axes.

    The stride is that of windows side by side where none is given. With `channels_last` the tensor in memory
    is `[N, ..., C]`, that of the result too. `around` is what is computed of the result, as source of the
    language and of PyTorch, with `{}` for the pool.
    """

    kind: str
    shape: tuple[int, ...]
    size: int
    stride: int | None = None
    pad: int = 0
    dilation: int = 1
    channels_last: bool = False
    around: tuple[str, str] = ("{}", "{}")

    def form(self, group: str, name: str, dtype: str) -> Form:
        """Return the form of a program with the pool."""
        batch, channels, *extents = self.shape
        window = Window(self.size, self.stride or self.size, self.pad, self.dilation)
        places = [window.places(extent) for extent in extents]
        memory = (batch, *extents, channels) if self.channels_last else self.shape
        result = tensor(dtype, batch, *((*places, channels) if self.channels_last else (channels, *places)))
        body, reference = self._sources()
        return Form(group, name, (Input("x", dtype, memory),), result, f"return {body}", reference)

    def _sources(self) -> tuple[str, str]:
        """Return the pool as source of the language, and of PyTorch."""
        spatial = len(self.shape) - 2
        first = f"({', '.join(map(str, (0, spatial + 1, *range(1, spatial + 1))))})"
        last = f"({', '.join(map(str, (0, *range(2, spatial + 2), 1)))})"
        ours, theirs = "x", "x"
        if self.channels_last:
            ours, theirs = f"permute(x, {first})", f"x.permute{first}"
        options = {"stride": (self.stride, None), "pad": (self.pad, 0), "dilation": (self.dilation, 1)}
        named = {name: given for name, (given, default) in options.items() if given != default}
        positions = [self.size, self.stride or self.size, self.pad, self.dilation]
        given = max((i for i, name in enumerate(options, 1) if name in named), default=0)
        keywords = "".join(f", {name}={value}" for name, value in named.items())
        ours = f"{self.kind}_pool({ours}, {self.size}{keywords})"
        theirs = f"F.{self.kind}_pool{spatial}d({theirs}, {', '.join(map(str, positions[: given + 1]))})"
        if self.channels_last:
            ours, theirs = f"permute({ours}, {last})", f"{theirs}.permute{last}"
        return self.around[0].format(ours), self.around[1].format(theirs)


POOLS: dict[str, Pool] = {
    "resnet": Pool("max", (256, 64, 112, 112), 3, stride=2, pad=1),
    "vgg": Pool("max", (128, 64, 224, 224), 2),
    "inception": Pool("avg", (256, 288, 35, 35), 3, stride=1, pad=1),
    "densenet": Pool("avg", (256, 128, 56, 56), 2),
    "video": Pool("max", (16, 64, 16, 112, 112), 2),
    "channels_last": Pool("max", (256, 64, 112, 112), 3, stride=2, pad=1, channels_last=True),
    "global": Pool("avg", (512, 2048, 7, 7), 7),
    "relu_behind": Pool(
        "max",
        (256, 64, 112, 112),
        3,
        stride=2,
        pad=1,
        around=("relu({} * 0.5 + 0.1)", "F.relu({} * 0.5 + 0.1)"),
    ),
}


def _pools() -> Iterator[Form]:
    for dtype in ("f32", "bf16"):
        for name, pool in POOLS.items():
            yield pool.form(GROUP, f"{name}_{dtype}", dtype)


FORMS = tuple(_pools())
