"""Compare what the compiler makes of every program of the repository with what it made when it was recorded.

    python -m bench.corpus [PATTERN] [-j N] [--record] [--dump FOLDER]
    python -m bench.corpus --draw N

Programs are the examples, those of tests, those that explain diagnostics, and random ones that `--draw` adds
to test/data/corpus/random.txt. Each is compiled for each target without measured schedules; a random one for
the target that it was drawn for. test/data/corpus/hashes.txt has hashes of the C++, of the manifest and of
the schedule, without mucc's version and the hash of the program; of a program that is refused, the codes of
the errors. A change that is to keep what is emitted keeps them all; one that changes it on purpose records
them again and says so.

PATTERN is a regular expression for `NAME TARGET`. `--dump FOLDER` writes the texts themselves, to compare
the folders of two checkouts. The exit status is 1 where something differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from bench.common import ROOT, at_least_one, run_main
from bench.fuzz.sources import corpus, program
from bench.gpu_fuzz.programs import ALL_TARGETS
from mucc.compiler.program import compile_source
from mucc.compiler.source import decode
from mucc.diagnostics.core import DiagnosticError, Severity
from mucc.files.atomic import replace_file

FOLDER = ROOT / "test" / "data" / "corpus"
HASHES, RANDOM = FOLDER / "hashes.txt", FOLDER / "random.txt"

TEXTS = {"cu": ".cu", "manifest": ".json", "schedule": ".mcu"}
"""The levels of `--emit` whose hashes are recorded, with the file extensions for `--dump`."""

DIGITS = 8
_VARYING = re.compile(r"\(mucc [^)]*\)")
_MARK = "// ==== "


class Entry(NamedTuple):
    """A program of the corpus, for one target. `dims` are typical sizes of open dims."""

    name: str
    text: str
    target: str
    dims: Mapping[str, int]


def entries() -> Iterator[Entry]:
    """Every program for every target; random ones for the target that they were drawn for."""
    for name, text in corpus().items():
        for target in ALL_TARGETS:
            yield Entry(name, text, target, {})
    yield from random_programs()


def random_programs() -> Iterator[Entry]:
    """Read the random programs that `--draw` has added."""
    for part in RANDOM.read_text(encoding="utf-8").split(_MARK)[1:]:
        head, _, text = part.partition("\n")
        number, target, *dims = head.split()
        sizes = {name: int(value) for name, _, value in (d.partition("=") for d in dims)}
        yield Entry(f"random#{number}", text, target, sizes)


def texts(entry: Entry) -> dict[str, str]:
    """Compile a program to its texts by level; codes of errors under `error` if it is refused."""
    try:
        source = decode(entry.text.encode(), "f.mcu")
        compilation = compile_source(source, entry.target, dims=entry.dims, tuned=False)
    except DiagnosticError as error:
        return {"error": " ".join(d.code for d in error.diagnostics if d.severity is Severity.ERROR)}
    manifest: dict[str, Any] = json.loads(compilation.emit("manifest"))
    made = {level: compilation.emit(level) for level in TEXTS}
    made["cu"] = _VARYING.sub("(mucc)", made["cu"]).replace(manifest["program_hash"], "")
    kept = {key: value for key, value in manifest.items() if key not in ("mucc", "program_hash")}
    made["manifest"] = json.dumps(kept, indent=1)
    return made


def fingerprint(entry: Entry, folder: Path | None = None) -> str:
    """Compile a program to what is recorded of it: `cu manifest schedule` as hashes, or the codes of errors.

    Writes the texts to `folder`, if given.
    """
    made = texts(entry)
    if folder is not None:
        dump(folder, entry, made)
    if "error" in made:
        return made["error"]
    return " ".join(hashlib.sha256(made[level].encode()).hexdigest()[:DIGITS] for level in TEXTS)


def recorded() -> dict[tuple[str, str], str]:
    """Read the recorded fingerprints, by name of the program and target."""
    rows = (line.split(" ", 2) for line in HASHES.read_text(encoding="utf-8").splitlines())
    return {(name, target): rest for name, target, rest in rows}


def changes(found: Mapping[tuple[str, str], str], known: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Describe each program whose fingerprint is not the recorded one, in one line."""
    for key, now in found.items():
        before = known.get(key)
        if before is None:
            yield f"{' '.join(key)}: not recorded"
        elif before != now:
            pairs = zip(TEXTS, before.split(), now.split(), strict=False)
            same_form = _is_made(before) and _is_made(now)
            what = ", ".join(level for level, old, new in pairs if old != new)
            yield f"{' '.join(key)}: {what if same_form else f'{before} before, {now} now'}"


def _is_made(value: str) -> bool:
    return not value.startswith("MU")


def dump(folder: Path, entry: Entry, made: Mapping[str, str]) -> None:
    """Write the texts of a program to a folder, one file for each level."""
    for level, text in made.items():
        name = re.sub(r"[^\w.-]+", "_", entry.name)
        path = folder / f"{name}.{entry.target}{TEXTS.get(level, '.txt')}"
        path.write_text(text, encoding="utf-8")


def draw(count: int) -> None:
    """Add random programs that the compiler takes to the file of them."""
    lines = RANDOM.read_text(encoding="utf-8") if RANDOM.exists() else ""
    number = lines.count(_MARK)
    rng = random.Random(number)
    until = number + count
    while number < until:
        drawn = program(f"corpus/{rng.getrandbits(64)}")
        dims = "".join(f" {name}={value}" for name, value in drawn.dims.items())
        entry = Entry("", drawn.text, drawn.target, drawn.dims)
        if "error" not in texts(entry):
            lines += f"{_MARK}{number} {drawn.target}{dims}\n{drawn.text.rstrip()}\n"
            number += 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    replace_file(str(RANDOM), lines.encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Compile the corpus, and say what differs from the record."""
    p = argparse.ArgumentParser(
        prog="python -m bench.corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("pattern", nargs="?", default="", help="regular expression for `NAME TARGET`")
    p.add_argument("-j", "--jobs", type=at_least_one, default=len(os.sched_getaffinity(0)))
    p.add_argument("--record", action="store_true", help="record these again, and forget those that are gone")
    p.add_argument("--dump", type=Path, metavar="FOLDER", help="write the texts there")
    p.add_argument("--draw", type=int, metavar="N", help="add N random programs, and record nothing")
    args = p.parse_args(argv)
    if args.draw:
        draw(args.draw)
        return 0
    every = list(entries())
    chosen = [e for e in every if re.search(args.pattern, f"{e.name} {e.target}")]
    known = recorded() if HASHES.exists() else {}
    gone = known.keys() - {(e.name, e.target) for e in every}
    if args.dump:
        args.dump.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        prints = pool.map(partial(fingerprint, folder=args.dump), chosen, chunksize=16)
        found = {(e.name, e.target): f for e, f in zip(chosen, prints, strict=True)}
    made = sum(map(_is_made, found.values()))
    print(f"{len({e.text for e in chosen})} programs, {len(found)} times compiled: {made} to C++", flush=True)
    differing = [*changes(found, known), *(f"{' '.join(key)}: gone" for key in sorted(gone))]
    print(*differing, sep="\n", end="\n" if differing else "")
    print(f"{len(differing)} differ", flush=True)
    if args.record:
        rows = sorted((key, value) for key, value in {**known, **found}.items() if key not in gone)
        replace_file(str(HASHES), "".join(f"{n} {t} {f}\n" for (n, t), f in rows).encode())
        return 0
    return int(bool(differing))


if __name__ == "__main__":
    run_main(main)
