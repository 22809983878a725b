"""Whose work it was: kernels and operations of PyTorch and its libraries, and others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

from mucc.agent.audit.observations import Call, Observations, Work

LIBRARIES = re.compile(
    r"\bat::|at_cuda_detail|\bc10::|cudnn|cublas|cusparse|cufft|^nvjet|sm\d+_xmma|xmma_"
    r"|\bcutlass::Kernel2?<cutlass_\d+_"
    r"|^(void )?(ampere|volta|turing|hopper|maxwell|pascal)_|gemmSN|gemmk1|gemv2|gemvNSP|splitKreduce"
    r"|dot_kernel|flash_(fwd|bwd)|fmha_|pytorch_flash|implicit_convolve|explicit_convolve|convolve_sgemm|winograd"
    r"|\bgemvx::|cutensor|^void (regular|vector|multi_bluestein|composite_2way)_fft|getrf_|geqrf_"
    r"|nchwToNhwc|nhwcToNchw|bn_fw_|bn_bw_|cask_|^Memcpy|^Memset|RNN_|elemWise|softmax_warp_forward|radixSort"
)
"""Kernels of PyTorch, cuBLAS, cuDNN and others, by their names, and copies."""

PYTORCHS = re.compile(
    r"(aten|_native|mkl|mkldnn|mkldnn_prepacked|onednn|prepacked|xnnpack|fbgemm|_?quantized|sparse|static_runtime)::"
)
"""Matches names of operations that are PyTorch's own, and compute themselves."""

CPU_FREE = re.compile(
    r"aten::(empty|new_empty|resize|view|reshape|_unsafe_view|as_strided|expand|slice|select|squeeze|unsqueeze"
    r"|transpose|permute|t$|detach|alias|to$|_to_copy|lift|item|_local_scalar|is_|numel|size|stride|result_type"
    r"|contiguous|clone|copy_|zero_|zeros|fill_|unbind|split|chunk|narrow|flatten|unflatten|resolve_|set_|ones"
    r"|empty_like|empty_strided|movedim|swapaxes|set_data|broadcast|view_as|expand_as|_reshape|arange|full|scalar_tensor)"
)
"""ATen operations that compute nothing: they allocate, copy, or look at the same memory in another way."""


def is_own(work: Work) -> bool:
    """Whether a kernel is the solution's own."""
    return not PYTORCHS.match(work.parent) and not LIBRARIES.search(work.name)


def compute_ops(work: Iterable[Work]) -> set[str]:
    """Return the ATen operations that compute something."""
    return {w.name for w in work if _computes(w)}


PRODUCTS = re.compile(
    r"aten::_*(mm|bmm|mv|dot|vdot|inner|addmm|addmm_activation|addmv|addbmm|baddbmm|addr|.*conv.*|.*attention.*)$"
    r"|(?!aten::)\w+::.*(linear|mm|conv|matmul)"
)
"""Operations that multiply matrices, by whatever name."""

COMPOSITES = re.compile(
    r"aten::(linear|matmul|einsum|tensordot|conv[123]d|relu6?|bilinear|cosine_similarity)_?$"
)
"""Operations that are made of others, which are counted."""

FUSED = re.compile(r"_pointwise|_activation|_relu|_gelu|_leaky|_tanh")
"""Matches names of products that compute a function of each element of the result as well, …"""

ACTIVATIONS = ("clamps", "gelu", "silu", "sigmoid", "tanh", "leaky_relu", "hardswish", "add", "mul")
"""… which is one of these."""

CLAMPS = re.compile(r"aten::(clamp|clamp_min|clamp_max|threshold|hardtanh)_?$")


def kinds(operations: Iterable[str]) -> set[str]:
    """Return what operations do, whichever of several names each has."""
    found: set[str] = set()
    for name in operations:
        if PRODUCTS.match(name):
            found |= {"products", *(ACTIVATIONS if FUSED.search(name) else ())}
        elif CLAMPS.match(name):
            found.add("clamps")
        elif not COMPOSITES.match(name):
            found.add(name.partition("::")[2].rstrip("_"))
    return found


def launched(work: Iterable[Work]) -> Counter[str]:
    """Return how many kernels ATen operations started on a GPU, by what these operations do (`kinds`)."""
    found: Counter[str] = Counter()
    for w in work:
        if w.kind == "kernel" and PYTORCHS.match(w.parent) and not CPU_FREE.match(w.parent):
            for kind in kinds([w.parent]):
                found[kind] += w.calls
    return found


