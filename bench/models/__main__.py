"""Real models, forward in bf16 and three of them backward, against eager PyTorch and torch.compile.

    python -m bench.models [--only REGEX] [--modes default,reduce-overhead,max-autotune] [--warm]

Architectures are those of `transformers` and torchvision with a few layers and random weights; eager PyTorch,
Inductor and mucc run in turns on the same card in the same process. First calls begin with empty caches; a
warm first call finds those of the process full. Errors are from float64.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.common import RESULTS, at_least_one, run_main, versions, write_result
from bench.models.ahead import built_ahead
from bench.models.forms import MODELS, Model
from bench.models.level3 import LEVEL3
from bench.models.measuring import COMPILERS, MODES, Setting, begin, measure
from bench.models.summary import HEAD, figures, is_wrong, lines, merged
from bench.models.together import measured_together
from bench.timing import card, gpu_versions
from mucc.process.alarm import limited


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="models such as gpt2 that match")
    parser.add_argument("--level3", action="store_true", help="networks like KernelBench's level 3")
    parser.add_argument("--all", action="store_true", help="both, with --rows for --record")
    parser.add_argument("--list", action="store_true", help="print the models")
    parser.add_argument("--modes", default=",".join(MODES), help="modes of torch.compile, with commas")
    parser.add_argument("--compilers", default=",".join(COMPILERS), help="inductor, mucc, or both")
    parser.add_argument("--warm", action="store_true", help="also time first calls from full caches")
    parser.add_argument("--margin", type=float, help="option of mucc's backend")
    parser.add_argument("--measure", action="store_true", help="mucc measures regions in every mode")
    parser.add_argument(
        "--verify", action="store_true", help="mucc times graphs with and without it, in every mode"
    )
    parser.add_argument("--background", action="store_true", help="mucc builds kernels in the background")
    parser.add_argument("--first-calls", action="store_true", help="time first calls alone")
    parser.add_argument(
        "--skeletons", type=Path, metavar="DIR", help="a cache of mucc whose skeletons first calls find"
    )
    parser.add_argument("--profiles", type=Path, metavar="DIR", help="write the kernels of contenders there")
    parser.add_argument("--rounds", type=at_least_one, default=20, help="turns of each contender (20)")
    parser.add_argument("--budget-seconds", type=float, default=0.0, metavar="S", help="begin no model later")
    parser.add_argument("--limit-seconds", type=int, default=0, metavar="S", help="give up a model after S")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="mucc's cache: first calls are not cold then"
    )
    parser.add_argument("--gate", type=Path, metavar="DIR", help="wait there between compiling and timing")
    parser.add_argument(
        "--together", type=float, metavar="S", help="compile models at once, time one at a time, within S"
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append each row to a file, as JSON")
    parser.add_argument(
        "--ahead", metavar="CARD", help="build the kernels of mucc into its cache, without a GPU"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="record rows of --rows, measure nothing")
    parser.add_argument(
        "--keep", action="store_true", help="with --record: rows that the result has stay beside new ones"
    )
    parser.add_argument("--no-record", action="store_true", help="write no result file")
    return parser


def main() -> int:
    args, started = _parser().parse_args(), time.monotonic()
    suite = "first_calls" if args.first_calls else "level3" if args.level3 else "models"
    if args.record:
        return _record(args.record, suite, args.keep)
    known = (*MODELS, *LEVEL3) if args.all else LEVEL3 if args.level3 else MODELS
    models = [m for m in known if re.search(args.only, m.key)]
    if not models:
        raise SystemExit(f"no model matches '{args.only}'")
    if args.list:
        print("\n".join(m.key for m in models))
        return 0
    modes, compilers = args.modes.split(","), args.compilers.split(",")
    if unknown := [*(m for m in modes if m not in MODES), *(c for c in compilers if c not in COMPILERS)]:
        raise SystemExit(f"no mode or compiler '{unknown[0]}'")
    if args.together:
        return _together(args.together, [m.key for m in models])
    torch: Any = importlib.import_module("torch")
    setting = _setting(args, modes, compilers)
    if args.ahead:
        return _ahead(torch, models, setting, args.ahead)
    begin(torch, setting)
    print(HEAD, flush=True)
    rows: list[dict[str, Any]] = []
    for model in models:
        if args.budget_seconds and time.monotonic() - started > args.budget_seconds:
            print(f"{model.key}: no time is left")
            continue
        try:
            with _limit(setting.limit):
                row = measure(torch, model, setting)
        except Exception as error:
            row = {"name": model.key, "error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
            if isinstance(error, torch.AcceleratorError):
                rows.append(row)
                print(lines(row), "\nthe GPU cannot be used any more in this process", flush=True)
                break
        rows.append(row)
        print(lines(row), flush=True)
        if args.rows:
            with args.rows.open("a") as file:
                file.write(json.dumps([card(torch), _versions(torch), row]) + "\n")
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
    summary = figures(rows, suite)
    print("".join(f"{name:56} {value:g}\n" for name, value in summary.items()), end="")
    if not args.no_record:
        print(
            write_result(card(torch), suite, rows, summary, extra_versions=_versions(torch), module="models")
        )
    return int(any("gpu_ms" not in r or is_wrong(r) for r in rows))


def _setting(args: argparse.Namespace, modes: Sequence[str], compilers: Sequence[str]) -> Setting:
    """Return how models are measured, from the options of the command."""
    options: dict[str, Any] = {} if args.margin is None else {"margin": args.margin}
    if args.measure:
        options["measure"] = True
    if args.verify:
        options["verify"] = True
    if args.background:
        options["background"] = True
    return Setting(
        modes,
        compilers,
        args.rounds,
        args.warm,
        options,
        args.profiles,
        args.cache,
        args.gate,
        args.first_calls,
        args.limit_seconds,
        args.skeletons,
    )


def _together(seconds: float, keys: Sequence[str]) -> int:
    """Run this command for each model, with all other options; returns 1 if a model was not measured."""
    given = without(sys.argv[1:], "--together", "--only")

    def command(key: str, gate: Path) -> list[str]:
        only = ["--only", f"^{re.escape(key)}$", "--gate", str(gate), "--no-record"]
        return [sys.executable, "-m", "bench.models", *given, *only]

    return int(len(measured_together(command, keys, seconds)) < len(keys))


def without(words: Sequence[str], *options: str) -> list[str]:
    """Drop options with their values from a command line."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name not in options:
            kept.append(word)
        elif not value:
            next(rest, None)
    return kept


