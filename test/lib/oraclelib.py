"""Times that were measured on an H200, in the place of one: schedules of plain products, as a proposer sees
them, and an evaluator that looks them up."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.hypotheses import Hypothesis, roi
from mucc.agent.core.proposer import View
from mucc.agent.core.tasks import Imported, Task
from mucc.agent.propose.offline import Offline
from mucc.agent.propose.offline.ideas import groups
from mucc.agent.propose.offline.surveys import Sketch, Surveys, Version
from mucc.dialects.mu.settings import texts_of
from mucc.kernels.gemm.scheduling.config import Schedule
from mucc.kernels.gemm.settings import settings_of
from mucc.measure.tune.ranking import Contraction, Move

RESULTS = Path(__file__).parents[2] / "bench/results/h200"
TYPES = {"bf16": "bf16", "f16": "f16", "tf32": "f32"}
PLACE = ("product", "out")


class Problem(NamedTuple):
    """A product of an [m, k] matrix with the transpose of an [n, k] matrix."""

    source: str
    dtype: str
    m: int
    n: int
    k: int

    @property
    def text(self) -> str:
        t, m, n, k = TYPES[self.dtype], self.m, self.n, self.k
        return f"kernel product(x: {t}[{m}, {k}], w: {t}[{n}, {k}]) -> {t}[{m}, {n}] {{ return x @ w.T }}\n"

    @property
    def task(self) -> Task:
        imported = Imported("product", self.text)
        return Task("product", "product.py", "", "declared", "NVIDIA H200", "sm_90a", imported)


Rows = dict[str, float]
"""Microseconds by settings as canonical JSON."""


def calibration() -> dict[Problem, Rows]:
    """Of some 130 schedules each."""
    found: dict[Problem, Rows] = defaultdict(dict)
    for name in ("calibration", "calibration_clean"):
        with gzip.open(RESULTS / f"{name}.csv.gz", "rt") as file:
            for row in csv.DictReader(file):
                if row["kind"] != "bf16" or row["tile"].count("x") != 2:
                    continue
                sizes = [tuple(map(int, row[n].split("x"))) for n in ("tile", "cluster")]
                how = (row["mainloop"], row["scheduler"], row["raster"])
                schedule = Schedule(*sizes, *how, int(row["swizzle"]), int(row["splits"]))  # pyright: ignore
                problem = Problem(name, "bf16", *(int(row[e]) for e in "mnk"))
                found[problem][_key(texts_of(settings_of(schedule)))] = float(row["us"])
    return {p: rows for p, rows in found.items() if len(rows) >= 8}


def tuning() -> dict[Problem, Rows]:
    """Of the 11 to 16 schedules each that the tuner chose."""
    found: dict[Problem, Rows] = defaultdict(dict)
    with gzip.open(RESULTS / "tuning.jsonl.gz", "rt") as file:
        for row in map(json.loads, file):
            if len(row["stages"]) == 1 and row["run"]["status"] == "good" and row["name"] in TYPES:
                problem = Problem("tuning", row["name"], *(row["dims"][e] for e in "MNK"))
                found[problem][_key(row["stages"][0]["settings"])] = row["run"]["time_us"]
    return {p: rows for p, rows in found.items() if len(rows) >= 8}


def _key(settings: Mapping[str, str]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


class Measured(Contraction):
    """A contraction that has no schedules but those that were measured."""

    moves: list[Move]

    def ranked(self) -> list[Move]:
        return self.moves

    def unproposed(self) -> list[Move]:
        return []

    def neighbours(self, settings: Mapping[str, str]) -> list[Move]:
        return []

    def variants(self, settings: Mapping[str, str]) -> list[Move]:
        now = self.move(settings)
        assert now is not None
        return [m for m in self.moves if m.skeleton == now.skeleton and m.settings != now.settings]


class Oracle(Surveys):
    """Knows one problem, and how long each of its schedules takes."""

    def __init__(self, problem: Problem, rows: Rows):
        super().__init__()
        self.problem = problem
        self.rows: Rows = {}
        self.moves: list[Move] = []
        plain = super().version(problem.task, problem.text)
        assert plain is not None
        contraction = plain.sketch.contractions[PLACE]
        for key, us in rows.items():
            if (move := contraction.move(json.loads(key))) is not None:
                self.rows[_key(move.settings)] = us
                self.moves.append(move)
        self.moves.sort(key=lambda m: m.us)

    def sketch(self, task: Task, body: str) -> Sketch | None:
        if (found := super().sketch(task, body)) is None:
            return None
        kernel = found.kernels[0]
        values = {f.name: getattr(kernel.contractions[0], f.name) for f in dataclasses.fields(Contraction)}
        measured = Measured(**values)
        measured.__dict__["moves"] = self.moves
        return Sketch(found.body, (dataclasses.replace(kernel, contractions=(measured,)),))

    def first(self) -> str:
        """The program with the schedule that the model likes best."""
        version = self.version(self.problem.task, self.problem.text)
        assert version is not None
        return Version(version.sketch, {PLACE: self.moves[0]}, frozenset({PLACE})).text

    def us(self, program: str) -> float:
        version = self.version(self.problem.task, program)
        assert version is not None
        return self.rows[_key(version.choice[PLACE].settings)]


class Search(NamedTuple):
    """The times of all attempts over the best time that was measured, that of the model's choice first."""

    times: list[float]
    schedules: int

    @property
    def found(self) -> float:
        return min(self.times)


