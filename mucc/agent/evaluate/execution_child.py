"""The child process of `execution`: load a problem and a candidate's driver, check one result, time calls.
Imports torch.

    {"do": "open", "problem": …, "device": …, …}            -> {"device": "cuda", "card": …}
    {"do": "load", "driver": path}                          -> {}
    {"do": "check", "precision": …, "seed": …, "noise": …}  -> {"correct": …, "why": …, …}
    {"do": "time", "budget_ms": …, …}                       -> {"times": […]}

What it says of itself is a first sight: before a result counts, an audit decides.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import math
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from mucc.agent.audit.cases import Case
from mucc.agent.audit.inputs import leaves, make_inputs, sampled
from mucc.agent.audit.rounding import permitted
from mucc.agent.evaluate.protocol import Checked, Failed, Loaded, Opened, Timed
from mucc.agent.evaluate.timing import within
from mucc.agent.isolation.confine import Confined
from mucc.agent.isolation.line import Line
from mucc.agent.isolation.priority import ahead, behind
from mucc.api.diagnostics import DiagnosticError
from mucc.api.importer import OpenedProblem, Request, error_to_json, limit_process, parse_problem, raised
from mucc.api.json_types import Json
from mucc.api.measure import UNKNOWN, compared, dtype_name, form, in_float64

torch: Any = importlib.import_module("torch")


class ProblemFailed(Exception):
    """The problem file is at fault, not the candidate."""

    def __init__(self, error: DiagnosticError):
        super().__init__(str(error))
        self.error = error


class Expected(NamedTuple):
    """PyTorch's own results, in the arithmetic that the policy permits where that is another, and exact ones
    with the seconds that they took; or the first twice, and the error that they are taken to have over their
    size."""

    own: list[Any]
    narrow: list[Any]
    exact: list[Any]
    noise: float
    seconds: float | None = None


class Trial:
    """A problem and a candidate."""

    def __init__(self, request: Json):
        limit_process(request["memory"], addresses=request["device"] == "cpu")
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["output"], request["output"]))
        self.confined = Confined([os.getcwd()])
        asked = Request.from_json(request["problem"])
        self.shown = asked.shown
        try:
            self.problem = OpenedProblem(asked, parse_problem(asked.shown, asked.text))
        except DiagnosticError as error:
            raise ProblemFailed(error) from None
        self.device, self.card, self.reason = _device(request["device"])
        self.driver: Any = None
        self.path = ""
        self.model: Any = None
        self.inputs: tuple[Any, ...] = ()

    def opened(self) -> Opened:
        """Open the device; `reason` says why it is not a GPU."""
        return {"device": self.device.type, "card": self.card, "reason": self.reason}

    def load(self, driver: str) -> Loaded:
        """Load the candidate's driver."""
        self.path = driver
        spec = importlib.util.spec_from_file_location("mucc_driver", driver)
        assert spec and spec.loader
        self.driver = importlib.util.module_from_spec(spec)
        sys.modules["mucc_driver"] = self.driver
        spec.loader.exec_module(self.driver)
        return {}

    def check(self, precision: str, seed: int, noise: float | None) -> Checked:
        """Compare one result with the reference, on fresh inputs.

        `noise` is the error of PyTorch's own results over their size where that is known, and float64 takes
        too long.
        """
        expected = self._expected(precision, seed, noise)
        torch.manual_seed(seed)
        with self.device:
            model = self.driver.ModelNew(*self.problem.init_inputs())
        self.model = model.to(self.device) if isinstance(model, torch.nn.Module) else model
        torch.manual_seed(seed)
        got = leaves(self.call())
        self._wait()
        excess, why, own_noise = _judged(got, expected, precision, seed)
        return {
            "correct": not why,
            "why": why,
            "excess": min(excess, 1e30),
            "noise": own_noise,
            "exact_seconds": expected.seconds,
        }

    def _expected(self, precision: str, seed: int, noise: float | None) -> Expected:
        """PyTorch's own results, and exact ones where they can be had."""
        torch.manual_seed(seed)
        try:
            with self.device:
                model = self.problem.model().to(self.device)
            self.inputs = make_inputs(self.problem, Case("trial", seed), self.device)
        except DiagnosticError as error:
            raise ProblemFailed(error) from None
        exact: list[Any] | None = None
        started = time.monotonic()
        if noise is None:
            with suppress(Exception):
                exact = self._run(copy.deepcopy(model).double(), in_float64, seed)
        seconds = time.monotonic() - started
        narrow: list[Any] = []
        if precision != "declared":
            with suppress(Exception), permitted(precision):
                narrow = self._run(copy.deepcopy(model), _copy, seed)
        try:
            own = self._run(model, _copy, seed)
        except Exception as error:
            told = raised(self.shown, "Model", error)
            assert isinstance(told, DiagnosticError)
            raise ProblemFailed(told) from None
        narrow = narrow if len(narrow) == len(own) else [None] * len(own)
        if exact is None or len(exact) != len(own):
            return Expected(own, narrow, own, noise or UNKNOWN)
        return Expected(own, narrow, exact, 0.0, seconds)

    def _run(self, model: Any, of: Callable[[Any], Any], seed: int) -> list[Any]:
        """Return the results of a model on copies of the inputs."""
        given = torch.utils._pytree.tree_map(of, self.inputs)
        torch.manual_seed(seed)
        with torch.no_grad():
            found = leaves(model(*given))
        self._wait()
        return found

    def call(self) -> Any:
        """One call of the candidate."""
        with torch.no_grad():
            return self.model(*self.inputs)

    def time(self, budget_ms: float, fewest: int, most: int) -> Timed:
        """Time calls, in ms."""
        return {"times": within({"mucc": self.call}, budget_ms, fewest, most, self.device)["mucc"]}

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def failed(self, error: BaseException) -> Failed:
        """Return the exception of a candidate, and the kind of failure."""
        kind = "raised"
        no_room = self.device.type == "cpu" and "can't allocate memory" in str(error)
        if no_room or isinstance(error, MemoryError | torch.OutOfMemoryError):
            kind = "memory"
        elif not self._works():
            kind = "fault"
        return {"failed": _told(error, self.path), "kind": kind, "outside": list(self.confined.tried)}

    def _works(self) -> bool:
        """Whether the GPU still takes launches of this process: a fault ends that for good."""
        try:
            self._wait()
            torch.zeros(1, device=self.device).item()
        except Exception:
            return False
        return True


