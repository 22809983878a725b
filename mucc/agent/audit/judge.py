"""The judge's process: owns inputs, results and the clock while a candidate runs, and compares afterwards.

Of a candidate's process it knows a socket and shared memory alone. Nothing expected is computed before that
process has ended. Imports torch.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Sequence
from typing import Any

from mucc.agent.audit.cases import Case
from mucc.agent.audit.lending import Lender
from mucc.agent.audit.referee import Given, Referee
from mucc.agent.audit.rooms import Closed, Wire
from mucc.agent.audit.threads import few
from mucc.agent.audit.timing import Stopwatch
from mucc.agent.isolation.line import Line
from mucc.agent.isolation.server import SHARED
from mucc.api.diagnostics import DiagnosticError
from mucc.api.importer import error_to_json, limit_process
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

THREADS = 2
"""Of the judge on the host beside a GPU: who waits for more of them waits for other work too."""


class Judge:
    """Inputs, results and times of one candidate, and the reference."""

    def __init__(self, request: Json, wire: Wire, line: Line):
        device, memory = torch.device(request["device"]), int(request["memory"])
        limit_process(memory, addresses=device.type == "cpu", files=memory)
        if device.type == "cuda":
            torch.set_num_threads(THREADS)
        gc.freeze()  # torch's modules are no garbage: series collect what came since only
        self.referee = Referee(request)
        self.lender = Lender(self.referee.problem, self.referee.shown, device, memory, wire)
        self.given: list[Given] = []
        self.stopwatch = Stopwatch(self.lender, self.given, line)

    def fill(self, case: Case) -> Json:
        """Show the inputs of a case to the candidate's process, and tell where they are."""
        told = self.lender.prepare(case)
        with few(self.lender.size(case)):
            self.lender.show(case)
        return told

    def take(self, case: Case, described: Sequence[Json]) -> Json:
        """Keep the results that were handed over, and say whether inputs are what they were."""
        guarded = self.lender.slots[case.slot].guarded
        with few(self.lender.size(case)):
            self.given.append(Given(case, list(described), self.lender.kept(case, described)))
            return {
                "inputs_changed": [n for n, g in enumerate(guarded) if g.changed()],
                "bands_changed": [n for n, g in enumerate(guarded) if g.bands_changed()],
            }


OF_RESULTS = ("room", "take")
"""Requests that need memory for what a candidate says it has returned."""


def hello() -> Json:
    """Return the devices that can be audited on here."""
    from mucc.api.machine import bus_of, no_gpu

    reason = no_gpu()
    card = "" if reason else torch.cuda.get_device_name()
    bus = "" if reason else bus_of(torch.cuda.current_device())
    return {"cuda": reason is None, "reason": reason, "card": card, "bus": bus}


def serve(line: Line) -> None:
    """Answer requests until there are no more."""
    judge: Judge | None = None
    for request in line.requests():
        try:
            line.say(_answer(judge := judge or _opened(request, line), request))
        except DiagnosticError as error:
            line.say({"errors": error_to_json(error)})
        except Closed:
            line.say({"closed": True})
        except (OSError, MemoryError, RuntimeError) as error:
            if request["do"] not in OF_RESULTS:
                raise
            line.say({"refused": f"{type(error).__name__}: {error}"})


def _opened(request: Json, line: Line) -> Judge | None:
    return Judge(request, Wire(SHARED), line) if request["do"] == "open" else None


def _answer(judge: Judge | None, request: Json) -> Json:
    if request["do"] == "hello":
        return hello()
    assert judge
    match request["do"]:
        case "open":
            return judge.lender.arguments()
        case "fill":
            return judge.fill(Case(**request["case"]))
        case "room":
            return {"lent": judge.stopwatch.room(request["outputs"])}
        case "take":
            return judge.take(Case(**request["case"]), request["outputs"])
        case "series":
            cases = [Case(**c) for c in request["cases"]]
            return judge.stopwatch.series(cases, request["budget"], request["fewest"])
        case "calibrate":
            case = Case(**request["case"])
            return judge.stopwatch.calibrate(case, request["count"], request["results"])
        case "deduct":
            return judge.stopwatch.deduct(float(request["us"]))
        case "clear":
            return judge.stopwatch.clear_again()
        case "judge":
            return judge.referee.judge(judge.given[int(request["number"])])
        case "facts":
            return judge.referee.facts(known=request["known"])
        case "time":
            return {"ms": judge.referee.timed(request["runs"])}
        case other:
            raise ValueError(f"no request: {other}")
