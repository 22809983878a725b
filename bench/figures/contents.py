"""Choose the recorded results that each figure shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from bench.attention.cases import FLEX, WRITTEN
from bench.common import RESULTS
from bench.figures.drawing import Figure, Strip

Row = dict[str, Any]


@cache
def rows(card: str, name: str) -> list[Row]:
    """Read the measurements of a result."""
    return json.loads((RESULTS / card / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def strip(label: str, of: Sequence[Row], over: Callable[[Row], float | None], name: str = "name") -> Strip:
    """Return the speedups of correct rows that have one; a later row of a name replaces an earlier one."""
    values = {str(row[name]): v for row in of if row.get("good", True) and (v := over(row))}
    assert values, f"no row has a figure for {label}"
    return Strip(label, values)


def column(name: str) -> Callable[[Row], float | None]:
    """Read a column that has a speedup."""
    return lambda row: row.get(name)


def ratio(theirs: str, ours: str) -> Callable[[Row], float | None]:
    """Divide two columns of times."""
    return lambda row: row[theirs] / row[ours] if row.get(theirs) and row.get(ours) else None


def gemm(label: str, case: str, theirs: str = "eager_ms", ours: str = "tuned_ms") -> Strip:
    """Return the strip of a case or a group of bench.gemm."""
    of = [row | {"name": row["shape"]} for row in rows("h200", "gemm") if row["case"] == case]
    of += [
        row | {"name": f"{row['case']} {row['shape']}"}
        for row in rows("h200", "gemm")
        if row["group"] == case and row["case"] != case
    ]
    return strip(label, of, ratio(theirs, ours))


def attention(label: str, *kinds: str) -> Strip:
    """Return the strip of some kinds of bench.attention."""
    of = [row for row in rows("h100_sxm", "attention") if row["kind"] in kinds]
    return strip(label, of, column("over"), "call")


def conv(label: str, group: str, over: str, dtype: str = "") -> Strip:
    """Return the strip of a group of bench.conv."""
    of = [row for row in rows("h100_sxm", "conv") if row["group"] == group and row["name"].endswith(dtype)]
    return strip(label, of, column(over))


def layers(label: str, group: str, over: str) -> Strip:
    """Return the strip of a group of bench.layers."""
    return strip(label, [r for r in rows("h100_sxm", "layers") if r["group"] == group], column(over))


def models(label: str, result: str, mode: str) -> Strip:
    """Return the strip of models by time on the GPU against Inductor in the same mode, the fastest first."""
    made = strip(label, rows("h100_sxm", result), lambda row: row.get("over_inductor_gpu", {}).get(mode))
    return Strip(label, dict(sorted(made.values.items(), key=lambda item: -item[1])))


def rivals(kernel: Row) -> Strip:
    """Return the row of a figure with a kernel's speedups over the rivals that bench.rivals has timed."""
    times = {r["name"]: r["time_us"] for r in kernel["results"] if r["time_us"]}
    ours = times.pop("mucc")
    dims = " x ".join(map(str, kernel["dims"].values()))
    return Strip(f"{kernel['name']}, {dims}", {SPELLED[name]: time / ours for name, time in times.items()})


SPELLED = {
    "torch": "PyTorch",
    "inductor": "Inductor",
    "triton": "Triton",
    "helion": "Helion",
    "cutedsl": "CuTe DSL",
}


def overview() -> Figure:
    """Show one strip for each kind of work."""
    return Figure(
        "overview",
        "Speed against rivals, on an H100 (some H200)",
        (
            gemm("bf16 products, tuned / cuBLASLt, H200", "bf16"),
            gemm("fused layers / max-autotune, H200", "fused", "compile_ms"),
            layers("layers with products (tf32) / torch.compile", "level2", "over_compile"),
            layers("memory-bound layers / torch.compile", "level1", "over_compile"),
            conv("convolution layers (tf32) / torch.compile", "level2", "over_compile"),
            conv("bf16 convolutions, channels last / cuDNN", "nhwc", "over_cudnn", "bf16"),
            conv("bf16 gradients of weights / cuDNN", "weights", "over_cudnn", "bf16"),
            attention("bf16 attention / best of SDPA", "full", "causal", "gqa"),
            attention("its gradients / best of SDPA", *BACKWARD),
            models("parts of models / Inductor", "models", "default"),
            models("KernelBench level 3 networks / Inductor", "level3", "default"),
        ),
    )


BACKWARD = ("backward_full", "backward_causal", "backward_gqa")


