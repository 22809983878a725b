"""Attention against the best backend of SDPA, FlexAttention where SDPA has none, and a copy of the cache.

    python -m bench.attention [--only REGEX] [--build-only | --measure-only] [--budget-seconds S] [-o WORK]

All contenders of a call are timed in turns as CUDA graphs, on the same tensors, from a cold L2. FlexAttention
is compiled. One query of each head is held against a copy's bandwidth, on the bytes of keys and values, and
against FlashInfer where that is installed (`pip install flashinfer-python`; it compiles its kernels when they
are first called). Errors are those from float64 on some rows. Numbers are bf16. Options are those of
bench/runner.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.attention.cases import CASES, FLEX, PAGED, WRITTEN, Case
from bench.attention.flashinfer import DISTRIBUTION
from bench.attention.measuring import measure
from bench.common import run_main
from bench.runner import Bench, Row, Session, Values, parser_of, run_bench
from mucc.agent.report.figures import geomean

NARROW, FEW_NARROW = ("full_e4m3", "causal_e4m3"), ("decode_e4m3", "paged_e4m3")

LARGE = 64 << 20
"""Bytes of a cache above which reading it is held against a copy: less stays in L2."""


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Geometric means and the least of good rows, over SDPA, over FlexAttention, and of a copy."""
    good = [row for row in rows if row.get("good")]
    found: dict[str, float] = {
        "attention.calls": len(rows),
        "attention.wrong": sum("mucc_ms" in row and not row["good"] for row in rows),
        "attention.not_measured": sum("mucc_ms" not in row for row in rows),
    }
    parts = {
        "over_best_sdpa": [r["over"] for r in good if "over" in r and r["kind"] in ("full", "causal", "gqa")],
        "over_flex": [
            r["over"] for r in good if "over" in r and r["kind"] in FLEX and r["kind"] not in PAGED
        ],
        "paged_over_flex": [r["over"] for r in good if "over" in r and r["kind"] == "paged_softcap"],
        "decode_over_sdpa": [r["over"] for r in good if "over" in r and r["kind"] == "decode"],
        "over_written": [r["over"] for r in good if "over" in r and r["kind"] in WRITTEN],
        "f32_over_sdpa": [r["over"] for r in good if "over" in r and r["kind"] in ("full_f32", "causal_f32")],
        "e4m3_over_sdpa": [r["over"] for r in good if "over" in r and r["kind"] in NARROW],
        "few_e4m3_over_sdpa": [r["over"] for r in good if "over" in r and r["kind"] in FEW_NARROW],
        "few_over_flashinfer": [r["over_flashinfer"] for r in good if "over_flashinfer" in r],
        "paged_over_sdpa": [r["over"] for r in good if "over" in r and r["kind"] == "paged"],
        "backward_over_sdpa": [r["over"] for r in good if "over" in r and r["kind"].startswith("backward")],
        "decode_over_copy": [
            r["of_copy"] for r in good if r.get("cache_bytes", 0) > LARGE and r["kind"] not in FEW_NARROW
        ],
        "few_e4m3_over_copy": [
            r["of_copy"] for r in good if r.get("cache_bytes", 0) > LARGE and r["kind"] in FEW_NARROW
        ],
    }
    for name, values in parts.items():
        if values:
            found[f"attention.{name}_geomean"] = round(geomean(values), 4)
            found[f"attention.{name}_min"] = round(min(values), 4)
    return found


def line(row: Mapping[str, Any]) -> str:
    """A row of the table; of a call that has no times, why."""
    if "mucc_ms" not in row:
        return f"{row['call']:36} {row.get('error', 'not measured')}"
    times = "  ".join(f"{n[:-3]} {v:.4f}" for n, v in row.items() if n.endswith("_ms"))
    share = f"copy {row['of_copy']:.2f}" if "of_copy" in row else f"{row['tflops']:6.1f} TFLOP/s"
    over = f"{row['over']:.3f}" if "over" in row else "-"
    if "over_flashinfer" in row:
        over += f" (FlashInfer {row['over_flashinfer']:.3f})"
    word = "" if row["good"] else "  WRONG"
    return f"{row['call']:36} {share}  over {over}  ms: {times}  error {row['errors']['mucc']:.1e}{word}"


class Attention(Bench[Case]):
    """Calls of kernels whose extents are open but for those of a head."""

    name, noun, example = "attention", "call", "causal/d128"
    width = 44
    problems = CASES
    distributions = ("triton", DISTRIBUTION)

    def begin(self, problem: Case) -> Values:
        return {"call": problem.key, "kind": problem.kind}

    def measure(self, session: Session, kernel: Any, problem: Case) -> Values:
        return measure(session.torch, kernel, problem, session.rounds, session.copy)

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        return figures(rows)

    def line(self, row: Row) -> str:
        return line(row)

    def listed(self, problem: Case) -> str:
        return problem.key


def main() -> int:
    bench = Attention()
    return run_bench(bench, parser_of(bench, __doc__).parse_args())


if __name__ == "__main__":
    run_main(main)
