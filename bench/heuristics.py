"""A second opinion on schedules: mucc's cost model against NVIDIA's nvMatmulHeuristics.

    python -m bench.heuristics MEASURED.json...

A measured file holds `{"gpu": ..., "rows": [...]}`; a row is a contraction of bf16 (`m`, `n`, `k`), a
schedule (`mainloop`, `tile`, `cluster`, `scheduler`, `raster`, `swizzle`, `splits`, `exchanged`) and its time
(`us`); rows of `mainloop` "torch" are torch.matmul. For each problem both are asked what to run, of what was
measured: the model by its estimates, NVIDIA's by its order, the first of its answers that was measured.
Needs `pip install nvidia-matmul-heuristics`, but no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench.common import run_main, write_result
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Problem, Schedule

Shape = tuple[int, int, int]

_ALIVE: list[object] = []
"""What must not be taken apart."""

ANSWERS = 16
"""How many recommendations are asked for."""


def recommend(shapes: Sequence[Shape]) -> list[list[dict[str, Any]]]:
    """What nvMatmulHeuristics recommends for bf16 products x @ w.T on an H200, best first.

    Called in a process of its own, which must not end in order: the library crashes when it is taken apart.
    """
    import nvMatmulHeuristics as nv  # pyright: ignore[reportMissingImports]

    library: Any = nv
    flags = library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING
    backend = library.NvMatmulHeuristicsTarget.CUTLASS3
    heuristics = library.NvMatmulHeuristicsInterface(backend, precision="TST", flags=flags)
    _ALIVE.append(heuristics)
    card = heuristics.createHardwareDescriptor()
    heuristics.setHardwarePredefinedGpu(card, library.NvMatmulHeuristicsNvidiaGpu.H200_SXM)
    layout = library.NvMatmulHeuristicsMatmulLayout.NT_ROW_MAJOR
    heuristics.loadInternalDiscoverySet(layout, card)
    return [
        [
            {
                "tile": (x.cta_tile_m, x.cta_tile_n, x.cta_tile_k),
                "cluster": (x.cluster_m, x.cluster_n),
                "splits": x.split_k,
            }
            for x in (found["kernel"] for found in heuristics.get_with_mnk(*shape, layout, ANSWERS, card))
        ]
        for shape in shapes
    ]


def asked(shapes: Sequence[Shape]) -> list[list[dict[str, Any]]]:
    """The recommendations, from a child process."""
    run = subprocess.run(
        [sys.executable, "-m", "bench.heuristics", "--ask"],
        input=json.dumps(shapes),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def schedule_of(row: Mapping[str, Any]) -> Schedule:
    """The schedule of a measured row."""
    return Schedule(
        tuple(row["tile"]),
        tuple(row["cluster"]),
        row["mainloop"],
        row["scheduler"],
        row["raster"],
        row["swizzle"],
        row["splits"],
        exchanged=row.get("exchanged", False),
    )


def matches(row: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Whether a row is a kernel that NVIDIA's heuristics mean.

    They leave the mainloop open: as CUTLASS's generator does, tiles of 128 rows are cooperative, others
    pingpong. Orders of tiles count as one.
    """
    return (
        not row.get("exchanged", False)
        and tuple(row["tile"]) == tuple(answer["tile"])
        and tuple(row["cluster"]) == tuple(answer["cluster"])
        and (row["splits"] if row["scheduler"] == "split_k" else 1) == answer["splits"]
        and row["scheduler"] != "stream_k"
        and row["mainloop"] == ("cooperative" if answer["tile"][0] >= 128 else "pingpong")
    )


def compare(shape: Shape, rows: Sequence[Mapping[str, Any]], answers: Iterable[Any]) -> dict[str, object]:
    """One problem: what was best, what each recommends, and what that took."""
    target = gemm_target("sm_90a")
    problem = Problem("bf16", m=shape[0], n=shape[1], k=shape[2], batch=1)
    own = [r for r in rows if r["mainloop"] != "torch"]
    best = min(own, key=lambda r: r["us"])
    model = min(own, key=lambda r: target.estimate(problem, schedule_of(r)).seconds)
    theirs, place = None, None
    for i, answer in enumerate(answers):
        if found := [r for r in own if matches(r, answer)]:
            theirs, place = min(found, key=lambda r: r["us"]), i
            break
    result: dict[str, object] = {
        "shape": "x".join(map(str, shape)),
        "measured": len(own),
        "best": _text(best),
        "best_us": best["us"],
        "model": _text(model),
        "model_us": model["us"],
        "nvidia": _text(theirs) if theirs else None,
        "nvidia_us": theirs["us"] if theirs else None,
        "nvidia_answer": place,
    }
    if torch := [r["us"] for r in rows if r["mainloop"] == "torch"]:
        result["torch_us"] = torch[0]
    return result


def _text(row: Mapping[str, Any]) -> str:
    words = ["x".join(map(str, row["tile"])), "x".join(map(str, row["cluster"])), row["mainloop"]]
    scheduler = row["scheduler"]
    words.append(f"{scheduler}({row['splits']})" if scheduler == "split_k" else scheduler)
    return " ".join([*words, *(["exchanged"] if row.get("exchanged") else [])])


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Speeds relative to the best measured, and who is faster by more than 2 %."""
    both = [r for r in rows if r["nvidia_us"] is not None]
    ratio = [r["nvidia_us"] / r["model_us"] for r in both]
    return {
        "heuristics.problems": len(rows),
        "heuristics.model_over_best_geomean": geometric_mean([r["best_us"] / r["model_us"] for r in rows]),
        "heuristics.model_over_best_min": min(r["best_us"] / r["model_us"] for r in rows),
        "heuristics.problems_with_nvidia": len(both),
        "heuristics.nvidia_over_best_geomean": geometric_mean([r["best_us"] / r["nvidia_us"] for r in both]),
        "heuristics.nvidia_over_best_min": min(r["best_us"] / r["nvidia_us"] for r in both),
        "heuristics.model_over_nvidia_geomean": geometric_mean(ratio),
        "heuristics.model_wins": sum(r > 1.02 for r in ratio),
        "heuristics.nvidia_wins": sum(r < 1 / 1.02 for r in ratio),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="measured rows")
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        answers = recommend([tuple(shape) for shape in json.load(sys.stdin)])
        sys.stdout.write(json.dumps(answers))
        sys.stdout.flush()
        os._exit(0)
    groups: dict[Shape, list[Mapping[str, Any]]] = defaultdict(list)
    for file in args.files:
        for row in json.loads(file.read_text())["rows"]:
            if row.get("kind", "bf16") == "bf16":
                groups[row["m"], row["n"], row["k"]].append(row)
    answers = asked(list(groups))
    rows = [
        compare(shape, found, given) for (shape, found), given in zip(groups.items(), answers, strict=True)
    ]
    for row in rows:
        print(*(f"{row[name]}" for name in ("shape", "best_us", "model_us", "nvidia_us", "model", "nvidia")))
    summary = summarise(rows)
    print(json.dumps(summary, indent=1))
    print(write_result("h200", "heuristics", rows, summary))


if __name__ == "__main__":
    run_main(main)