def _ahead(torch: Any, models: Sequence[Model], setting: Setting, card: str) -> int:
    """Build kernels for a card into the cache of MUCC_CACHE_DIR; returns 1 if a model cannot be traced."""
    failed = 0
    for model in models:
        started = time.monotonic()
        try:
            with _limit(setting.limit):
                kernels = built_ahead(torch, model, setting, card)
            print(f"{model.key:26} {kernels:3} kernels, {time.monotonic() - started:.1f} s", flush=True)
        except Exception as error:
            failed = 1
            print(f"{model.key:26} {type(error).__name__}: {error}".splitlines()[0][:300], flush=True)
        torch._dynamo.reset()
    return failed


def _versions(torch: Any) -> dict[str, str]:
    return {**gpu_versions(torch), **versions("triton", "transformers", "torchvision")}


def _record(path: Path, suite: str, keeps: bool) -> int:
    """Write the result file of the rows of a suite, measured on one card; later rows add modes.

    With `keeps`, the earliest are those of the result file; `measured_at` says at which commit.
    """
    known = {"level3": LEVEL3, "models": MODELS, "first_calls": (*MODELS, *LEVEL3)}[suite]
    names = {m.key for m in known}
    given = [json.loads(line) for line in path.read_text().splitlines()]
    wants_first_calls = suite == "first_calls"
    found = [
        (card, versions, row)
        for card, versions, row in given
        if row["name"].split(",")[0] in names and ("how" in row) == wants_first_calls
    ]
    if not found:
        raise SystemExit(f"no row of {path} is of {suite}")
    (name, *others), extra = {c for c, _, _ in found}, found[-1][1]
    if others:
        raise SystemExit(f"rows are of several cards: {name} and {others[0]}")
    by_name: dict[str, dict[str, Any]] = {}
    earlier = RESULTS / name / f"{suite}.json"
    if keeps and earlier.exists():
        result = json.loads(earlier.read_text())
        by_name = {r["name"]: {"measured_at": result["commit"], **r} for r in result["rows"]}
        for _, _, row in found:
            by_name.get(row["name"], {}).pop("measured_at", None)
    for _, _, row in found:
        by_name[row["name"]] = merged(by_name.get(row["name"], {}), row)
    rows = list(by_name.values())
    summary = figures(rows, suite)
    print(HEAD, *map(lines, rows), sep="\n")
    print("".join(f"{name:56} {value:g}\n" for name, value in summary.items()), end="")
    print(write_result(name, suite, rows, summary, extra_versions=extra, module="models"))
    return 0


def _limit(seconds: int) -> AbstractContextManager[None]:
    """Raise TimeoutError in what takes longer; 0 is no limit."""
    return limited(seconds, TimeoutError(f"not done after {seconds} s"))


if __name__ == "__main__":
    run_main(main)
