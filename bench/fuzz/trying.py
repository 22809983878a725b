"""Try sources in steps that workers take: draw them by seed, examine them, shrink what fails."""

from __future__ import annotations

import os
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.fuzz.checks import LEVELS, Outcome, examine
from bench.fuzz.generated import examine_chain, examine_program, examine_schedule
from bench.fuzz.mutants import mutant
from bench.fuzz.reducing import reduced
from bench.fuzz.sources import Drawn, chained, corpus_texts, layered, origin, program, with_schedule

CHUNK = {"mutants": 50, "programs": 5, "chains": 20, "layers": 20, "schedules": 10}
"""How many sources are a step, which is done whole or not at all."""

HOST_SHARE, COMMAND_SHARE, EMIT_SHARE = 0.02, 0.05, 0.5
REDUCING = 20.0
"""Seconds that a finding is shrunk for."""

MEMORY = 6 << 30
"""Bytes that a worker may take."""


class Chunk(NamedTuple):
    """A step of a run: so many sources of one kind, by a seed and a number."""

    kind: str
    seed: str
    number: int

    @property
    def seeds(self) -> Iterator[str]:
        return (f"{self.seed}/{self.kind}/{self.number}/{i}" for i in range(CHUNK[self.kind]))


def prepare() -> None:
    """Make this process a worker: with a cache of its own, in bounded memory."""
    os.environ["MUCC_CACHE_DIR"] = tempfile.mkdtemp(prefix="mucc-fuzz-cache-")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if soft == resource.RLIM_INFINITY else soft, hard))


def run_chunk(chunk: Chunk) -> dict[str, Any]:
    """Try all sources of a chunk: counts of what came of them, and the findings."""
    began = time.monotonic()
    counts: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    findings: list[dict[str, Any]] = []
    for seed in chunk.seeds:
        outcome, data, drawn = _TRIALS[chunk.kind](seed)
        counts[outcome.kind] += 1
        if outcome.code and not outcome.is_finding:
            codes[outcome.code] += 1
        if outcome.is_finding:
            findings.append(_finding(chunk.kind, seed, outcome, data, drawn))
    row = {"chunk": list(chunk), "counts": dict(counts), "codes": dict(codes)}
    return {**row, "seconds": round(time.monotonic() - began, 2), "findings": findings}


def _mutant(seed: str) -> tuple[Outcome, bytes, Drawn]:
    rng = random.Random(seed)
    drawn = origin(rng, seed)
    data = mutant(rng, drawn.text, rng.choice(corpus_texts()))
    emits = (rng.choice(LEVELS),) if rng.random() < EMIT_SHARE else ()
    return examine(data, drawn.target, drawn.dims, emits, rng.random() < COMMAND_SHARE), data, drawn


def _program(seed: str) -> tuple[Outcome, bytes, Drawn]:
    drawn = program(seed)
    outcome = examine_program(drawn, random.Random(f"host {seed}").random() < HOST_SHARE)
    return outcome, drawn.text.encode(), drawn


def _chain(seed: str) -> tuple[Outcome, bytes, Drawn]:
    drawn = chained(seed)
    return examine_chain(drawn), drawn.text.encode(), drawn


def _layer(seed: str) -> tuple[Outcome, bytes, Drawn]:
    drawn = layered(seed)
    return examine_chain(drawn), drawn.text.encode(), drawn


def _schedule(seed: str) -> tuple[Outcome, bytes, Drawn]:
    drawn = with_schedule(seed)
    return examine_schedule(drawn), drawn.text.encode(), drawn


_TRIALS = {
    "mutants": _mutant,
    "programs": _program,
    "chains": _chain,
    "layers": _layer,
    "schedules": _schedule,
}


def _finding(kind: str, seed: str, outcome: Outcome, data: bytes, drawn: Drawn) -> dict[str, Any]:
    """A finding with the shortest source that fails in the same way."""

    def fails(candidate: bytes) -> bool:
        now = again(kind, candidate, drawn)
        return (now.kind, now.code) == (outcome.kind, outcome.code)

    small = reduced(data, fails, REDUCING) if outcome.kind != "hang" and fails(data) else data
    return {**row_of(kind, seed, outcome, drawn), "text": small.decode("utf-8", errors="backslashreplace")}


def again(kind: str, data: bytes, drawn: Drawn) -> Outcome:
    """Try a changed source as the one that it was made of."""
    if kind == "mutants":
        return examine(data, drawn.target, drawn.dims, LEVELS, command=True)
    of = kind if kind in ("layers", "schedules") else drawn.origin
    changed = Drawn(data.decode("utf-8", errors="replace"), drawn.target, of, drawn.dims)
    if kind == "schedules":
        return examine_schedule(changed)
    return examine_chain(changed) if kind in ("chains", "layers") else examine_program(changed, host=True)


def row_of(kind: str, seed: str, outcome: Outcome, drawn: Drawn) -> dict[str, Any]:
    """A finding as a row of results."""
    row: dict[str, Any] = {"kind": outcome.kind, "code": outcome.code, "detail": outcome.detail, "of": kind}
    return row | {
        "seed": seed,
        "origin": drawn.origin,
        "target": drawn.target,
        "dims": drawn.dims,
        "text": drawn.text,
    }
