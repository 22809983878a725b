"""Gradients of attention: the programs, their inputs, and the backward kernels of SDPA's backends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.gemm.measure import captured, timed

if TYPE_CHECKING:
    from bench.attention.cases import Case

Values = dict[str, Any]
Call = Callable[[], Any]

ROUNDOFF = 2.0**-7
SLACK = 1.5
"""An error is good up to so many times that of PyTorch's best kernel, or up to ROUNDOFF."""

HEADS = 4
"""The most heads whose gradients are compared with float64 at a time."""


def text_of(case: Case) -> str:
    """Return the program: gradients of queries, keys and values."""
    lead, shared = ("B, H, G", "B, H, 1") if case.is_grouped else ("B, H", "B, H")
    of_query, of_key = f"bf16[{lead}, S, {case.width}]", f"bf16[{shared}, T, {case.width}]"
    options = ", causal=on" if case.is_causal else ""
    gradients = ", ".join(f"attention_d{x}(q, k, v, y, l, dy{options})" for x in "qkv")
    return "\n".join(
        [
            f"kernel {case.kernel}[{lead}, S, T](",
            f"    q: {of_query}, k: {of_key}, v: {of_key}, y: {of_query}, l: f32[{lead}, S], dy: {of_query}",
            f") -> (dq: {of_query}, dk: {of_key}, dv: {of_key}) {{",
            f"    return {gradients}",
            "}",
            "",
        ]
    )


def reference(torch: Any, case: Case, inputs: Sequence[Any]) -> tuple[Any, Any]:
    """Return the result and the log-sum-exp of attention, computed in f32 head by head."""
    q, k, v = inputs
    result, sums = torch.empty_like(q), torch.empty(q.shape[:-1], device=q.device)
    for b, h in _heads(case):
        for n, (queries, keys, values) in enumerate(_by_query(case, (q[b, h], k[b, h], v[b, h]))):
            scores = _scores(torch, case, queries.float(), keys.float())
            _by_query(case, (sums[b, h],))[n][0].copy_(scores.logsumexp(-1))
            _by_query(case, (result[b, h],))[n][0].copy_(scores.softmax(-1) @ values.float())
    return result, sums


def _scores(torch: Any, case: Case, queries: Any, keys: Any) -> Any:
    scores = queries @ keys.mT / math.sqrt(case.width)
    if case.is_causal:
        hidden = torch.ones(case.queries, case.keys, device=queries.device, dtype=torch.bool).triu_(1)
        scores.masked_fill_(hidden, -math.inf)
    return scores


def _by_query(case: Case, tensors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return tensors of each head of queries that shares a head of keys."""
    if not case.is_grouped:
        return [tuple(tensors)]
    return [tuple(x[n if x.shape[0] > 1 else 0] for x in tensors) for n in range(case.groups)]


def _heads(case: Case) -> Iterator[tuple[int, int]]:
    return ((b, h) for b in range(case.batch) for h in range(case.heads))


def exact(torch: Any, case: Case, inputs: Sequence[Any], dy: Any, head: tuple[int, int]) -> list[Any]:
    """Return the gradients of one head of keys in float64."""
    of_queries: list[Any] = []
    of_keys: list[Any] = [0.0, 0.0]
    for queries, keys, values, gradient in _by_query(case, [x[head].double() for x in (*inputs, dy)]):
        weights = _scores(torch, case, queries, keys).softmax(-1)
        products = gradient @ values.mT
        of_keys[1] = of_keys[1] + weights.mT @ gradient
        changes = weights * (products - (weights * products).sum(-1, keepdim=True))
        changes /= math.sqrt(case.width)
        of_queries.append(changes @ keys)
        of_keys[0] = of_keys[0] + changes.mT @ queries
    shape = inputs[0][head].shape
    return [torch.stack(of_queries).reshape(shape), *(x.reshape(inputs[1][head].shape) for x in of_keys)]


def errors_of(
    torch: Any, case: Case, inputs: Sequence[Any], dy: Any, results: Mapping[str, Sequence[Any]]
) -> dict[str, float]:
    """Return the largest relative Frobenius distance of the three gradients from float64, on some heads."""
    heads = list(_heads(case))
    most = max(1, min(HEADS, (1 << 28) // (case.groups * case.queries * case.keys)))
    picked: list[tuple[int, int]] = [heads[n] for n in torch.randperm(len(heads))[:most].tolist()]
    found = dict.fromkeys(results, 0.0)
    for head in picked:
        expected = exact(torch, case, inputs, dy, head)
        for name, gradients in results.items():
            for own, other in zip(gradients, expected, strict=True):
                distance = float((own[head].double() - other).norm() / other.norm())
                found[name] = max(found[name], distance)
    return found


def _flat(case: Case, x: Any) -> Any:
    return x.reshape(case.batch, -1, *x.shape[-2:])


def rivals(torch: Any, case: Case, inputs: Sequence[Any], dy: Any) -> dict[str, Callable[[], Call]]:
    """Return what prepares a call of each backend's backward kernels."""
    aten = torch.ops.aten
    q, k, v, gradient = (_flat(case, x) for x in (*inputs, dy))

    def flash() -> Call:
        y, sums, *more, state, unused, _ = aten._scaled_dot_product_flash_attention(
            q, k, v, 0.0, case.is_causal
        )
        given = (gradient, q, k, v, y, sums, *more, 0.0, case.is_causal, state, unused)
        return lambda: aten._scaled_dot_product_flash_attention_backward(*given)

    def cudnn() -> Call:
        y, sums, *more, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, case.is_causal
        )
        given = (gradient, q, k, v, y, sums, seed, offset, None, *more, 0.0, case.is_causal)
        return lambda: aten._scaled_dot_product_cudnn_attention_backward(*given)

    return {"flash": flash, "cudnn": cudnn}


def measure_backward(torch: Any, kernel: Any, case: Case, rounds: int) -> Values:
    """Return one row: errors of gradients, times in ms, and rates; backends that cannot be run are named."""
    of_query, of_key = case.shapes
    inputs = [torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in (of_query, of_key, of_key)]
    dy = torch.randn(of_query, device="cuda", dtype=torch.bfloat16)
    y, sums = reference(torch, case, inputs)
    outputs = tuple(torch.full_like(x, math.nan) for x in inputs)
    own = lambda: kernel(*inputs, y, sums, dy, out=outputs)  # noqa: E731
    own()
    results: dict[str, Sequence[Any]] = {"mucc": [x.clone() for x in outputs]}
    calls: dict[str, Call] = {"mucc": captured(torch, own)}
    failed = dict[str, str]()
    for name, prepare in rivals(torch, case, inputs, dy).items():
        try:
            call = prepare()
            shapes = [x.shape for x in inputs]
            results[name] = [x.reshape(s) for x, s in zip(call(), shapes, strict=True)]
            calls[name] = captured(torch, call)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:200]
    errors = errors_of(torch, case, inputs, dy, results)
    times = timed(torch, calls, rounds)
    theirs = {name: ms for name, ms in times.items() if name != "mucc"}
    best = min((e for name, e in errors.items() if name != "mucc"), default=0.0)
    row: Values = {
        "errors": errors,
        "failed": failed,
        "good": errors["mucc"] <= max(ROUNDOFF, SLACK * best),
        **{f"{name}_ms": round(ms, 6) for name, ms in times.items()},
        "tflops": 2.5 * case.flops / times["mucc"] * 1e-9,
    }
    if theirs:
        row["over"] = min(theirs.values()) / times["mucc"]
    return row
