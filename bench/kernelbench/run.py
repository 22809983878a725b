"""The stages of a run, over all problems, with what is finished kept on the way."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.common import RESULTS, cpu_label, result, versions
from bench.kernelbench import building, importing, measuring, report
from bench.kernelbench.children import Sharing, Turn, run_each
from bench.kernelbench.importing import Values, folder_of
from bench.kernelbench.options import Options
from bench.kernelbench.records import Records
from bench.kernelbench.rows import figures, row_of
from mucc.agent.importing.problems import Problem
from mucc.build.cache.keys import package_fingerprint
from mucc.build.toolchain.doctor import gpu_memory
from mucc.files.atomic import replace_file
from mucc.files.digest import digest
from mucc.process.gpu_memory import Room, wanted_by
from mucc.torch.importer.child import TORCH

Progress = Callable[[str], None]


class Run:
    """Problems on their way through the stages. With `again` what is finished is done over."""

    def __init__(
        self,
        options: Options,
        problems: Iterable[Problem],
        *,
        again: bool = False,
        progress: Progress = print,
    ):
        self.options = options
        self.problems = list(problems)
        self.again = again
        self.say = progress
        self.records = Records(options.folder / "rows.jsonl")

    # Stages

    def import_all(self) -> None:
        """Import what is not imported yet, or was by another mucc or from another text."""
        options = self.options
        mucc = package_fingerprint()
        said = (options.compute or "", options.target, options.card, str(options.check))
        depends = {p: digest(mucc, p.digest(), *said) for p in self.problems}
        limits = options.limits(address_space=True)
        work = importing.import_problem
        self._each("import", depends, lambda p, _: work(p, options), limits, options.jobs)

    def build_all(self) -> None:
        """Build the libraries of all programs that were imported."""
        programs: dict[Path, tuple[Problem, str]] = {}
        for problem in self.problems:
            program = self._program(problem)
            if program is None:
                continue
            depends = digest(package_fingerprint(), program.read_text(), self.options.target)
            if self._library(problem) and self._done(problem, "build", depends):
                continue
            programs[program] = problem, depends
        for n, (path, values) in enumerate(building.build_all(list(programs), self.options), 1):
            problem, depends = programs[path]
            values = {**values, "program": digest(path.read_text())}
            self.records.add(problem.key, "build", depends, values)
            self._tell("build", n, len(programs), problem, values)

    def measure_all(self) -> None:
        """Judge and time everything that is built."""
        options = self.options
        depends: dict[Problem, str] = {}
        for problem in self.problems:
            if (library := self._library(problem)) is None:
                continue
            os.utime(library)  # a driver takes no library that is older than its program, as copies may be
            said = (str(options.audit), str(options.runs), str(options.compute))
            depends[problem] = digest(problem.digest(), library.read_bytes(), *said)
        limits = options.limits(address_space=False)

        def work(problem: Problem, turn: Turn) -> Values:
            imported = self.records.find(problem.key, "import")
            assert imported is not None
            return measuring.measure(problem, options, imported, turn)

        self._each("measure", depends, work, limits, options.jobs, self._sharing())

    def _sharing(self) -> Sharing[Problem]:
        """How problems share the GPU's memory while they are measured, by what they have to move."""

        def wanted(problem: Problem) -> int:
            imported = self.records.find(problem.key, "import") or {}
            return wanted_by(imported.get("amounts", {}).get("dram", 0.0))

        return Sharing(Room(gpu_memory()), wanted, measuring.is_short)

    # Helpers

    def _each(
        self,
        stage: str,
        depends: dict[Problem, str],
        work: Callable[[Problem, Turn], Values],
        limits: Any,
        jobs: int,
        sharing: Sharing[Problem] | None = None,
    ) -> None:
        """Do a stage in children, and keep each row as it comes."""
        waiting = [p for p, d in depends.items() if not self._done(p, stage, d)]
        if len(waiting) < len(depends):
            self.say(f"{stage}: {len(depends) - len(waiting)} of {len(depends)} are done")
        if waiting:
            load_torch()

        def log_of(problem: Problem) -> Path:
            return folder_of(problem, self.options) / f"{stage}.log"

        for n, (problem, values) in enumerate(run_each(waiting, work, log_of, limits, jobs, sharing), 1):
            self.records.add(problem.key, stage, depends[problem], values)
            self._tell(stage, n, len(waiting), problem, values)

    def _done(self, problem: Problem, stage: str, depends: str) -> bool:
        return not self.again and self.records.find(problem.key, stage, depends) is not None

    def _program(self, problem: Problem) -> Path | None:
        """The program of a problem; None where it has none."""
        values = self.records.find(problem.key, "import") or {}
        if values.get("compiled", "none") == "none":
            return None
        return folder_of(problem, self.options) / f"{values['name']}.mcu"

    def _library(self, problem: Problem) -> Path | None:
        """The library of a problem; None where it has none that was built from its present program."""
        program = self._program(problem)
        built = self.records.find(problem.key, "build") or {}
        if program is None or built.get("program") != digest(program.read_text()):
            return None
        library = program.with_suffix(".so")
        return library if built["built"] and library.exists() else None

    def _tell(self, stage: str, n: int, of: int, problem: Problem, values: Values) -> None:
        self.say(f"[{n}/{of}] {stage} {problem.key}: {_word(stage, values)}")

    # The end

    def rows(self) -> list[Values]:
        """All that is known, one row a problem."""
        return [row_of(self.records, p.group, p.name, self.options.compute) for p in self.problems]

    def report(self, record: str | None = None) -> None:
        """Print the table, and write it beside the rows; with `record` among the recorded results too."""
        rows = self.rows()
        found = figures(rows)
        text = f"{report.table(rows)}\n{report.figures_text(found)}"
        sys.stdout.write(f"\n{text}")
        card, about = self._card()
        targets = [self.options.folder / "report"]
        if record:
            targets.append(RESULTS / card / record)
        made = result(card, "kernelbench", rows, found, extra_versions=about)
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(f"{target}.json", (json.dumps(made, indent=1) + "\n").encode())
            replace_file(f"{target}.txt", text.encode())
            self._plot(rows, Path(f"{target}.png"), about.get("gpu", card))

    def _plot(self, rows: list[Values], path: Path, card: str) -> None:
        try:
            report.plot(rows, path, f"KernelBench-format problems: speed against PyTorch on {card}")
        except ImportError:
            self.say("no plot: matplotlib is not installed (pip install mucc[bench])")

    def _card(self) -> tuple[str, dict[str, str]]:
        """What results are called after, and what they say about their surroundings."""
        if self.options.device == "cpu":
            return cpu_label(), versions("torch")
        from bench.timing import card, gpu_versions

        torch: Any = import_module("torch")
        return card(torch), gpu_versions(torch)


def load_torch() -> None:
    """Load what children need of torch, so that they find it loaded."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # there are many children
    for name in TORCH:
        import_module(name)


def _word(stage: str, values: Values) -> str:
    """What became of a problem, for the progress of a run."""
    if error := values.get("error"):
        return f"FAILED: {error}"
    match stage:
        case "import":
            agrees = {True: "agrees", False: "DIFFERS", None: ""}[values.get("agrees")]
            return f"{values['seconds']:.1f} s, compiled {values['compiled']} {agrees}".rstrip()
        case "build":
            return "from the cache" if values.get("cached") else "built"
        case _:
            ms = values.get("ms")
            return f"{values.get('label') or 'not judged'}, {'no time' if ms is None else f'{ms:.4f} ms'}"