def runs_reference(seen: Observations) -> bool:
    """Whether on a GPU PyTorch starts all kernels of the reference, or more of each kind, in every observed
    call before the timed series, or amid that. One that computes some of the operations itself has fewer of
    these."""
    theirs = launched(seen.reference.work)
    return bool(theirs) and any(
        calls and all(theirs <= launched(c.work) for c in calls) for calls in (seen.before, seen.amid)
    )


def untold(seen: Observations) -> tuple[str, list[str]]:
    """Return what PyTorch computes in most timed calls and in none that was observed, and the names of these;
    "" where there is no such thing."""
    told = kinds(compute_ops(w for call in seen.observed for w in call.work))
    calls: dict[str, list[str]] = {}
    for case, names in seen.operations.items():
        for kind in kinds(filter(_is_computing, names)) - told:
            calls.setdefault(kind, []).append(case)
    kind = max(calls, key=lambda kind: len(calls[kind]), default="")
    return kind, calls.get(kind, [])


def busy_us(call: Call) -> float:
    """Return for how long kernels of an observed call ran on a GPU, at the least: those of one stream."""
    streams: Counter[int] = Counter()
    for w in call.work:
        if w.kind == "kernel":
            streams[w.stream] += w.us  # pyright: ignore[reportArgumentType]
    return max(streams.values(), default=0)


def kernels(seen: Observations) -> list[tuple[Work, bool]]:
    """Return the kernels of an observed call, the longest first, and whether each is the solution's."""
    call = next(iter(seen.observed), None)
    if call is None:
        return []
    kind = "kernel" if seen.device == "cuda" else "op"
    found = [w for w in call.work if w.kind == kind and (kind == "kernel" or not CPU_FREE.match(w.name))]
    return [(w, kind == "kernel" and is_own(w)) for w in sorted(found, key=lambda w: -w.us)]


def own_share(seen: Observations) -> float | None:
    """Return the part of the time that the solution's own code takes; None where it cannot be told.

    Who leaves its work to PyTorch where calls are timed has the part that it takes in calls amid these.
    """
    before, amid = (
        [s for c in calls if (s := _share(c.work, c.seconds, seen)) is not None]
        for calls in (seen.before, seen.amid)
    )
    found = ([median(before)] if before else []) + ([max(amid)] if amid else [])
    return min(found, default=None)


SIMPLE = re.compile(
    r"aten::_*(add|sub|rsub|mul|div|neg|abs|exp|exp2|expm1|log|log1p|log2|sqrt|rsqrt|reciprocal|pow|square|sin|cos"
    r"|tanh|sigmoid|relu|gelu|silu|elu|leaky_relu|clamp|clamp_min|clamp_max|threshold|hardtanh|maximum|minimum"
    r"|where|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|isnan|isfinite|all|any|sum|mean|amax|amin|max|min|argmax"
    r"|argmin|std|var|softmax|log_softmax|cumsum|sort|topk|dropout|round|floor|ceil|sign|rand|randn|uniform"
    r"|normal|random|bernoulli|equal|allclose|isclose|native_layer_norm|native_batch_norm|layer_norm)_?$"
)
"""ATen operations that multiply no matrices."""


def may_multiply(operation: str) -> bool:
    """Whether an ATen operation may multiply matrices, itself or by what it calls."""
    return not SIMPLE.match(operation)


def starts_products(call: Call) -> bool:
    """Whether kernels of an observed call on a GPU are a library's that may multiply matrices."""
    return any(
        w.kind == "kernel"
        and not is_own(w)
        and not re.match(r"Mem(cpy|set)", w.name)
        and not (PYTORCHS.match(w.parent) and (CPU_FREE.match(w.parent) or not may_multiply(w.parent)))
        for w in call.work
    )


def pytorchs_share(call: Call, which: Callable[[str], bool] = bool) -> float:
    """Return the part of an observed call that ATen operations take that compute, of those chosen by name."""
    if not call.seconds:
        return 1.0
    return sum(w.us for w in call.work if _computes(w) and which(w.name)) / (call.seconds * 1e6)


def _computes(work: Work) -> bool:
    """Whether it is an operation of PyTorch's that computes something."""
    return work.kind == "op" and _is_computing(work.name)


def _is_computing(operation: str) -> bool:
    return bool(PYTORCHS.match(operation)) and not CPU_FREE.match(operation)


def _share(work: Iterable[Work], seconds: float, seen: Observations) -> float | None:
    rows = list(work)
    if seen.device == "cuda":
        whole = sum(w.us for w in rows if w.kind == "kernel")
        return sum(w.us for w in rows if w.kind == "kernel" and is_own(w)) / whole if whole else None
    whole = seconds * 1e6
    theirs = sum(w.us for w in rows if _computes(w))
    return max(0.0, 1 - theirs / whole) if whole else None
