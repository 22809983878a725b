"""One candidate before the judge, from the first call to the last comparison."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, starmap
from statistics import median
from typing import Any

from mucc.agent.audit.cases import (
    SURELY_WATCHED,
    WARM,
    Case,
    amid_case,
    divided,
    plan,
    timed_cases,
    watched_ones,
)
from mucc.agent.audit.crowds import crowd
from mucc.agent.audit.described import descriptions
from mucc.agent.audit.draws import Draws
from mucc.agent.audit.findings import Failed
from mucc.agent.audit.hidden import DOUBTFUL, ENOUGH, RISK, surprise
from mucc.agent.audit.noise import is_steady
from mucc.agent.audit.observations import Comparison, call_from, signs_from
from mucc.agent.audit.options import Options
from mucc.agent.audit.processes import Processes
from mucc.agent.audit.repeats import repeated
from mucc.agent.audit.runs import CandidateFailed, Entry, Run, timing_of
from mucc.agent.audit.solutions import Solution, sources_beside
from mucc.agent.audit.times import Times
from mucc.agent.isolation.process import ChildFailed
from mucc.agent.isolation.zygote import Zygote
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import Request
from mucc.api.json_types import Json
from mucc.api.machine import compute_processes, exclusive_gpu, shared_gpu

BUDGET = 1.0
"""Seconds that a timed series may take, `FEWEST` calls included in any case."""

FEWEST = 5
"""Timed calls that there are at the least, after `WARM` others."""

TRIES = 3
"""Series that are timed at the most, until one is steady."""

CALIBRATION = 5
"""Calls of a function that does nothing, by which the judge's own time is known."""

HANDING_BYTES = (1 << 12, 1 << 24)
"""Bytes of results by which the judge knows what handing over takes; a CPU's copies differ by caches, and are
measured with each call."""

LOOKS = 28
"""Calls of a further series that is watched, at the most: so many where looks have seen what was not told."""

MORE = 1.5
"""Seconds that such series may take together."""

UNKNOWN = Comparison(False)
"""The comparison of a call whose results were not compared yet."""

KERNEL_US = 1.3
"""What the smallest of kernels takes, where nothing tells it."""