def _judged(got: list[Any], expected: Expected, precision: str, seed: int) -> tuple[float, str, float]:
    """Return the largest error over what is tolerated, what is wrong if anything, and PyTorch's own error
    over the size of results.
    """
    if len(got) != len(expected.own):
        return math.inf, f"{len(got)} results, {len(expected.own)} expected", 0.0
    worst, noise = 0.0, 0.0
    for n, (mine, near, few, want) in enumerate(zip(got, *expected[:3], strict=True)):
        if not isinstance(near, torch.Tensor):
            if type(mine) is not type(near) or mine != near:
                return math.inf, f"result {n} is {mine!r:.80}, {near!r} expected", noise
            continue
        shape = list(mine.shape) if isinstance(mine, torch.Tensor) else None
        if why := form(n, near, "" if shape is None else dtype_name(mine), shape):
            return math.inf, why, noise
        given, exact, own, narrow = (
            None if v is None else sampled(v.detach().to(near.device).reshape(-1), seed)
            for v in (mine, want, near, few)
        )
        found = compared(given, exact, own, precision, expected.noise, narrow)
        worst, noise = max(worst, found.excess), max(noise, found.noise)
        if found.excess > 1:
            return worst, f"result {n} {found.why}", noise
    return worst, "", noise


def _device(asked: str) -> tuple[Any, str, str]:
    """Return the device, its card, and the reason if it is not the requested one."""
    from mucc.api.machine import no_gpu

    reason = None if asked == "cpu" else no_gpu()
    if asked == "cpu" or reason:
        return torch.device("cpu"), "", reason or ""
    return torch.device("cuda", 0), torch.cuda.get_device_name(0), ""


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _told(error: BaseException, path: str) -> str:
    """Return an exception in one line, with the innermost line of the driver that it came through."""
    text = (str(error).strip() or "no message").splitlines()[0][:300]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    place = f" (line {frames[-1].lineno} of the driver)" if frames else ""
    return f"{type(error).__name__}: {text}{place}"


def serve(line: Line) -> None:
    """Answer requests until there are no more."""
    trial: Trial | None = None
    for request in line.requests():
        do = request.pop("do")
        answer: dict[str, object]
        try:
            with ahead() if do == "time" else behind():
                if do == "open":
                    trial = Trial(request)
                    answer = {**trial.opened()}
                else:
                    assert trial
                    does = {"load": trial.load, "check": trial.check, "time": trial.time}[do]
                    answer = {**does(**request)}
                if trial.confined.tried:
                    answer["outside"] = list(trial.confined.tried)
        except ProblemFailed as failed:
            answer = {"errors": error_to_json(failed.error)}
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            answer = {**trial.failed(error)} if trial else {"failed": _told(error, ""), "kind": "raised"}
        line.say(answer)