def products() -> Figure:
    """Show products by dtype, tuned and by default."""
    dtypes = ("bf16", "f16", "tf32", "e4m3", "s8")
    both = [
        gemm(f"{dtype}, {way} / cuBLASLt", dtype, ours=ours)
        for dtype in dtypes
        for way, ours in (("tuned", "tuned_ms"), ("default schedule", "default_ms"))
    ]
    return Figure(
        "products",
        "Products, on an H200",
        (
            *both,
            gemm("1 to 16 rows, bf16, tuned / cuBLASLt", "skinny"),
            gemm("1 to 16 rows, bf16, default / cuBLASLt", "skinny", ours="default_ms"),
            gemm("weights of 4 and 8 bits / dequantising first", "mixed"),
            gemm("fused layers, tuned / eager PyTorch", "fused"),
            gemm("fused layers, tuned / max-autotune", "fused", "compile_ms"),
        ),
        "33 shapes of each dtype, 512³ to 16384³, from decoding to prefill (s8: 30). The default schedule is"
        " what the compiler chooses with the sizes known.",
    )


def attentions() -> Figure:
    """Show attention by form."""
    return Figure(
        "attention",
        "Attention, on an H100",
        (
            attention("bf16: full, causal, shared keys / SDPA", "full", "causal", "gqa"),
            attention("what SDPA has not / FlexAttention", *FLEX),
            attention("sigmoid, relu for softmax / torch.compile", *WRITTEN),
            attention("f32 / SDPA", "full_f32", "causal_f32"),
            attention("e4m3 / SDPA in bf16", "full_e4m3", "causal_e4m3"),
            attention("one to few queries / SDPA", "decode"),
            attention("few queries, paged caches / SDPA", "paged"),
            attention("gradients, bf16 / SDPA", *BACKWARD),
        ),
        "SDPA is the best of its backends, cuDNN's among them. Some gradients with shared keys and some calls"
        " of f32 have times of kernels before the present ones ([Benchmarks](../bench/README.md)).",
    )


def convolutions() -> Figure:
    """Show convolutions by group."""
    return Figure(
        "convolutions",
        "Convolutions, on an H100",
        (
            conv("KernelBench level 2 (tf32) / eager", "level2", "over_eager"),
            conv("KernelBench level 2 (tf32) / torch.compile", "level2", "over_compile"),
            conv("KernelBench level 1 (tf32) / eager", "level1", "over_eager"),
            conv("channels last, bf16 / cuDNN", "nhwc", "over_cudnn", "bf16"),
            conv("channels last, tf32 / cuDNN", "nhwc", "over_cudnn", "f32"),
            conv("groups and depthwise / cuDNN", "grouped", "over_cudnn"),
            conv("first layers, few channels / cuDNN", "first", "over_cudnn"),
            conv("s8 / cuDNN in bf16", "eight", "over_cudnn", "s8"),
            conv("e4m3 / cuDNN in bf16", "eight", "over_cudnn", "e4m3"),
            conv("gradients of weights, bf16 / cuDNN", "weights", "over_cudnn", "bf16"),
            conv("gradients of weights, tf32 / cuDNN", "weights", "over_cudnn", "f32"),
        ),
        "cuDNN is the best of both orders of axes, autotuned. Gradients of weights are slower than cuDNN's.",
    )


def layer_figure() -> Figure:
    """Show layers against PyTorch."""
    return Figure(
        "layers",
        "Layers, on an H100",
        (
            layers("memory-bound, level 1 / torch.compile", "level1", "over_compile"),
            layers("memory-bound, level 1 / eager", "level1", "over_eager"),
            layers("with products, level 2 / torch.compile", "level2", "over_compile"),
            layers("with products, level 2 / eager in tf32", "level2", "over_tf32"),
            layers("softmax and norms of rows / torch.compile", "rows", "over_compile"),
            layers("pools / torch.compile", "pools", "over_compile"),
            layers("parts of transformers / torch.compile", "blocks", "over_compile"),
        ),
        "Sizes are KernelBench's. Level 2 is in tf32 on all sides.",
    )


def model_figure() -> Figure:
    """Show each model against Inductor."""
    return Figure(
        "models",
        'torch.compile(backend="mucc"), on an H100',
        (
            models("parts of models, default mode", "models", "default"),
            models("parts of models, reduce-overhead", "models", "reduce-overhead"),
            models("KernelBench level 3, default mode", "level3", "default"),
        ),
        "Time on the GPU of Inductor in the same mode over that of mucc; bf16, a few layers of each model.",
        by_name=True,
    )


def rival_figure() -> Figure:
    """Show kernels of other compilers against ours."""
    return Figure(
        "rivals",
        "Kernels of other compilers, on an H100",
        [rivals(kernel) for kernel in rows("h100_sxm", "rivals")],
        "bf16, each rival tuned by its own tuner (`python -m bench.rivals`). CuTe DSL is quack, for attention"
        " FlashAttention-4, for `gated` a kernel of our own.",
        by_name=True,
    )


FIGURES: Sequence[Callable[[], Figure]] = (
    overview,
    products,
    attentions,
    convolutions,
    layer_figure,
    model_figure,
    rival_figure,
)
