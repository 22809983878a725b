"""FlashInfer's kernels for one query of each head, where that library is installed.

Its wrapper of batches reads keys and values in pages: those of a paged case as they lie, those of any other
case as one page for each sequence.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from bench.attention.cases import PAGE, Case

Call = Callable[[], Any]

KINDS = ("decode", "paged")
"""What it is measured for: operands of 16 bits."""

CONTENDERS: dict[str, dict[str, Any]] = {
    "flashinfer": {"use_tensor_cores": False},
    "flashinfer_fa2": {"use_tensor_cores": True, "backend": "fa2"},
    "flashinfer_fa3": {"use_tensor_cores": True, "backend": "fa3"},
}
"""Arguments of the wrapper: kernels without tensor cores, and those for prefill."""

DISTRIBUTION = "flashinfer-python"

WORKSPACE = 512 << 20
"""Bytes for partial results of divided keys; the library recommends 128 MB for common sizes."""


def decode_calls(torch: Any, case: Case, given: Sequence[Any]) -> dict[str, Call]:
    """Return a call of each contender on the kernel's own operands (see `measuring.given_of`).

    Results have the shape of the kernel's. A contender is planned by its first call, so that one which cannot
    run fails alone. There are none where FlashInfer is not installed.
    """
    if case.kind not in KINDS:
        return {}
    try:
        wrapper = importlib.import_module("flashinfer").BatchDecodeWithPagedKVCacheWrapper
    except ImportError:
        return {}

    def contender(options: dict[str, Any]) -> Call:
        planned: list[Call] = []

        def call() -> Any:
            if not planned:
                planned.append(_planned(torch, wrapper, options, case, given))
            return planned[0]()

        return call

    return {name: contender(options) for name, options in CONTENDERS.items()}


def _planned(torch: Any, wrapper: Any, options: dict[str, Any], case: Case, given: Sequence[Any]) -> Call:
    q, k, v = given[:3]
    device, batch = q.device, case.batch
    if case.kind == "paged":
        layout, page, order = "NHD", PAGE, given[3].reshape(-1)
    else:
        layout, page, order = "HND", case.keys, torch.arange(batch, device=device, dtype=torch.int32)
        k, v = (x.reshape(batch, case.heads, case.keys, case.width) for x in (k, v))
    ends = torch.arange(batch + 1, dtype=torch.int32) * (case.keys // page)
    full = torch.full((batch,), page, dtype=torch.int32)
    heads = case.heads * case.groups
    rows = q.reshape(batch, heads, case.width)
    attention = wrapper(torch.zeros(WORKSPACE, dtype=torch.uint8, device=device), layout, **options)
    attention.plan(
        *(ends, order, full, heads, case.heads, case.width, page),
        q_data_type=q.dtype,
        kv_data_type=k.dtype,
    )
    return lambda: attention.run(rows, (k, v)).reshape(case.shapes[0])
