"""What a convolution of the benchmark is: its geometry, and what follows it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.layers.forms import Form, Input, tensor
from mucc.dialects.mu.windows import Window


class Conv(NamedTuple):
    """A convolution of `x` `[N, C, ...]` with `outputs` channels and one `window` for each spatial axis.

    `stride`, `pad`, `dilation` and `output_pad` are as in PyTorch: one number, or one for each spatial axis.
    """

    x: tuple[int, ...]
    outputs: int
    window: tuple[int, ...]
    stride: int | tuple[int, ...] = 1
    pad: int | tuple[int, ...] = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    transposed: bool = False
    output_pad: int | tuple[int, ...] = 0

    @property
    def spatial(self) -> int:
        return len(self.window)

    def each(self, numbers: int | tuple[int, ...]) -> tuple[int, ...]:
        """Return one number for each spatial axis."""
        return (numbers,) * self.spatial if isinstance(numbers, int) else numbers

    @property
    def weights(self) -> tuple[int, ...]:
        """The extents of the weights."""
        lead = (self.x[1], self.outputs) if self.transposed else (self.outputs, self.x[1])
        return (lead[0], lead[1] // self.groups, *self.window)

    @property
    def places(self) -> tuple[int, ...]:
        """The extents of the result along its spatial axes."""
        spatial = zip(self.x[2:], *map(self.each, (self.stride, self.pad, self.dilation)), strict=True)
        found: list[int] = []
        for (extent, stride, pad, dilation), size, more in zip(
            spatial, self.window, self.each(self.output_pad), strict=True
        ):
            if self.transposed:
                found.append((extent - 1) * stride - 2 * pad + dilation * (size - 1) + more + 1)
            else:
                found.append(Window(size, stride, pad, dilation).places(extent))
        return tuple(found)

    @property
    def result(self) -> tuple[int, ...]:
        return (self.x[0], self.outputs, *self.places)

    @property
    def kind(self) -> str:
        """Which figures count it: `transposed`, `depthwise` or `dense`."""
        if self.transposed:
            return "transposed"
        return "depthwise" if self.groups == self.x[1] else "dense"

    @property
    def flops(self) -> int:
        """Multiplications and additions, of padding too."""
        channels, outputs = self.x[1] // self.groups, self.outputs
        seen = math.prod(self.x[2:] if self.transposed else self.places)
        return 2 * self.x[0] * seen * math.prod(self.window) * channels * outputs

    def options(self, *, in_pytorch: bool) -> str:
        """Return the options that are not the default ones, as source of the language or of PyTorch."""
        names = {"stride": 1, "pad": 0, "output_pad": 0, "dilation": 1, "groups": 1}
        theirs = {"pad": "padding", "output_pad": "output_padding"} if in_pytorch else {}
        given = {name: getattr(self, name) for name in names}
        return "".join(
            f", {theirs.get(name, name)}={value}" for name, value in given.items() if value != names[name]
        )

    def sources(self, *, bias: bool, channels_last: bool = False, pooled: int = 1) -> tuple[str, str]:
        """Return the convolution of `x` with `w`, and `b` behind it, as source of the language and PyTorch.

        With `channels_last` x, w and the result have their channels as the last axis. x is averaged over
        windows of extent `pooled` before.
        """
        name, spatial = "conv_transpose" if self.transposed else "conv", self.spatial
        x, w = ((moved(v, spatial) if channels_last else v) for v in "xw")
        x = f"avg_pool({x}, {pooled})" if pooled > 1 else x
        ours = f"{name}({x}, {w}{self.options(in_pytorch=False)})"
        x, w = ((moved(v, spatial, method=True) if channels_last else v) for v in "xw")
        x = f"F.avg_pool{spatial}d({x}, {pooled})" if pooled > 1 else x
        given = f"{x}, {w}, {'b' if bias else None}{self.options(in_pytorch=True)}"
        theirs = f"F.{name}{spatial}d({given})"
        if channels_last:
            ours, theirs = moved(ours, spatial, last=True), moved(theirs, spatial, last=True, method=True)
        if bias:
            vector = "b" if channels_last else f"b[:{', None' * spatial}]"
            ours = f"({ours} + {vector})"
        return ours, theirs


def moved(value: str, spatial: int, *, last: bool = False, method: bool = False) -> str:
    """Return a tensor with its channels moved to the last axis or back, as source."""
    order = (0, *range(2, spatial + 2), 1) if last else (0, spatial + 1, *range(1, spatial + 1))
    return f"{value}.permute({order})" if method else f"permute({value}, {order})"


@dataclass(frozen=True)
class ConvForm(Form):
    """A layer with a convolution. `batched` names the inputs whose first axis is the batch: none where its
    elements depend on each other.

    A program that is built by a forced `strategy` says so, as caches know programs by their text.
    """

    kind: str = "dense"
    flops: int = 0
    channels_last: bool = False
    batched: tuple[str, ...] = ("x",)
    strategy: str = ""

    @property
    def text(self) -> str:
        return f"// by {self.strategy}\n{super().text}" if self.strategy else super().text


def form(
    group: str,
    name: str,
    conv: Conv,
    *,
    dtype: str = "f32",
    factors: str = "",
    bias: bool = True,
    channels_last: bool = False,
    behind: tuple[str, str] = ("{}", "{}"),
    more: Sequence[Input] = (),
    result: tuple[int, ...] | None = None,
    pooled: int = 1,
    mixes: bool = False,
) -> ConvForm:
    """Return a layer: a convolution, a bias, and what is `behind`, in the language and in PyTorch.

    There `{}` stands for what is before. x and w have the dtype `factors`, by default that of all. `more` are
    the further inputs; those of the result's rank have a batch. `result` are the extents of the result, by
    default the convolution's. x is averaged over windows of extent `pooled` before. `mixes` says that
    elements of the batch depend on each other.
    """

    def lain(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], *shape[2:], shape[1]) if channels_last else shape

    given = (*conv.x[:2], *(extent * pooled for extent in conv.x[2:]))
    multiplied = factors or dtype
    inputs = [Input("x", multiplied, lain(given)), Input("w", multiplied, lain(conv.weights), "filter")]
    if bias:
        inputs.append(Input("b", dtype, (conv.outputs,)))
    inputs += more
    ours, theirs = conv.sources(bias=bias, channels_last=channels_last, pooled=pooled)
    ours, theirs = behind[0].replace("{}", ours), behind[1].replace("{}", theirs)
    return ConvForm(
        group,
        name,
        tuple(inputs),
        tensor(dtype, *lain(result or conv.result)),
        ours if "return " in ours else f"return {ours}",
        theirs,
        has_product=True,
        kind=conv.kind,
        flops=conv.flops,
        channels_last=channels_last,
        batched=() if mixes else ("x", *(i.name for i in more if len(i.shape) == len(conv.x))),
    )