class Trial(Processes):
    """One candidate before the judge, from the first call to the last comparison."""

    def __init__(
        self,
        zygote: Zygote,
        request: Request,
        solution: Solution,
        options: Options,
        folder: str,
        seed: int,
        smallest: dict[str, float] | None = None,
    ):
        super().__init__(zygote, request, options, folder)
        self.solution = solution
        self.rng = Draws(seed)
        self.weights = self.rng.randrange(2**31)
        self.smallest: dict[str, float] = {} if smallest is None else smallest
        """What the smallest of kernels takes in us, by cards, as far as it was measured before."""
        self._bus = ""
        """The PCI bus identifier of the GPU."""
        self._others: set[int] = set()
        """Processes that used the GPU meanwhile and are not of audits."""
        self._idle_ms = 0.0
        """What a call of nothing took on a GPU before the solution was loaded, in ms."""

    # The candidate

    def run(self) -> Run:
        """Call the candidate in a process of its own, and keep what came."""
        run = Run()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            with self.phase("fork"):
                self.judge = self._child("judge", ours)
            with self.phase("candidate.start"):
                self._begin({"do": "hello"} if self._may_use_gpu else self._asked(run, ""))
            with self.phase("fork"):  # while the judge's loads the problem, or the driver of a GPU
                readable = sources_beside(self.solution.path)
                self.candidate = self._child("candidate", theirs, readable=readable)
            with self.phase("candidate.start"):
                if self._may_use_gpu:
                    self._begin(self._opening(run, self.answered()))
                init = self._started()
        try:
            self._called(run, init)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            run.failed = Failed(
                f"its process gave an answer that is none: {error!r}", self.candidate.printed()
            )
        except CandidateFailed as failed:
            run.failed = Failed(str(failed), self.candidate.printed())
        except ChildFailed as failed:
            run.failed = Failed(f"its process {failed}", failed.printed, failed.cause)
        finally:
            self.candidate.close()
        if run.timing.calls and self.device == "cuda":
            with self.turn(exclusive_gpu):
                cleared = self.ask(do="clear")
                self._look_for_others()
            before, during, left, _ = run.timing.cleared
            after, often = float(cleared["ms"]), float(cleared["often"])
            crowded = crowd(self._others, self._idle_ms, often, after)
            run.timing = replace(run.timing, cleared=(before, during, left, after), crowded=crowded)
        return run

    def _called(self, run: Run, init: Json) -> None:
        first, *others = plan(self.rng)
        # A solution may compile for long, and the GPU is not to wait for that.
        with self.turn(shared_gpu if self.solution.is_library else nullcontext):
            with self.phase("candidate.open"):
                opened = {"device": self.device, "memory": self.options.memory_limit << 20, "init": init}
                self._tell(do="open", draws_there=self.solution.is_library, **opened)
                self._calibrate(run.card)
            before = set(self.candidate.libraries())
            with self.phase("candidate.load"):
                self._tell(do="load", solution=self.solution.path, seed=self.weights)
            with self.phase("candidate.first"):
                self._answer(run, first, True)
        with self.turn(shared_gpu), self.phase("candidate.cases"):
            for case in others:
                self._answer(run, case)
            seen = [call_from(e.case, e.said, UNKNOWN) for e in run.made if e.said]
            for case in repeated(self.rng, seen, self.device):
                self._answer(run, case)
        with self.turn(exclusive_gpu), self.phase("candidate.time"):
            self._time(run)
        with self.phase("candidate.signs"):
            run.libraries = tuple(path for path in self.candidate.libraries() if path not in before)
            run.signs = signs_from(self._tell(do="signs"))

    @property
    def _may_use_gpu(self) -> bool:
        """Whether the trial may run on a GPU; libraries need one whatever the device."""
        return self.options.device != "cpu" or self.solution.is_library

    def _started(self) -> Json:
        """Return the arguments of the constructor, once the problem is loaded. The candidate's process begins
        to use a GPU meanwhile, which takes half a second."""
        if self.device != "cuda":
            return self.answered()["init"]
        self.candidate.tell({"do": "warm", "device": self.device})
        init = self.answered()["init"]
        self.candidate.answer()
        return init

    def _opening(self, run: Run, hello: Json) -> Json:
        """Find the device, and return what has the problem file loaded there. Raises DiagnosticError."""
        self._bus = str(hello.get("bus", ""))
        if self.device == "auto":
            self.device = "cuda" if hello["cuda"] else "cpu"
        if self.device == "cuda" and not hello["cuda"]:
            raise _error("MU7101", f"no GPU to audit on: {hello['reason']}", "--device cpu audits on the CPU")
        if self.device == "cpu" and self.solution.is_library:
            said = f"{self.solution.shown} needs a GPU: {hello['reason'] or '--device cpu'}"
            raise _error("MU7101", said)
        return self._asked(run, str(hello["card"]) if self.device == "cuda" else "")

    def _asked(self, run: Run, card: str) -> Json:
        run.card = card
        return {
            "do": "open",
            "problem": self.request.to_json(),
            "device": self.device,
            "memory": self.options.memory_limit << 20,
            "seed": self.weights,
            "precision": self.options.precision,
            "draws_there": self.solution.is_library,
        }

    def _answer(self, run: Run, case: Case, first: bool = False) -> None:
        filled = self._lend(self.ask(do="fill", case=case.to_json()))
        told = {"observe": case.observe, "at_work": case.is_amid, "first": first}
        said = self._tell(do="call", **told, **filled)
        outputs = descriptions(said["outputs"])
        call_from(case, said, UNKNOWN)
        self._lend(self._taken(do="room", outputs=outputs))
        self._tell(do="commit")
        said |= self._taken(do="take", case=case.to_json(), outputs=outputs)
        run.made.append(Entry(case, said))

    def _taken(self, **request: Any) -> Json:
        """Have the judge take results over. Raises CandidateFailed where these are more than it can hold."""
        answer = self.ask(**request)
        if "refused" in answer:
            raise CandidateFailed(f"its results take more memory than the judge has: {answer['refused']}")
        return answer

    # Times

    def _calibrate(self, card: str) -> None:
        """Have the judge measure the cost of its own messages, before the candidate is loaded."""
        case = Case("trial", self.weights)
        self._lend(self.ask(do="fill", case=case.to_json()))
        for count in HANDING_BYTES[: 2 if self.device == "cuda" else 1]:
            outputs = [{"dtype": "uint8", "shape": [count]}]
            self._lend(self.ask(do="room", outputs=outputs))
            self._tell(do="stand_in", count=count, recorded=False)
            found = self._calibrated(case, count)
            if found.get("refused"):
                # The GPU waits for no number here: words are told as on a CPU.
                self._lend(self.ask(do="room", outputs=outputs))
                self._calibrated(case, count)
            elif self.device == "cuda":
                self._idle_ms = float(found.get("measured", 0.0))
        if self.device == "cuda":
            if card not in self.smallest:
                self.smallest[card] = self._kernel_us(case)
            self.ask(do="deduct", us=self.smallest[card])

    def _kernel_us(self, case: Case) -> float:
        """Return what the smallest of kernels takes, as CUPTI records it in calls that are timed."""
        self._lend(self.ask(do="room", outputs=[{"dtype": "uint8", "shape": [HANDING_BYTES[0]]}]))
        self._tell(do="stand_in", count=HANDING_BYTES[0], recorded=True)
        us = [float(one) for one in self._calibrated(case, HANDING_BYTES[0])["us"]]
        return median(us) if us else KERNEL_US

    def _calibrated(self, case: Case, results: int) -> Json:
        return self._tell_series(do="calibrate", case=case.to_json(), count=CALIBRATION, results=results)

    def _time(self, run: Run) -> None:
        """Time calls, each on inputs of its own; once more where times are not steady."""
        self._look_for_others()
        first = 0
        for attempt in range(TRIES):
            cases = self._cases(first)
            if self._looker:
                self._looker.settle()
            waiting, series = self._series(run, cases)
            times = [Times(*t) for found in series for t in found["times"]]
            made = [(c, t) for c, t in zip(cases, times, strict=False) if not c.watched][WARM:]
            timing = timing_of([t for _, t in made], series, run.timing)
            busy = waiting / max(sum(t.handed for _, t in made), 1e-3) if self.device == "cpu" else 0.0
            run.timing = replace(timing, busy=busy)
            if looker := self._looker:
                run.timing = replace(run.timing, restless=tuple(looker.restless), helped=tuple(looker.helped))
            names = [c.name for c, _ in made]
            run.decisive |= {names[n] for n in run.timing.decisive}
            first += len(times)
            if is_steady(run.timing.calls) or run.timing.is_disturbed:
                break
            time.sleep(0.2 * attempt)
        until = time.monotonic() + (MORE if self._can_look and self.device == "cpu" else 0.0)
        while (left := until - time.monotonic()) > 0 and (count := self._missing(run)):
            cases = [replace(c, watched=True) for c in timed_cases(self.rng, first, count, 0)]
            first += len(self._part(run, cases, left, 1)["times"])

    def _look_for_others(self) -> None:
        """Note which processes use the GPU that are not of audits of the same process. Where the driver does
        not name the judge's process, its numbers are of another namespace, and tell nothing."""
        found = compute_processes(self._bus) if self.device == "cuda" and self._bus else frozenset[int]()
        if self.judge.pid in found:
            self._others |= found - self.judge.kin()

    @property
    def _can_look(self) -> bool:
        """Whether the system tells what the candidate's process runs."""
        return bool(self._looker and self._looker.is_open)

    def _missing(self, run: Run) -> int:
        """Return how many further calls to watch: as many as bring looks enough, by how many counted so far,
        and `LOOKS` where what was seen of PyTorch may be chance."""
        observed = [call_from(e.case, e.said, UNKNOWN) for e in run.made if e.said and e.case.observe]
        looks = [look for look in run.looks if not look.hidden]
        chance = surprise(looks, observed).chance
        if chance < RISK:
            return 0
        if chance < DOUBTFUL:
            return LOOKS
        watched = sum(e.case.watched for e in run.made)
        return min(math.ceil(max(ENOUGH - len(looks), 0) * watched / max(len(looks), 1)), LOOKS)

    def _cases(self, first: int) -> list[Case]:
        """Return the calls of a timed series; some of them are watched."""
        if not self._can_look:
            return timed_cases(self.rng, first, WARM + self.options.runs, WARM + FEWEST)
        watched = watched_ones(self.rng, self.options.runs, FEWEST)
        cases = timed_cases(self.rng, first, len(watched), WARM + FEWEST + SURELY_WATCHED)
        return [replace(case, watched=is_one) for case, is_one in zip(cases, watched, strict=True)]

    def _series(self, run: Run, cases: list[Case]) -> tuple[float, list[Json]]:
        """Time calls, in parts between which the profiler looks at others; how long threads waited for a
        processor meanwhile in ms, and what the judge has found of each part."""
        sure = WARM + FEWEST + (SURELY_WATCHED if self._can_look else 0)
        cuts = divided(self.rng, len(cases), sure)
        left, waiting = BUDGET, 0.0
        series: list[Json] = []
        for n, (begin, end) in enumerate(pairwise([0, *cuts, len(cases)])):
            fewest = min(max(sure - begin, 0), end - begin)
            if left <= 0 and not fewest:
                break
            if n:
                self._answer(run, amid_case(self.rng, sum(e.case.is_amid for e in run.made)))
            started, self._waited = time.monotonic(), 0.0
            found = self._part(run, cases[begin:end], max(left, 0.0), fewest)
            left -= time.monotonic() - started
            waiting += self._waited * 1e3 + float(found["waited"])
            series.append(found)
            if len(found["times"]) < end - begin:
                break
        if len(series) == 1:
            self._answer(run, amid_case(self.rng, sum(e.case.is_amid for e in run.made)))
        return waiting, series

    def _part(self, run: Run, cases: Sequence[Case], budget: float, fewest: int) -> Json:
        """Have calls of a series made, and keep what was seen; return what the judge has found of them."""
        said = [case.to_json() for case in cases]
        found = self._tell_series(do="series", cases=said, budget=budget, fewest=fewest)
        made = list(zip(cases, starmap(Times, found["times"]), strict=False))
        told = zip(cases, found["operations"], strict=False)
        run.operations |= {case.name: names for case, names in told if names is not None}
        run.made += (Entry(case, None) for case, _ in made)
        run.looks += self._looker.taken(made, self.device == "cuda") if self._looker else ()
        return found

    # The reference

    def comparison(self, number: int) -> Comparison:
        """Compare one call."""
        return Comparison(**self.ask(do="judge", number=number))

    def facts(self, known: bool) -> Json:
        """Return what the reference is like."""
        return self.ask(do="facts", known=known)

    def reference_ms(self) -> float:
        """Return the time of the reference."""
        with self.turn(exclusive_gpu):
            return float(self.ask(do="time", runs=self.options.runs)["ms"])


def _error(code: str, message: str, *helps: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, helps=helps))