def searched(problem: Problem, rows: Rows, attempts: int, seed: int = 0) -> Search:
    """What the proposer finds by MANTIS's way to ask: two hypotheses of four programs an iteration."""
    oracle = Oracle(problem, rows)
    proposer = Offline(oracle)
    done = [_attempt(0, Candidate(oracle.first(), "as imported"), oracle)]
    hypotheses: list[Hypothesis] = []

    def view() -> View:
        return View(problem.task, done, hypotheses, seed=seed)

    while len(done) <= attempts:
        best = view().best
        assert best is not None
        named = proposer.nominate(view(), 4, best).value
        if not named:
            break
        for hypothesis in sorted(named, key=lambda h: -roi(h, 1.5))[:2]:
            number = len(hypotheses)
            hypotheses.append(hypothesis)
            count = min(4, attempts + 1 - len(done))
            for candidate in proposer.implement(view(), number, hypothesis, [], count).value:
                done.append(_attempt(len(done), candidate, oracle))
    least = min(oracle.rows.values())
    return Search([oracle.us(a.candidate.program) / least for a in done], len(oracle.rows))


def _attempt(number: int, candidate: Candidate, oracle: Oracle) -> Attempt:
    ms = oracle.us(candidate.program) / 1e3
    return Attempt(number, candidate, Outcome(Status.GOOD, ms=ms, audited=True))


def imported() -> Iterator[tuple[str, str]]:
    """Name and program of each problem of the sets gemm, fused and mlp."""
    text = (Path(__file__).parent / "imported_problems.mcu").read_text()
    for kernel in text.split("\nkernel ")[1:]:
        yield kernel.split("(")[0], f"kernel {kernel.strip()}\n"


def imagined_us(version: Version, luck: int) -> float:
    """The time of a program on a card that differs from the model by chance."""
    total = sum(version.sketch.other_us.values())
    for place, move in version.choice.items():
        problem = version.sketch.contractions[place].signature
        s = move.settings
        parts = {
            0.05: s["mainloop"],
            0.06: (s["mainloop"], s["tile"]),
            0.02: (s["mainloop"], s["tile"], s["cluster"]),
            0.005: s["scheduler"],
        }
        error = sum(size * random.Random(f"{luck} {problem} {of}").gauss(0, 1) for size, of in parts.items())
        total += move.us * math.exp(error)
    return total


def best_imagined(version: Version, luck: int) -> float:
    """The least time of any program with the kernels of a version, stage by stage."""
    for places in groups(version.sketch):
        moves = [version.choice[places[0]], *version.sketch.contractions[places[0]].ranked()]
        versions = [version.with_moves(dict.fromkeys(places, m)) for m in moves]
        version = min(versions, key=lambda v: imagined_us(v, luck))
    return imagined_us(version, luck)
