"""The lines of the reference card about schedules of contractions."""

from __future__ import annotations

from mucc.kernels.gemm.scheduling import gemm_target
from mucc.target import DEFAULT_TARGET, TARGETS


def card() -> str:
    """Return the lines, with the mainloops of the targets that the text itself says nothing about."""
    by_mainloops: dict[tuple[str, ...], list[str]] = {}
    for name in (name for name in TARGETS if name != DEFAULT_TARGET):
        mainloops = tuple(m for family in gemm_target(name).families for m in family.mainloops)
        by_mainloops.setdefault(mainloops, []).append(name)
    others = (f"{', '.join(names)}: {', '.join(mainloops)}" for mainloops, names in by_mainloops.items())
    return _CARD.replace("{others}", "; ".join(others))


_CARD = """\
Below: sm_90a's first three mainloops.
* tile = MxNxK: M % 64 = 0 (cooperative: 128); N % 16 = 0 (f32: 32); K % 16 = 0 (8-bit: 32, 64, 128; f32: 8,
  or 32 unless K-contiguous; sparse: 128, 256, f32 64); all <= 256; M x N <= 49152
  (cooperative) or 24576, half for 8-bit floats unless acc=fast. Good: 128x256x64, 128x128x64, 64x128x64; K 32
  for f32, 128 for 8-bit.
* cluster = MxN: blocks that share loads; powers of 2, <= 8 in all.
* mainloop = cooperative (2 warpgroups a tile, M >= 128), pingpong (a tile each), warpspecialized (a tile a
  block, no swizzle), cpasync (`gather(x, rows) @ w`), skinny (M or N up to 32: 8x32x64, or 32x8x64),
  multistage (any rows, f32, tf32x3; not 8-bit: 128x128x32, no cluster). {others}.
* stages = auto, or >= 2 of (M + N) x K x element bytes; 227 KB with the epilogue.
* scheduler = persistent(raster=along_m|along_n|heuristic, swizzle=1|2|4|8); for few tiles, long K
  stream_k(splits=n) (cooperative), split_k(n) (multistage, skinny).
* exchange = on|off: the transpose, a small M is the tile's N: M <= 64 64x16x128.
  pdl = on|off: start early. reproducible = on|off: one order. epilogue = MxN|auto: its piece of a tile
* TMA: contiguous extents are multiples of 16 (8-bit), 8 (16-bit), 4 (f32): promise it in `where`, or they are
  copied.
"""
