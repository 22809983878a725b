"""How FlashInfer is called: a stand-in for its wrapper reads pages as its documentation says."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bench.attention.cases import Case
from bench.attention.flashinfer import CONTENDERS, WORKSPACE, decode_calls
from bench.attention.measuring import errors_of, given_of, inputs_of

torch = pytest.importorskip("torch")


class Wrapper:
    """Attention over pages of keys: `indices[indptr[b]:indptr[b + 1]]` are the pages of sequence b."""

    def __init__(self, workspace: Any, kv_layout: str, **options: Any) -> None:
        assert not workspace.any()
        self.layout, self.options = kv_layout, options

    def plan(
        self,
        indptr: Any,
        indices: Any,
        last_page_len: Any,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        **dtypes: Any,
    ) -> None:
        if self.options.get("backend") == "fa3":
            raise RuntimeError("needs Hopper")
        assert {indptr.dtype, indices.dtype, last_page_len.dtype} == {torch.int32}
        self.ends, self.pages, self.last = indptr.tolist(), indices.tolist(), last_page_len.tolist()
        self.heads, self.page, self.dtypes = (num_qo_heads, num_kv_heads, head_dim), page_size, dtypes

    def run(self, q: Any, cache: tuple[Any, Any]) -> Any:
        rows, heads, width = self.heads
        assert q.shape[1:] == (rows, width) and self.dtypes == {
            "q_data_type": q.dtype,
            "kv_data_type": q.dtype,
        }
        results: list[Any] = []
        for b, (first, end) in enumerate(zip(self.ends, self.ends[1:], strict=False)):
            keys, values = (self._keys(x, self.pages[first:end], self.last[b]) for x in cache)
            assert keys.shape[0] == heads
            keys, values = (x.repeat_interleave(rows // heads, 0).double() for x in (keys, values))
            scores = (keys @ q[b].double()[..., None]).squeeze(-1) / width**0.5
            results.append((scores.softmax(-1)[:, None] @ values).squeeze(1).to(q.dtype))
        return torch.stack(results)

    def _keys(self, pool: Any, pages: list[int], last: int) -> Any:
        each = [pool[p] if self.layout == "HND" else pool[p].transpose(0, 1) for p in pages]
        assert {x.shape[1] for x in each} == {self.page}
        return torch.cat([*each[:-1], each[-1][:, :last]], 1)


@pytest.mark.parametrize("case", [Case("decode", 64, 3, 2, 4, 1, 192), Case("paged", 64, 3, 2, 4, 1, 192)])
def test_the_library_reads_the_kernels_operands(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "flashinfer", SimpleNamespace(BatchDecodeWithPagedKVCacheWrapper=Wrapper)
    )
    monkeypatch.setattr("bench.attention.flashinfer.WORKSPACE", WORKSPACE >> 12)
    torch.manual_seed(0)
    inputs = inputs_of(torch, case, "cpu")
    calls = decode_calls(torch, case, given_of(torch, case, inputs))
    assert calls.keys() == CONTENDERS.keys()
    with pytest.raises(RuntimeError, match="needs Hopper"):
        calls.pop("flashinfer_fa3")()
    results = {name: call() for name, call in calls.items()}
    assert {y.shape for y in results.values()} == {case.shapes[0]}
    assert all(e < 0.01 for e in errors_of(torch, case, inputs, results).values())


def test_there_is_nothing_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    assert decode_calls(torch, Case("decode", 64, 3, 2, 4, 1, 192), []) == {}
    assert decode_calls(torch, Case("causal", 64, 3, 2, 1, 192, 192), []) == {}
