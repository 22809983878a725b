"""Tiles of warpgroups on layers of ResNet-50 with batch norm, residual and ReLU, beside a copy and cuDNN.

    python -m bench.conv.tiles FOLDER [--jobs N] [--batch N] [--only REGEX] [--tiles REGEX] [--seconds N]

All libraries are built first, then measured by one process for tiles whose blocks compute one, and by another
one for tiles whose blocks compute many; each has so many seconds. FOLDER/rows.json has a row for each layer
and tile: `us`, the share of a copy that moves the same bytes, cuDNN's `us` for the convolution alone, and the
error from f32.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.conv.forcing import forced_tile
from bench.conv.forms import Conv
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.wide import (
    SHARES,
    WideTile,
    best_tile,
    persistent_tiles,
    staged_tile,
    wide_cycles,
    wide_tile,
)
from mucc.target import get_target

EPS = 1e-5

LAYERS: dict[str, tuple[Conv, bool]] = {
    "2_expand": (Conv((32, 64, 56, 56), 256, (1, 1)), True),
    "2_reduce": (Conv((32, 256, 56, 56), 64, (1, 1)), False),
    "3_skip": (Conv((32, 256, 56, 56), 512, (1, 1), 2), False),
    "3_expand": (Conv((32, 128, 28, 28), 512, (1, 1)), True),
    "4_expand": (Conv((32, 256, 14, 14), 1024, (1, 1)), True),
    "5_3x3": (Conv((32, 512, 7, 7), 512, (3, 3), 1, 1), False),
    "5_reduce": (Conv((32, 2048, 7, 7), 512, (1, 1)), False),
    "2_3x3": (Conv((32, 64, 56, 56), 64, (3, 3), 1, 1), False),
    "4_3x3": (Conv((32, 256, 14, 14), 256, (3, 3), 1, 1), False),
}
"""Layers of ResNet-50, and whether a residual is added to their results."""

SIZES = ((128, 64), (128, 128), (128, 192), (128, 256), (256, 128))
SMALL = 132
"""Tiles of 128x128 of a layer, at most, whose K is divided."""


class Try(NamedTuple):
    """A layer and a tile for it."""

    layer: str
    conv: Conv
    adds: bool
    tile: WideTile

    @property
    def name(self) -> str:
        """The name of its files."""
        rows, columns, stages, resident, shares, is_persistent = self.tile
        return (
            f"{self.layer}.{rows}x{columns}.s{stages}.r{resident}.k{shares}{'.many' if is_persistent else ''}"
        )

    @property
    def text(self) -> str:
        """The program: a batch norm as PyTorch decomposes it, of a convolution that is rounded to bf16."""
        n, c, h, w = self.conv.x
        o, (height, width) = self.conv.outputs, self.conv.places
        kh, kw = self.conv.window
        moved = "(0, 3, 1, 2)"
        conv = f"conv(permute(x, {moved}), permute(w, {moved}){self.conv.options(in_pytorch=False)})"
        added = f", r: bf16[{n}, {height}, {width}, {o}]" if self.adds else ""
        return f"""// by {self.name}
