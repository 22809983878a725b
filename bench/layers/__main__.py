"""Layers of networks, single ones, with a product, and parts of transformers, against PyTorch and a copy.

    python -m bench.layers [--only REGEX] [--build-only | --measure-only] [--budget-seconds S] [-o WORK]

Programs are built first, on any machine (`--build-only`); WORK holds their libraries, which `--measure-only`
takes as they are. Layers that are measured already are not measured again, so a run that was ended goes on,
and one that is limited in time is continued by the next. All contenders of a layer are timed in turns as
CUDA graphs, on the same tensors, from a cold L2; the error is that from float64. Shares of a copy's bandwidth
count compulsory bytes: all inputs and outputs once. torch.compile multiplies f32 in tf32, as mucc does.
"""

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common import at_least_one, run_main, versions, write_result
from bench.kernelbench.building import build_all
from bench.kernelbench.records import Records
from bench.layers import blocks, level1, level2, pools
from bench.layers.forms import Form
from bench.layers.measuring import Values, measure
from bench.layers.rivals import DISTRIBUTIONS
from bench.layers.summary import HEAD, figures, line
from bench.timing import card, gpu_versions
from mucc.files.digest import digest

FORMS: tuple[Form, ...] = (*level1.FORMS, *level2.FORMS, *blocks.FORMS, *pools.FORMS)


@dataclass(frozen=True)
class Options:
    """The target of libraries, the number of jobs at a time, and the time limit of each in seconds."""

    target: str
    jobs: int
    time_limit: float


def paths_of(form: Form, folder: Path) -> tuple[Path, Path]:
    """Return where a form's program and its library lie."""
    stem = folder / form.group / form.name
    return stem.with_suffix(".mcu"), stem.with_suffix(".so")


def build_forms(forms: Sequence[Form], folder: Path, options: Options) -> dict[str, str]:
    """Build the library of each form; the errors of those that cannot be built, by key."""
    places = {paths_of(form, folder)[0]: form for form in forms}
    for path, form in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(form.text)
    failed: dict[str, str] = {}
    started = time.monotonic()
    for n, (path, values) in enumerate(build_all(list(places), options), 1):
        form = places[path]
        if not values["built"]:
            failed[form.key] = values["error"]
            paths_of(form, folder)[1].unlink(missing_ok=True)
        word = "from the cache" if values.get("cached") else values.get("error", "built")
        print(f"{n:4}/{len(places)} {time.monotonic() - started:6.0f} s  {form.key}: {word}", flush=True)
    return failed


def loaded(form: Form, folder: Path) -> tuple[Any, str]:
    """Return a form's kernel, and a digest of its library. Raises ValueError where the library is not there.

    A library of an older program counts as missing.
    """
    import mucc

    source, library = paths_of(form, folder)
    if not library.exists() or not source.exists() or source.read_text() != form.text:
        raise ValueError("there is no library of it: it is built with --build-only")
    return getattr(mucc.load(library), form.kernel), digest(library.read_bytes().hex())


class Run:
    """Layers measured on this GPU, with records that the next run goes on from."""

    def __init__(self, folder: Path, compiled: Sequence[str], rounds: int):
        from bench.gemm.measure import copy_bandwidth

        self.folder, self.compiled, self.rounds = folder, compiled, rounds
        self.torch: Any = importlib.import_module("torch")
        self.records = Records(folder / f"layers.{card(self.torch)}.jsonl")
        self.copy = copy_bandwidth(self.torch)

    def row(self, form: Form, *, again: bool) -> Values:
        """Return the row of a form, measured now or before."""
        head: Values = {"group": form.group, "name": form.name, "has_product": form.has_product}
        try:
            kernel, library = loaded(form, self.folder)
            depends = digest(library, form.text, ",".join(self.compiled), self.torch.__version__)
            if not again and (known := self.records.find(form.key, "layer", depends)) is not None:
                return head | known
            values = measure(self.torch, kernel, form, self.compiled, self.rounds, self.copy)
        except self.torch.OutOfMemoryError:
            return head | {"error": "the GPU's memory is too small"}
        except (ValueError, RuntimeError, TypeError) as error:
            return head | {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:300]}
        finally:
            self.torch.cuda.empty_cache()
        self.records.add(form.key, "layer", depends, values)
        return head | values


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.layers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="layers such as level1/softmax that match"
    )
    parser.add_argument("-o", "--output", default="build/layers", metavar="WORK", help="folder of libraries")
    stages = parser.add_mutually_exclusive_group()
    stages.add_argument("--build-only", action="store_true", help="measure nothing; needs no GPU")
    stages.add_argument("--measure-only", action="store_true", help="take libraries as they are")
    stages.add_argument("--list", action="store_true", help="print the programs")
    parser.add_argument("--budget-seconds", type=float, default=0.0, metavar="S", help="begin no layer later")
    parser.add_argument("--autotune", action="store_true", help="also torch.compile with max-autotune")
    parser.add_argument("--no-compile", action="store_true", help="no torch.compile")
    parser.add_argument("--again", action="store_true", help="measure again what is measured")
    parser.add_argument("--no-record", action="store_true", help="write no result file")
    parser.add_argument("--rounds", type=at_least_one, default=30, help="turns of each contender (30)")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=1, help="compilers at once")
    parser.add_argument("--time-limit", type=float, default=600.0, metavar="S", help="to build a layer (600)")
    args = parser.parse_args()
    started, folder = time.monotonic(), Path(args.output)
    forms = [form for form in FORMS if re.search(args.only, form.key)]
    if not forms:
        raise SystemExit(f"no layer matches '{args.only}'")
    if args.list:
        print("\n".join(f"// {form.key}\n{form.text}" for form in forms))
        return 0
    failed: dict[str, str] = {}
    if not args.measure_only:
        failed = build_forms(forms, folder, Options(args.target, args.jobs, args.time_limit))
    if args.build_only:
        return int(bool(failed))
    compiled = () if args.no_compile else ("compile", *(["autotune"] if args.autotune else []))
    run = Run(folder, compiled, args.rounds)
    print(f"a copy moves {run.copy / 1e12:.3f} TB/s\n{HEAD}", flush=True)
    rows: list[Values] = []
    left: list[str] = []
    for form in forms:
        if args.budget_seconds and time.monotonic() - started > args.budget_seconds:
            left.append(form.key)
            continue
        row = run.row(form, again=args.again)
        if "mucc_ms" not in row and form.key in failed:
            row["error"] = failed[form.key]
        rows.append(row)
        print(line(row), flush=True)
    summary = figures(rows) | {"layers.copy_tb_per_s": round(run.copy / 1e12, 4)}
    print("".join(f"{name:56} {value:g}\n" for name, value in summary.items()), end="")
    if left:
        print(f"{len(left)} layers are left for the next run, the first of them {left[0]}")
    if not args.no_record:
        found = {**gpu_versions(run.torch), **versions("triton", *DISTRIBUTIONS)}
        print(write_result(card(run.torch), "layers", rows, summary, extra_versions=found))
    return int(any("mucc_ms" not in row or not row["good"] for row in rows))


if __name__ == "__main__":
    run_main(main)
