"""The child process of `comparison`: call a problem's baselines and a candidate on the same tensors. Imports
torch.

The baselines are PyTorch as it is (`default`: products of f32 in f32, convolutions in tf32), with all of them
in tf32 (`tf32`), and torch.compile in its default mode with all of them in tf32 (`compile`).

    {"do": "open", "problem": path, "driver": path or null, "device": …, "tf32": …}  -> {} or {"raised": …}
    {"do": "compile"}                                                               -> {"failed": {…}}
    {"do": "time", "budget_ms": …, …}                                               -> {"ms": {…}}
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from mucc.agent.evaluate.timing import within
from mucc.agent.isolation.line import Line
from mucc.agent.isolation.priority import ahead, behind
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

CANDIDATE = "mucc"

SEED = 42


class Contenders:
    """The timed calls by name. One that fails on its first call is left out, with its reason in `failed`."""

    def __init__(self, problem: Path, device: str):
        self.device = torch.device(device)
        self.calls: dict[str, Callable[[], Any]] = {}
        self.failed: dict[str, str] = {}
        self.problem = module(problem, "mucc_problem")
        self.model = self._made(self.problem.Model)
        with self.device:
            made = self.problem.get_inputs()
        self.inputs = torch.utils._pytree.tree_map_only(torch.Tensor, self._moved, made)

    def add_default(self) -> Any:
        """Add PyTorch with its defaults; return its result, or None where it fails."""
        return self._add("default", lambda: self._call(self.model, tf32=False))

    def add_tf32(self) -> Any:
        """Add PyTorch with all products in tf32."""
        return self._add("tf32", lambda: self._call(self.model, tf32=True))

    def add_compiled(self) -> Any:
        """Add torch.compile with all products in tf32."""
        return self._add("compile", lambda: self._call(torch.compile(self.model), tf32=True))

    def add_candidate(self, driver: Path, *, tf32: bool) -> Any:
        """Add a candidate; `tf32` is for the operations that PyTorch runs."""

        def make() -> Callable[[], Any]:
            return self._call(self._made(module(driver, "mucc_driver").ModelNew), tf32=tf32)

        return self._add(CANDIDATE, make)

    def times(self, budget_ms: float, fewest: int, most: int) -> dict[str, float]:
        """Return the median time of each contender in ms, in turns, each from a cold L2."""
        with torch.no_grad():
            found = within(self.calls, budget_ms, fewest, most, self.device) if self.calls else {}
        return {name: median(times) for name, times in found.items()}

    def _moved(self, tensor: Any) -> Any:
        return tensor.to(self.device)

    def _made(self, model: Any) -> Any:
        """Make a model on the device, with the same weights for all contenders."""
        torch.manual_seed(SEED)
        with self.device:
            get_init = getattr(self.problem, "get_init_inputs", list)
            return model(*get_init()).to(self.device)

    def _call(self, model: Any, *, tf32: bool) -> Callable[[], Any]:
        def call() -> Any:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return model(*self.inputs)

        return call

    def _add(self, name: str, make: Callable[[], Callable[[], Any]]) -> Any:
        """Add the first result of a contender; None if it fails."""
        try:
            with torch.no_grad():
                call = make()
                torch.manual_seed(SEED)
                result = call()
                if self.device.type == "cuda":
                    torch.cuda.synchronize()
        except Exception as error:
            self.failed[name] = _told(error)
            return None
        self.calls[name] = call
        return result


def _told(error: Exception) -> str:
    """Return an exception in one line."""
    text = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {text}"[:300]


def module(path: Path, name: str) -> Any:
    """Load a Python file as a module. Raises what the file raises."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def serve(line: Line) -> None:
    """Answer requests until there are no more."""
    found: Contenders | None = None
    for request in line.requests():
        answer: Json = {}
        match request.pop("do"):
            case "open":
                try:
                    found = Contenders(Path(request["problem"]), request["device"])
                except Exception as error:
                    line.say({"raised": _told(error)})
                    return
                found.add_default()
                found.add_tf32()
                if request["driver"]:
                    found.add_candidate(Path(request["driver"]), tf32=request["tf32"])
            case "compile":
                assert found
                with behind():
                    found.add_compiled()
                answer = {"failed": found.failed}
            case "time":
                assert found
                with ahead():
                    answer = {"ms": found.times(**request)}
            case other:
                raise ValueError(f"no request: {other}")
        line.say(answer)