kernel layer(
    x: bf16[{n}, {h}, {w}, {c}], w: bf16[{o}, {kh}, {kw}, {c}],
    mean: f32[{o}], var: f32[{o}], scale: bf16[{o}], shift: bf16[{o}]{added},
) -> bf16[{n}, {height}, {width}, {o}] {{
    y = cast(cast(permute({conv}, (0, 2, 3, 1)), bf16), f32)
    z = (y - mean) * (1 / sqrt(var + {EPS})) * cast(scale, f32) + cast(shift, f32)
    return relu(cast(z, bf16){" + r" if self.adds else ""})
}}
"""


def layer_of(conv: Conv, adds: bool) -> Layer:
    """Describe a layer as strategies judge it."""
    rows, taps = conv.x[0] * conv.places[0] * conv.places[1], conv.window[0] * conv.window[1]
    moved = 2 * (rows * conv.outputs * (1 + adds) + conv.x[0] * conv.x[1] * conv.x[2] * conv.x[3])
    return Layer(rows, conv.x[1], conv.outputs, 1, taps, "bf16", 2, True, moved, behind=2 * adds)


def tiles_of(conv: Conv, adds: bool) -> list[WideTile]:
    """Return the chosen tile first, then `SIZES` that a layer fills, for small ones with K divided."""
    facts, layer = get_target("sm_90a").facts, layer_of(conv, adds)
    found = [best_tile(layer, facts)]
    is_small = layer.rows * layer.outputs <= SMALL * 128 * 128
    is_one_step = layer.channels * layer.taps <= 64
    for rows, columns in SIZES:
        if columns >= 2 * layer.outputs or (is_small and columns == 192):
            continue
        is_large = rows * columns > 128 * 128
        if (usual := wide_tile(rows, columns, facts)) is not None:
            found += [usual._replace(shares=n) for n in (SHARES[is_large:] if is_small else (1,))]
        if is_small and not is_large and (alone := staged_tile(rows, columns, 1, facts)) is not None:
            found += [alone._replace(shares=n) for n in SHARES]
        if not is_small:
            found += [
                tile for tile in persistent_tiles(rows, columns, facts) if is_one_step or tile.stages > 1
            ]
    if is_one_step:  # further stages are never filled
        found += [WideTile(128, 64, 2, 3), WideTile(128, 64, 1, 3, is_persistent=True)]
    return list(dict.fromkeys(found))


def tries(batch: int, only: str, tiles: str) -> Iterator[Try]:
    """Yield the layers and tiles to build."""
    for name, (conv, adds) in LAYERS.items():
        conv = conv._replace(x=(batch, *conv.x[1:]))
        for tile in tiles_of(conv, adds) if re.search(only, name) else ():
            one = Try(name, conv, adds, tile)
            if re.search(tiles, one.name):
                yield one


def build(one: Try, folder: Path) -> str:
    """Build a library; return what went wrong, or nothing."""
    from mucc.cli.main import main

    source = folder / f"{one.name}.mcu"
    source.write_text(one.text)
    with forced_tile(one.tile):
        status = main([str(source), "-o", str(source.with_suffix(".so")), "--no-cache"])
    return "" if status == 0 else f"mucc returns {status}"


def measure(tries: Sequence[Try], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer and tile that was built. Tiles of a layer are measured in turns."""
    import torch

    import mucc
    from bench.conv.measuring import searching
    from bench.gemm.measure import captured, copy_bandwidth, timed

    copy = copy_bandwidth(torch)
    for layer in dict.fromkeys(one.layer for one in tries):
        own = [one for one in tries if one.layer == layer and (folder / f"{one.name}.so").exists()]
        if not own:
            continue
        given, expected = inputs(torch, own[0])
        moved = sum(t.nbytes for t in (*given, expected))
        conv, errors, calls = own[0].conv, dict[str, float](), dict[str, Any]()
        for one in own:
            kernel = mucc.load(str(folder / f"{one.name}.so")).layer
            result = kernel(*given)
            errors[one.name] = float((result.float() - expected.float()).norm() / expected.float().norm())
            calls[one.name] = captured(torch, partial(kernel, *given, out=result))
        moved_axes = [t.permute(0, 3, 1, 2) for t in given[:2]]
        with searching(torch, True):
            convolve = partial(torch.nn.functional.conv2d, *moved_axes, stride=conv.stride, padding=conv.pad)
            calls["cudnn"] = captured(torch, convolve)
        times = timed(torch, calls, 25)
        for one in own:
            ms = times[one.name]
            yield {
                "layer": layer,
                "batch": conv.x[0],
                "tile": list(one.tile),
                "us": round(ms * 1e3, 2),
                "of_copy": round(moved / ms * 1e3 / copy, 3),
                "cudnn_us": round(times["cudnn"] * 1e3, 2),
                "error": round(errors[one.name], 5),
            }


