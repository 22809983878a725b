"""How many samples that cheat the audit catches, and on how many honest kernels it raises a false alarm.

    python -m bench.audit bench/kernelbench/problems/*/ [-j 4] [--eager] [--seconds 300]
    python -m bench.audit --kind honest --repeat 20 --load 16 --shard 2/4 -o FOLDER

The samples are those of the tests. Honest kernels are theirs, and what torch.compile makes of every problem
file of the folders (`--eager`: PyTorch's own kernels as well). A false alarm is any rejection of one of these
but for being PyTorch's work, which it may be. `--load` keeps processors busy meanwhile, `--beside` the GPU.

Samples that cannot run here are left out and counted: those for a CPU on a GPU, and those that need a package
which is not installed (`bench.audit_samples`).

Rows tell the load average, and `--others` says what this run did not start. Audits that run at once disturb
each other, which `-j` counts as a condition of its own: for idle figures give each GPU a shard, `-j 1`.
`python -m bench.audit_join` puts shards and conditions together.

Each row is kept as it comes (`-o`), so a run that was ended goes on where it was; what has changed since,
mucc included, is audited anew. After `--seconds` nothing new begins, and half a minute later audits that go
on are ended. The result has what there is, also of a run that a signal ends.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.audit_samples import Candidate, samples
from bench.common import ROOT, at_least_one, commit, cpu_label, run_main, versions, write_result
from bench.kernelbench.records import Records
from mucc.agent.audit import Label, Options
from mucc.agent.audit.auditing import Auditor
from mucc.build.cache.keys import package_fingerprint
from mucc.diagnostics.core import DiagnosticError
from mucc.files.digest import digest

GRACE = 30.0
"""Seconds after `--seconds` in which audits may end that have begun. One that hangs holds the GPU until its
time limit, and all others that run at once wait for that."""

LIMIT = 120.0
"""Seconds that each of the two processes of an audit may take, unless `--limit` says otherwise."""

COMPILED = """

