"""Times and errors of a call, all contenders on the same tensors. Imports torch where it is called."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.attention.backward import measure_backward
from bench.attention.cases import CAP, PAGE, PAGED, SDPA, WINDOW, WRITTEN, Case, documents_of
from bench.attention.flashinfer import decode_calls
from bench.gemm.measure import captured, timed

Values = dict[str, Any]
Call = Callable[[], Any]

ROWS = 128
"""Queries of a head whose results are compared with float64."""

ROUNDOFF = 2.0**-7
ROUNDOFF_E4M3 = 2.0**-5
"""The same where weights are rounded to e4m3: half of 2**-3 relative at most."""

SLACK = 4
"""An error is good up to so many times that of PyTorch."""


def dtype_of(torch: Any, name: str) -> Any:
    """Return a dtype of PyTorch by its name in programs."""
    return {"f32": torch.float32, "bf16": torch.bfloat16}[name]


def inputs_of(torch: Any, case: Case, device: str = "cuda") -> list[Any]:
    """Draw queries, keys and values, and the slopes of heads where the kind has such."""
    of_query, of_key = case.shapes
    dtype = dtype_of(torch, case.result_dtype)
    made = [torch.randn(s, device=device, dtype=dtype) for s in (of_query, of_key, of_key)]
    if case.dtype == "e4m3":
        made = [x.to(torch.float8_e4m3fn) for x in made]
    if case.kind == "document":
        lengths = torch.tensor(documents_of(case.keys), device=device)
        labels = torch.arange(len(lengths), device=device, dtype=torch.int32).repeat_interleave(lengths)
        made.append(labels.expand(case.batch, -1).contiguous())
    if case.kind == "sink":
        made.append(torch.randn(case.heads, device=device))
    if case.kind == "alibi":
        steps = torch.arange(1, case.heads + 1, device=device)
        made.append(torch.exp2(-8.0 * steps / case.heads).float())
    return made


def _exact(torch: Any, case: Case, inputs: Sequence[Any], rows: Any) -> Any:
    """Compute some rows of the first and the last head of the last sequence in float64."""
    q, k, v, *more = inputs
    found: list[Any] = []
    for head in (0, case.heads - 1):
        queries = q[-1, head].reshape(case.groups, case.queries, case.width)[-1, rows].double()
        keys, values = (x[-1, head].reshape(case.keys, case.width).double() for x in (k, v))
        scores = queries @ keys.T / math.sqrt(case.width)
        i, j = rows[:, None], torch.arange(case.keys, device=q.device)[None]
        if case.kind.endswith("softcap"):
            scores = torch.tanh(scores / CAP) * CAP
        if case.kind == "alibi":
            scores = scores + more[0][head].double() * (j - i)
        if case.is_causal:
            scores = scores.masked_fill(j > i, -math.inf)
        if case.kind == "window":
            scores = scores.masked_fill(i - j >= WINDOW, -math.inf)
        if case.kind == "document":
            scores = scores.masked_fill(more[0][-1][i] != more[0][-1][j], -math.inf)
        if case.kind in WRITTEN:
            found.append((scores.sigmoid() if case.kind == "sigmoid" else scores.relu()) @ values)
            continue
        weights = scores.softmax(-1)
        if case.kind == "sink":
            weights = weights * torch.sigmoid(scores.logsumexp(-1) - more[0][head].double())[:, None]
        found.append(weights @ values)
    return torch.stack(found)


def _taken(torch: Any, case: Case, result: Any, rows: Any) -> Any:
    """The rows of a result that `_exact` computes."""
    heads = result[-1].reshape(case.heads, case.groups, case.queries, case.width)
    return torch.stack([heads[h, -1, rows] for h in (0, case.heads - 1)]).double()


def errors_of(torch: Any, case: Case, inputs: Sequence[Any], results: Mapping[str, Any]) -> dict[str, float]:
    """The relative Frobenius distance from float64 of each result, on some of its rows."""
    picked = torch.randperm(case.queries, device=inputs[0].device)[:ROWS]
    rows = torch.cat([picked, torch.tensor([0, case.queries - 1], device=inputs[0].device)])
    exact = _exact(torch, case, inputs, rows)
    size = float(exact.square().sum())
    return {
        name: float((_taken(torch, case, y, rows) - exact).square().sum() / size) ** 0.5
        for name, y in results.items()
    }


def _flat(case: Case, x: Any) -> Any:
    """A tensor with the axes that SDPA takes: sequence, head, row, element."""
    return x.reshape(case.batch, -1, *x.shape[-2:])


def _sdpa(torch: Any, case: Case, inputs: Sequence[Any]) -> dict[str, Call]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    function = torch.nn.functional.scaled_dot_product_attention
    q, k, v = (_flat(case, x).to(dtype_of(torch, case.result_dtype)) for x in inputs[:3])
    options: dict[str, Any] = {"is_causal": case.is_causal}
    if case.groups > 1:
        options["enable_gqa"] = True

    def contender(backend: Any) -> Call:
        def call() -> Any:
            with sdpa_kernel(backend):
                return function(q, k, v, **options)

        return call

    names = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
    }
    return {name: contender(backend) for name, backend in names.items()}


def _flex(torch: Any, case: Case, inputs: Sequence[Any]) -> dict[str, Call]:
    module: Any = importlib.import_module("torch.nn.attention.flex_attention")
    torch._dynamo.reset()
    compiled = torch.compile(module.flex_attention, dynamic=False)
    q, k, v = (_flat(case, x) for x in inputs[:3])
    more = inputs[3:]

    def document(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j <= i) & (more[0][b, i] == more[0][b, j])

    def window(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j <= i) & (i - j < WINDOW)

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return j <= i

    def capped(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return torch.tanh(score / CAP) * CAP

    def biased(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + more[0][h] * (j - i)

    if case.kind == "sink":
        mask = module.create_block_mask(causal, None, None, case.queries, case.keys, "cuda")

        def with_sinks(q: Any, k: Any, v: Any, sink: Any) -> Any:
            y, sums = module.flex_attention(q, k, v, block_mask=mask, return_lse=True)
            return (y * torch.sigmoid(sums - sink[:, None])[..., None]).to(y.dtype)

        whole = torch.compile(with_sinks, dynamic=False)
        return {"flex": lambda: whole(q, k, v, more[0])}
    masks = {"window": window, "alibi": causal, "document": document}
    scores = {"softcap": capped, "paged_softcap": capped, "alibi": biased}
    options: dict[str, Any] = {"enable_gqa": True} if case.groups > 1 else {}
    if (mask := masks.get(case.kind)) is not None:
        batch = case.batch if case.kind == "document" else None
        options["block_mask"] = module.create_block_mask(mask, batch, None, case.queries, case.keys, "cuda")
    if (score := scores.get(case.kind)) is not None:
        options["score_mod"] = score
    return {"flex": lambda: compiled(q, k, v, **options)}


def _written(torch: Any, case: Case, inputs: Sequence[Any]) -> dict[str, Call]:
    torch._dynamo.reset()

    torch.backends.cuda.matmul.allow_tf32 = True
    hidden = torch.ones(case.queries, case.keys, device="cuda", dtype=torch.bool).triu_(1)

    def weighed(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.mT * (1 / math.sqrt(case.width))
        if case.kind == "sigmoid":
            return torch.sigmoid(scores) @ v
        return torch.relu(scores.masked_fill(hidden, -math.inf)) @ v

    compiled = torch.compile(weighed, dynamic=False)
    return {"compiled": lambda: compiled(*inputs)}


def roundoff_of(case: Case) -> float:
    """Return the relative distance from float64 that is always good."""
    return ROUNDOFF_E4M3 if case.dtype == "e4m3" else ROUNDOFF


def given_of(torch: Any, case: Case, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return what the kernel is called with: keys and values as they are, or in pages in a random order."""
    if case.kind not in PAGED:
        return inputs
    pages = case.batch * (case.keys // PAGE)
    order = torch.randperm(pages, device=inputs[0].device)
    pools: list[Any] = []
    for x in inputs[1:3]:
        by_page = x.reshape(case.batch, case.heads, case.keys // PAGE, PAGE, case.width).permute(
            0, 2, 3, 1, 4
        )
        pool = torch.empty(pages, *by_page.shape[2:], device=x.device, dtype=x.dtype)
        # PyTorch indexes no tensors of 8-bit floats.
        bits = torch.uint8 if x.dtype.itemsize == 1 else x.dtype
        pool.view(bits)[order] = by_page.reshape(pages, *by_page.shape[2:]).view(bits)
        pools.append(pool)
    return [inputs[0], *pools, order.reshape(case.batch, -1).to(torch.int32)]


def measure(torch: Any, kernel: Any, case: Case, rounds: int, copy: float) -> Values:
    """One row: errors, times in ms, rates, and the share of a copy's bandwidth of `copy` bytes per second.

    A contender that cannot be run is named in `failed`.
    """
    torch.manual_seed(0)
    if case.is_backward:
        return measure_backward(torch, kernel, case, rounds)
    inputs = inputs_of(torch, case)
    result = torch.full(case.shapes[0], math.nan, device="cuda", dtype=dtype_of(torch, case.result_dtype))
    given = given_of(torch, case, inputs)
    kernel(*given, out=result)
    results, failed = {"mucc": result}, dict[str, str]()
    calls: dict[str, Call] = {"mucc": captured(torch, lambda: kernel(*given, out=result))}
    contenders = _written if case.kind in WRITTEN else _sdpa if case.kind in SDPA else _flex
    libraries = decode_calls(torch, case, given)
    for name, call in (contenders(torch, case, inputs) | libraries).items():
        try:
            results[name] = call()
            calls[name] = captured(torch, call)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:200]
    errors = errors_of(torch, case, inputs, results)
    times = timed(torch, calls, rounds)
    pytorch = [ms for name, ms in times.items() if name not in ("mucc", *libraries)]
    flashinfer = [ms for name, ms in times.items() if name in libraries]
    row: Values = {
        "errors": errors,
        "failed": failed,
        "good": errors["mucc"]
        <= max(roundoff_of(case), *(SLACK * e for n, e in errors.items() if n != "mucc")),
        **{f"{name}_ms": round(ms, 6) for name, ms in times.items()},
        "tflops": case.flops / times["mucc"] * 1e-9,
    }
    if case.is_few:
        row["cache_bytes"] = case.cache_bytes
        row["of_copy"] = case.cache_bytes / times["mucc"] * 1e3 / copy
    if pytorch:
        row["over"] = min(pytorch) / times["mucc"]
    if flashinfer:
        row["over_flashinfer"] = min(flashinfer) / times["mucc"]
    return row