def inputs(torch: Any, one: Try) -> tuple[list[Any], Any]:
    """Return arguments of a program, and its result in f32 by PyTorch."""
    torch.manual_seed(0)
    (n, c, h, width), o, conv = one.conv.x, one.conv.outputs, one.conv

    def draw(*shape: int) -> Any:
        return torch.randn(shape, device="cuda")

    depth = c * conv.window[0] * conv.window[1]
    x, w = draw(n, h, width, c).bfloat16(), (draw(o, *conv.window, c) / depth**0.5).bfloat16()
    mean, var, scale, shift = draw(o), draw(o).abs() + 0.5, draw(o).bfloat16(), draw(o).bfloat16()
    given = [x, w, mean, var, scale, shift]
    y = torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2).float(), w.permute(0, 3, 1, 2).float(), stride=conv.stride, padding=conv.pad
    ).permute(0, 2, 3, 1)
    z = (y - mean) / (var + EPS).sqrt() * scale.float() + shift.float()
    if one.adds:
        given.append(draw(*z.shape).bfloat16())
        z = z + given[-1].float()
    return given, z.relu().to(torch.bfloat16)


def losses(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[str, float]]:
    """Return for each layer the tile that the model would choose among the measured ones, and what it loses.

    0.05 says that the fastest one takes 5 % less time.
    """
    facts, found = get_target("sm_90a").facts, dict[str, tuple[str, float]]()
    for name in dict.fromkeys(row["layer"] for row in rows):
        own = [row for row in rows if row["layer"] == name]
        conv, adds = LAYERS[name]
        layer = layer_of(conv._replace(x=(own[0]["batch"], *conv.x[1:])), adds)
        chosen = min(own, key=lambda row: wide_cycles(WideTile(*row["tile"]), layer, facts))
        found[name] = WideTile(*chosen["tile"]).text, 1 - min(row["us"] for row in own) / chosen["us"]
    return found


def show(row: dict[str, Any]) -> None:
    """Print a row of the table."""
    rows, columns, stages, resident, shares, is_persistent = row["tile"]
    how = (
        f"{rows}x{columns} stages {stages} blocks {resident} K by {shares}{' many' if is_persistent else ''}"
    )
    doubt = "" if row["error"] < 0.02 else f"  WRONG by {row['error']}"
    print(
        f"{row['layer']:9} {how:42} {row['us']:8.1f} us {row['of_copy']:6.2f} of copy  "
        f"cuDNN {row['cudnn_us']:7.1f} us{doubt}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--only", default="", help="layers")
    parser.add_argument("--tiles", default="", help="names of libraries")
    parser.add_argument("--seconds", type=float, default=300, help="of each measuring process")
    parser.add_argument("--measure", choices=["one", "many"], help="measure what is built, by this process")
    parser.add_argument("--build-only", action="store_true")
    args = parser.parse_args()
    folder: Path = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    found = list(tries(args.batch, args.only, args.tiles))
    if args.measure:
        with (folder / f"{args.measure}.jsonl").open("w") as file:
            for row in measure(
                [t for t in found if t.tile.is_persistent == (args.measure == "many")], folder
            ):
                show(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
        return 0
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=spawn) as pool:
        for one, wrong in zip(found, pool.map(build, found, [folder] * len(found)), strict=True):
            if wrong:
                print(f"{one.name}: {wrong}", flush=True)
    rows: list[dict[str, Any]] = []
    for part in () if args.build_only else ("one", "many"):
        options = ["--batch", str(args.batch), "--only", args.only, "--tiles", args.tiles, "--measure", part]
        try:
            subprocess.run(
                [sys.executable, "-m", "bench.conv.tiles", str(folder), *options], timeout=args.seconds
            )
        except subprocess.TimeoutExpired:
            print(f"{part}: ended after {args.seconds:.0f} s", flush=True)
        if (written := folder / f"{part}.jsonl").exists():
            rows += map(json.loads, written.read_text().splitlines())
    for layer, (tile, loss) in losses(rows).items():
        print(f"{layer:9} chosen {tile:24} loses {loss:.1%}")
    (folder / "rows.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