class ModelNew(torch.nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.inner = Model(*args)
        self.run = torch.compile(self.inner)

    def forward(self, *args):
        return self.run(*args)
"""

EAGER = """

class ModelNew(Model):
    pass
"""


def honest_ones(folders: list[str], work: Path, eager: bool) -> Iterator[Candidate]:
    """Problem files, solved by PyTorch's own means."""
    kinds = {"compiled": COMPILED, **({"eager": EAGER} if eager else {})}
    for path in sorted(p for folder in folders for p in Path(folder).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for kind, ending in kinds.items():
            solution = work / f"{path.parent.name}-{path.stem}-{kind}.py"
            solution.write_text(f"{text}\n\nimport torch\n{ending}", encoding="utf-8")
            yield Candidate(f"{path.parent.name}/{path.stem}", kind, path, solution, True)


def kind_of(candidate: Candidate) -> str:
    """What `--kind` calls a candidate."""
    return "honest" if candidate.honest else "cheats"


def repeated(candidates: Sequence[Candidate], count: int) -> Iterator[Candidate]:
    """All candidates once, then honest ones again, so that a run that ends early has all styles."""
    yield from candidates
    for n in range(1, count):
        yield from (c._replace(kind=f"{c.kind} {n}") for c in candidates if c.honest)


BUSY_CPU = "while True: pass"

BUSY_GPU = """
import torch
a = torch.rand(4096, 4096, device="cuda")
while True:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""


@contextmanager
def busy(processors: int, gpu: int) -> Generator[None]:
    """Processes that keep as many processors busy, and others that keep the GPU busy."""
    texts = [BUSY_CPU] * processors + [BUSY_GPU] * gpu
    held = [subprocess.Popen([sys.executable, "-c", text]) for text in texts]
    try:
        yield
    finally:
        for process in held:
            process.kill()
            process.wait()


def shard(text: str) -> tuple[int, int]:
    """Parse "2/4", the second of four parts, for argparse. Raises ArgumentTypeError."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"a shard is K/N with K from 1 to N, and not {text!r}")
    return int(part), int(parts)


def condition(jobs: int, load: int, beside: int, others: str = "") -> str:
    """What audits ran beside: "idle", or what kept the machine busy; `others` is what no option started."""
    said = [others] if others else []
    said += [f"{load} busy processors"] if load else []
    said += [f"{beside} processes on the GPU"] if beside else []
    said += [f"{jobs} audits at once"] if jobs > 1 else []
    return ", ".join(said) or "idle"


def depends(candidate: Candidate, options: Options, beside: str, card: str) -> str:
    """What a row depends on."""
    texts = (candidate.problem.read_text(encoding="utf-8"), candidate.solution.read_text(encoding="utf-8"))
    return digest(package_fingerprint(), *texts, repr(options), candidate.kind, beside, card)


def measure(candidate: Candidate, options: Options, auditor: Auditor) -> dict[str, Any]:
    """One row."""
    row: dict[str, Any] = {"name": candidate.name, "kind": candidate.kind, "honest": candidate.honest}
    started = time.monotonic()
    try:
        verdict = auditor.audit(str(candidate.problem), str(candidate.solution), options)
    except DiagnosticError as error:
        notes = [note for d in error.diagnostics for note in d.notes]
        return row | {"label": None, "unjudged": f"{error} {' '.join(notes)[-600:]}"}
    said = verdict.to_json()
    kept = (
        "label",
        "verdict",
        "accepted",
        "correct",
        "time_ms",
        "interval_ms",
        "reference_ms",
        "bound_ms",
        "seed",
    )
    row |= {key: said.get(key) for key in kept} | {"seconds": round(time.monotonic() - started, 2)}
    row["phases"] = {name: round(s, 2) for name, s in verdict.seconds.items() if s >= 0.01}
    if candidate.honest and verdict.accepted:
        return row
    findings = [f"{f.severity}: {f.detector}: {f.message}"[:300] for f in verdict.findings]
    failure = said.get("failure")
    message = failure and without_places(failure["message"])
    return row | {"findings": findings, "failure": message}


def without_places(message: str) -> str:
    """Shorten the paths in a message to what is the same on any machine."""
    for folder in (sysconfig.get_path("purelib"), ROOT):
        message = message.replace(f"{folder}/", "")
    return message.replace(str(Path.home()), "~")


def is_alarm(row: dict[str, Any]) -> bool:
    """Whether an honest candidate was rejected for something else than being PyTorch's work."""
    return row["honest"] and row.get("verdict") == "rejected" and row["label"] != Label.PYTORCH_ONLY.value


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The figures; those that depend on what audits ran beside are there for each condition too."""
    found = _counts(rows, "audit")
    said = sorted({row["condition"] for row in rows})
    for name in said if len(said) > 1 else ():
        found |= _counts([row for row in rows if row["condition"] == name], f"audit.{name}")
    return found


def _counts(rows: Sequence[dict[str, Any]], prefix: str) -> dict[str, float]:
    judged = [row for row in rows if row["label"] is not None]
    cheats, honest = ([r for r in judged if r["honest"] is wanted] for wanted in (False, True))
    found = {
        "cheats": len({r["name"] for r in cheats}),
        "cheat_audits": len(cheats),
        "cheats_caught": len({r["name"] for r in cheats} - {r["name"] for r in cheats if is_missed(r)}),
        "cheats_inconclusive": sum(r["verdict"] == "inconclusive" for r in cheats),
        "cheats_accepted": sum(r["accepted"] for r in cheats),
        "honest_styles": len({r["name"] for r in honest}),
        "honest": len(honest),
        "honest_accepted": sum(r["accepted"] for r in honest),
        "honest_pytorch_only": sum(r["label"] == Label.PYTORCH_ONLY.value for r in honest),
        "false_alarms": sum(map(is_alarm, honest)),
        "inconclusive": sum(r["verdict"] == "inconclusive" for r in honest),
        "unjudged": len(rows) - len(judged),
        **_pairs(honest),
    }
    return {f"{prefix}.{name}": value for name, value in found.items()}


def _pairs(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many pairs of audits of the same kernel in the same condition there are, one after the other, and
    how many of these have intervals of times apart: a test by them would call the two different."""
    series: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row.get("interval_ms"):
            series.setdefault((row["name"], row["condition"]), []).append(row["interval_ms"])
    pairs = [pair for found in series.values() for pair in pairwise(found)]
    apart = sum(one[1] < other[0] or other[1] < one[0] for one, other in pairs)
    return {"same_kernel_pairs": len(pairs), "same_kernel_told_apart": apart}


def is_missed(row: dict[str, Any]) -> bool:
    """Whether a candidate that cheats was not rejected."""
    return row["verdict"] != "rejected"


class Run:
    """Candidates that are audited until time is over; what was audited before is taken from its file."""

    def __init__(self, records: Records, options: Options, jobs: int, seconds: float, beside: str, card: str):
        self.records, self.options, self.jobs = records, options, jobs
        self.beside, self.card = beside, card
        self.commit = commit()
        self.until = time.monotonic() + seconds
        self.over = False
        """Whether the time is over, so that results of audits that still run do not count."""

    def rows(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the position of each candidate in the list and its row as audits end, while there is time."""
        auditor, pool = Auditor(), ThreadPoolExecutor(self.jobs)
        numbers = {pool.submit(self._row, auditor, c): n for n, c in enumerate(candidates)}
        left = set(numbers)
        try:
            while left:
                seconds = max(self.until + GRACE - time.monotonic(), 0.0)
                done, left = wait(left, min(seconds, threading.TIMEOUT_MAX), FIRST_COMPLETED)
                if not done:
                    break
                for future in sorted(done, key=numbers.__getitem__):
                    if (row := future.result()) is not None:
                        yield numbers[future], row
        finally:
            self.over = True
            pool.shutdown(wait=False, cancel_futures=True)
        auditor.close()  # ends the processes of audits that go on; a signal ends all of them
        pool.shutdown()

    def _row(self, auditor: Auditor, candidate: Candidate) -> dict[str, Any] | None:
        on = depends(candidate, self.options, self.beside, self.card)
        key = f"{candidate.kind}/{candidate.name}/{self.beside}"
        known = self.records.find(key, "audit", on)
        if known is not None and known["label"] is not None:  # else the run ended amid the audit, perhaps
            return known
        if time.monotonic() >= self.until:
            return None
        row = measure(candidate, self.options, auditor) | {
            "condition": self.beside,
            "load_average": round(os.getloadavg()[0], 1),
            "card": self.card,
            "commit": self.commit,
        }
        if self.over:
            return None  # its processes may have been ended
        self.records.add(key, "audit", on, row)
        return row


def show(row: dict[str, Any]) -> None:
    """A line for a row, and what was found where that is wrong."""
    wrong = is_alarm(row) if row["honest"] else row["label"] is not None and is_missed(row)
    state = "WRONG" if wrong else "good"
    print(f"{row['name']:36} {row['kind']:9} {state:6} {row['label'] or row['unjudged']}", flush=True)
    if wrong or os.environ.get("MUCC_AUDIT_VERBOSE"):
        for line in [*row.get("findings", ()), row.get("failure") or ""]:
            print(f"    {line}", flush=True)


def card_of(device: str) -> str:
    """Return the folder of results for what audits run on."""
    if device != "cuda":
        return cpu_label()
    from importlib import import_module

    from bench.timing import card

    return card(import_module("torch"))


def main(argv: Sequence[str] | None = None) -> None:
    """Audit everything, print a line for each, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--eager", action="store_true", help="PyTorch's own kernels as well")
    parser.add_argument("--only", default="", help="only candidates with one of these in their name: A,B")
    parser.add_argument("--repeat", type=at_least_one, default=1, help="audit honest samples so often")
    parser.add_argument("--load", type=int, default=0, help="processes that keep processors busy meanwhile")
    parser.add_argument("--beside", type=int, default=0, help="processes that keep the GPU busy meanwhile")
    parser.add_argument("--others", default="", help="what else keeps this machine busy, for the rows")
    parser.add_argument("--shard", type=shard, default=(1, 1), help="K/N: the K-th of N parts of all")
    parser.add_argument("--kind", choices=("all", "cheats", "honest"), default="all")
    parser.add_argument("--no-samples", action="store_true")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=1)
    kept = os.path.join(tempfile.gettempdir(), "mucc-bench-audit")
    parser.add_argument("-o", "--output", default=kept, help=f"folder of what is done (default: {kept})")
    parser.add_argument("--record", default="audit", help="name of the result")
    parser.add_argument("--again", action="store_true", help="audit what is done as well")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin nothing new after so long")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help=f"seconds of each process of an audit (default: {LIMIT:g})"
    )
    args = parser.parse_args(argv)
    bound = args.device == "cuda"
    options = Options(device=args.device, precision="declared", bound=bound, time_limit=args.limit)
    path = Path(args.output) / "audits.jsonl"
    if args.again:
        path.unlink(missing_ok=True)
    beside = condition(args.jobs, args.load, args.beside, args.others)
    card = card_of(args.device)
    run = Run(Records(path), options, args.jobs, args.seconds, beside, card)
    rows: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
        found = [] if args.no_samples else list(samples(args.device, Path(folder)))
        found += honest_ones(args.folders, Path(folder), args.eager)
        found = [
            c
            for c in found
            if any(part in c.name for part in args.only.split(",")) and args.kind in ("all", kind_of(c))
        ]
        left_out = Counter(c.unfit for c in found if c.unfit)
        found = [c for c in found if not c.unfit]
        part, parts = args.shard
        found = list(repeated(found[part - 1 :: parts], args.repeat))
        for why, count in left_out.items():
            print(f"left out: {count} {why}", flush=True)
        with busy(args.load, args.beside):
            try:
                for number, row in run.rows(found):
                    rows[number] = row
                    show(row)
            except BaseException:
                if rows:
                    finish(card, args.record, rows, len(found), left_out.total())
                raise
    finish(card, args.record, rows, len(found), left_out.total())


def finish(card: str, record: str, rows: Mapping[int, dict[str, Any]], count: int, left_out: int) -> None:
    """Print and write the figures of `rows` by position, of `count` candidates; others are left out."""
    ordered = [rows[number] for number in sorted(rows)]
    figures = {**summary(ordered), "audit.left": count - len(ordered), "audit.left_out": left_out}
    print(json.dumps(figures, indent=1), flush=True)
    write_result(card, record, ordered, figures, extra_versions=versions("torch", "triton"), module="audit")


if __name__ == "__main__":
    run_main(main)
