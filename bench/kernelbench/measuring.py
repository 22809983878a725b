"""The last stage: a candidate is judged, and timed against three baselines in turns.

The baselines are PyTorch as it is (`default`: products of f32 in f32, convolutions in tf32), with all of them
in tf32 (`tf32`), and torch.compile with all of them in tf32 (`compile`). Imports torch where it is called.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.kernelbench.importing import Values, folder_of
from bench.kernelbench.options import Options
from bench.kernelbench.verdicts import judge
from mucc.agent.engine.children import Turn
from mucc.agent.engine.problems import Problem

BASELINES = ("default", "tf32", "compile")

SEED = 42

TIMED_MS = 600.0
"""What the runs of all contenders may take together; at least FEWEST of each."""

FEWEST = 5

TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 2e-2}
"""By dtype, of (|reference| + its root mean square); what is computed in tf32 gets that of float16."""


def measure(problem: Problem, options: Options, imported: Values, turn: Turn) -> Values:
    """Judge and time what was built of a problem; times in ms. Runs in its process, on a GPU."""
    folder = folder_of(problem, options)
    row: Values = {}
    if imported["compiled"] != "none" and options.audit:
        driver = folder / f"{imported['name']}_driver.py"
        bound = imported.get("sol_tf32_ms") or None  # the lowest: f32 may be made of several tf32 products
        row |= judge(folder / "problem.py", driver, options, bound, tf32=in_tf32(imported, options))
    row |= _timed(folder, imported, options, turn)
    return row


def in_tf32(imported: Values, options: Options) -> bool:
    """Whether a candidate multiplies f32 in tf32: where asked to, and as PyTorch does in convolutions."""
    return options.compute in (None, "tf32") and "tensor.tf32" in imported.get("amounts", {})


def _timed(folder: Path, imported: Values, options: Options, turn: Turn) -> Values:
    torch: Any = importlib.import_module("torch")
    found = _Contenders(torch, options.device)
    row: Values = {"failed": found.failed}
    with torch.no_grad():
        with torch.device(options.device):
            problem = _module(folder / "problem.py", "mucc_problem")
            model, inputs = _made(torch, problem, problem.Model, options.device)
        expected = found.add("default", lambda: _call(torch, model, inputs, tf32=False))
        found.add("tf32", lambda: _call(torch, model, inputs, tf32=True))
        if imported["compiled"] != "none":

            def candidate() -> Callable[[], Any]:
                driver = _module(folder / f"{imported['name']}_driver.py", "mucc_driver")
                with torch.device(options.device):
                    ours, _ = _made(torch, problem, driver.ModelNew, options.device)
                return _call(torch, ours, inputs, tf32=options.compute == "tf32")

            got = found.add("mucc", candidate)
            if got is not None and expected is not None and "correct" not in row:
                row["agrees_on_gpu"] = _agree(torch, expected, got, in_tf32(imported, options))
            del got
        found.add("compile", lambda: _call(torch, torch.compile(model), inputs, tf32=True))
        del expected
        turn()
        times = _interleaved(torch, found.calls, options.runs)
    return row | {"ms" if name == "mucc" else f"{name}_ms": round(ms, 6) for name, ms in times.items()}


class _Contenders:
    """What is timed, by name; what fails on its first call is left out, with its reason in `failed`."""

    def __init__(self, torch: Any, device: str):
        self.torch, self.device = torch, device
        self.calls: dict[str, Callable[[], Any]] = {}
        self.failed: dict[str, str] = {}

    def add(self, name: str, make: Callable[[], Callable[[], Any]]) -> Any:
        """The first result of a contender; None where it fails, which is its business alone."""
        try:
            call = make()
            self.torch.manual_seed(SEED)
            result = call()
            if self.device == "cuda":
                self.torch.cuda.synchronize()
        except Exception as error:
            text = (str(error).strip() or "no message").splitlines()[0]
            self.failed[name] = f"{type(error).__name__}: {text}"[:300]
            return None
        self.calls[name] = call
        return result


def _module(path: Path, name: str) -> Any:
    """A Python file as a module. Raises whatever it raises."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _made(torch: Any, problem: Any, model: Any, device: str) -> tuple[Any, Any]:
    """A model and inputs on a device, the same for the same seed."""
    torch.manual_seed(SEED)
    init: list[Any] = problem.get_init_inputs() if hasattr(problem, "get_init_inputs") else []
    made = model(*init).to(device)

    def moved(tensor: Any) -> Any:
        return tensor.to(device)

    return made, torch.utils._pytree.tree_map_only(torch.Tensor, moved, problem.get_inputs())


def _call(torch: Any, model: Any, inputs: Any, *, tf32: bool) -> Callable[[], Any]:
    def call() -> Any:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        return model(*inputs)

    return call


def _agree(torch: Any, expected: Any, got: Any, tf32: bool) -> bool:
    """Whether results are within what is tolerated; the audit's own judgement is stricter."""
    leaves = torch.utils._pytree.tree_leaves
    pairs = zip(leaves(expected), leaves(got), strict=True)
    return all(_near(torch, e, g, tf32) for e, g in pairs if isinstance(e, torch.Tensor))


def _near(torch: Any, expected: Any, got: Any, tf32: bool) -> bool:
    if expected.shape != got.shape or expected.dtype != got.dtype:
        return False
    if not expected.is_floating_point():
        return bool((expected == got).all())
    tolerance = TOLERANCE.get("float16" if tf32 else str(expected.dtype).removeprefix("torch."), 1e-4)
    e, g = expected.double(), got.double()
    scale = e.abs() + e.square().mean().sqrt()
    return bool(((e - g).abs() <= tolerance * scale + 1e-30).all() or torch.equal(e, g))


def _interleaved(torch: Any, contenders: Mapping[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """The median time of each contender in ms, in turns, each from a cold L2."""
    from bench.timing import time_all

    once = time_all(torch, contenders, 2)
    each = min(runs, max(FEWEST, int(TIMED_MS / max(sum(once.values()), 1e-3))))
    return time_all(torch, contenders, each)
