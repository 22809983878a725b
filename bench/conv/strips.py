"""Tiles of depthwise convolutions of MobileNet-V2, EfficientNet-B0 and ConvNeXt-B in bf16, beside cuDNN.

    python -m bench.conv.strips FOLDER [--jobs N] [--only REGEX]

Each layer is built with the tiles that the model ranks first for batches of 10 and 32, and with others; none
comes from the cache, whose key does not have a forced tile. FOLDER/rows.json has a row for each layer, batch
and tile: microseconds of one call of eight in a CUDA graph, its operands in L2, and cuDNN's for the
convolution alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.conv.forcing import forced_strip
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.strips import Strip, StripTile, best_strip, fits, tiles
from mucc.target import get_target

BATCHES, CALLS, ROUNDS, OTHERS = (10, 32), 8, 6, 8
"""Batches, calls of a graph, its replays, and tiles of a layer besides the model's."""


class Depthwise(NamedTuple):
    """A layer: its network, channels, extent of x, window, stride, and how often it occurs."""

    network: str
    channels: int
    extent: int
    window: int
    stride: int
    times: int

    @property
    def name(self) -> str:
        return f"{self.network}_{self.channels}_{self.extent}_{self.window}x{self.window}s{self.stride}"

    @property
    def place(self) -> int:
        """The extent of the result."""
        return (self.extent - 1) // self.stride + 1

    @property
    def windows(self) -> tuple[Window, Window]:
        window = Window(self.window, self.stride, self.window // 2, 1)
        return window, window

    def strip(self, tile: StripTile) -> Strip:
        return Strip(tile, self.windows, 2)

    def cycles(self, tile: StripTile, batch: int) -> float:
        """Return the time that the model expects of a tile."""
        return self.strip(tile).cycles(
            self.channels, batch, (self.place, self.place), get_target("sm_90a").facts
        )

    @property
    def text(self) -> str:
        """The program in the language: batch norm and activation follow, in ConvNeXt a bias and a scale."""
        c, h, k, o = self.channels, self.extent, self.window, self.place
        conv = f"conv(permute(x, (0, 3, 1, 2)), w, stride={self.stride}, pad={k // 2}, groups={c})"
        values = {name: f"cast({name}, f32)[:, None, None]" for name in "mvgb"}
        if self.network == "convnext":
            body = f"  r = cast(({conv} + {values['b']}) * {values['g']}, bf16)\n"
            result = "r"
        else:
            body = f"""  z = cast(cast({conv}, bf16), f32) - {values["m"]}
  q = 1.0 / sqrt({values["v"]} + 0.00001)
  r = cast(z * q * {values["g"]} + {values["b"]}, bf16)
"""
            silu = "cast(cast(r, f32) / (1 + exp(-cast(r, f32))), bf16)"
            result = "min(max(r, 0), 6)" if self.network == "mobile" else silu
        return f"""kernel layer[N](
    x: bf16[N, {h}, {h}, {c}], w: bf16[{c}, 1, {k}, {k}],
    m: bf16[{c}], v: bf16[{c}], g: bf16[{c}], b: bf16[{c}],
) -> bf16[N, {o}, {o}, {c}] {{
{body}  return permute({result}, (0, 2, 3, 1))
}}
"""


LAYERS = [
    Depthwise(network, *numbers)
    for network, layers in {
        "mobile": (
            (32, 112, 3, 1, 1),
            (96, 112, 3, 2, 1),
            (144, 56, 3, 1, 1),
            (144, 56, 3, 2, 1),
            (192, 28, 3, 1, 2),
            (192, 28, 3, 2, 1),
            (384, 14, 3, 1, 4),
            (576, 14, 3, 1, 2),
            (576, 14, 3, 2, 1),
            (960, 7, 3, 1, 3),
        ),
        "efficient": (
            (32, 112, 3, 1, 1),
            (96, 112, 3, 2, 1),
            (144, 56, 3, 1, 1),
            (144, 56, 5, 2, 1),
            (240, 28, 5, 1, 1),
            (240, 28, 3, 2, 1),
            (480, 14, 3, 1, 2),
            (480, 14, 5, 1, 1),
            (672, 14, 5, 1, 2),
            (672, 14, 5, 2, 1),
            (1152, 7, 5, 1, 3),
            (1152, 7, 3, 1, 1),
        ),
        "convnext": ((128, 56, 7, 1, 3), (256, 28, 7, 1, 3), (512, 14, 7, 1, 3), (1024, 7, 7, 1, 3)),
    }.items()
    for numbers in layers
]


class Try(NamedTuple):
    """A layer and a tile for it."""

    layer: Depthwise
    tile: StripTile

    @property
    def name(self) -> str:
        """The name of its files."""
        return ".".join((self.layer.name, *map(str, self.tile)))


def tries(only: str) -> Iterator[Try]:
    """Yield the layers and tiles to build: of each layer the model's, then others from fast to slow ones."""
    facts = get_target("sm_90a").facts
    for layer in (layer for layer in LAYERS if re.search(only, layer.name)):
        places = (layer.place, layer.place)
        chosen = [best_strip(layer.channels, n, places, layer.windows, 2, facts) for n in BATCHES]
        ranked = sorted(
            (tile for tile in tiles(layer.channels) if fits(layer.strip(tile), facts)),
            key=lambda tile: layer.cycles(tile, BATCHES[0]),
        )
        others = ranked[:: max(1, len(ranked) // OTHERS)]
        yield from (Try(layer, tile) for tile in dict.fromkeys((*chosen, *others)) if tile)


def build(one: Try, folder: Path) -> str:
    """Build a library; return what went wrong, or nothing."""
    from mucc.cli.main import main

    source = folder / f"{one.name}.mcu"
    source.write_text(one.layer.text)
    with forced_strip(one.tile):
        status = main([str(source), "-o", str(source.with_suffix(".so")), "--no-cache"])
    return "" if status == 0 else f"mucc returns {status}"


def measure(found: Sequence[Try], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer, batch and tile that was built."""
    import torch

    import mucc
    from bench.conv.measuring import searching

    for batch, layer in itertools.product(BATCHES, dict.fromkeys(one.layer for one in found)):
        c, h, k = layer.channels, layer.extent, layer.window
        x = torch.randn(batch, h, h, c, device="cuda").bfloat16()
        w = (torch.randn(c, 1, k, k, device="cuda") / k).bfloat16()
        given = [x, w, *((torch.rand(c, device="cuda") + 0.5).bfloat16() for _ in range(4))]
        out = torch.empty(batch, layer.place, layer.place, c, device="cuda", dtype=torch.bfloat16)
        moved = x.permute(0, 3, 1, 2), w.contiguous(memory_format=torch.channels_last)
        with searching(torch, True):
            convolve = partial(
                torch.nn.functional.conv2d, *moved, stride=layer.stride, padding=k // 2, groups=c
            )
            cudnn = microseconds(torch, convolve)
        for one in (one for one in found if one.layer == layer):
            if (library := folder / f"{one.name}.so").exists():
                us = microseconds(torch, partial(mucc.load(str(library)).layer, *given, out=out))
                row = {"layer": list(layer), "batch": batch, "tile": list(one.tile)}
                yield {**row, "us": round(us, 2), "cudnn_us": round(cudnn, 2)}


def microseconds(torch: Any, call: Callable[[], Any]) -> float:
    """Return the least time of a call of several in a graph."""
    from bench.gemm.measure import captured

    def calls() -> None:
        for _ in range(CALLS):
            call()

    replay, times = captured(torch, calls), list[float]()
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / CALLS)
    return min(times)


def losses(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, int], float]:
    """Return for each layer and batch what the model's choice among the measured tiles loses.

    0.05 says that the fastest one takes 5 % less time.
    """
    found: dict[tuple[str, int], float] = {}
    groups: dict[tuple[Depthwise, int], list[tuple[StripTile, float]]] = {}
    for row in rows:
        key = Depthwise(*row["layer"]), row["batch"]
        groups.setdefault(key, []).append((StripTile(*row["tile"]), row["us"]))
    for (layer, batch), measured in groups.items():
        _, us = min(measured, key=lambda one: layer.cycles(one[0], batch))
        found[layer.name, batch] = 1 - min(other for _, other in measured) / us
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--only", default="", help="layers")
    args = parser.parse_args()
    folder: Path = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    found = list(tries(args.only))
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for one, wrong in zip(found, pool.map(build, found, [folder] * len(found)), strict=True):
            if wrong:
                print(f"{one.name}: {wrong}", flush=True)
    rows = list(measure(found, folder))
    for row in rows:
        print(f"{Depthwise(*row['layer']).name:24} {row['batch']:3} {row['tile']!s:20} {row['us']:8.2f} us")
    for (name, batch), loss in losses(rows).items():
        print(f"{name:24} {batch:3} loses {loss:.1%}")
    (folder / "rows.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
