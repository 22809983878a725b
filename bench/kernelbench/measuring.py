"""The last stage: a candidate is judged, and timed beside the baselines. Imports torch where it is called."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.kernelbench.children import Turn
from bench.kernelbench.importing import Values, folder_of
from bench.kernelbench.options import Options
from bench.kernelbench.verdicts import judge
from mucc.agent.core.tasks import BASELINES
from mucc.agent.importing.problems import Problem
from mucc.process.gpu_lock import exclusive_gpu
from mucc.process.gpu_memory import out_of_memory

if TYPE_CHECKING:
    from mucc.agent.evaluate.comparison_child import Contenders

__all__ = ["BASELINES", "in_tf32", "is_short", "measure"]

TIMED_MS = 600.0
"""What the runs of all contenders may take together; at least FEWEST of each."""

FEWEST = 5


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


def is_short(row: Values) -> bool:
    """Whether PyTorch, the audit, or the process itself ran out of memory."""
    texts = [row.get("error"), row.get("unjudged"), row.get("failure"), *row.get("failed", {}).values()]
    return any(out_of_memory(str(text)) for text in texts if text)


def in_tf32(imported: Values, options: Options) -> bool:
    """Whether a candidate multiplies f32 in tf32: where asked to, and as PyTorch does in convolutions."""
    return options.compute in (None, "tf32") and "tensor.tf32" in imported.get("amounts", {})


def _timed(folder: Path, imported: Values, options: Options, turn: Turn) -> Values:
    from mucc.agent.evaluate.comparison_child import CANDIDATE, Contenders

    found = Contenders(folder / "problem.py", options.device)
    row: Values = {"failed": found.failed}
    row |= _first_results(found, folder, imported, options)
    found.add_compiled()
    turn()
    with exclusive_gpu():
        times = found.times(TIMED_MS, FEWEST, options.runs)
    return row | {"ms" if n == CANDIDATE else f"{n}_ms": round(ms, 6) for n, ms in times.items()}


def _first_results(found: Contenders, folder: Path, imported: Values, options: Options) -> Values:
    """Add PyTorch and the candidate; whether their results agree, which the audit judges more strictly."""
    expected = found.add_default()
    found.add_tf32()
    if imported["compiled"] == "none":
        return {}
    driver = folder / f"{imported['name']}_driver.py"
    got = found.add_candidate(driver, tf32=options.compute == "tf32")
    if got is None or expected is None:
        return {}
    return {"agrees_on_gpu": _agree(expected, got, "tf32" if in_tf32(imported, options) else "declared")}


def _agree(expected: Any, got: Any, precision: str) -> bool:
    """Whether results are within what is tolerated, where PyTorch's own are taken for exact."""
    from mucc.torch.importer.tolerance import compared, dtype_name, form

    torch: Any = importlib.import_module("torch")
    leaves = torch.utils._pytree.tree_leaves
    pairs = zip(leaves(expected), leaves(got), strict=True)
    return all(
        not form(n, e, dtype_name(g), list(g.shape)) and compared(g, e, e, precision).excess <= 1
        for n, (e, g) in enumerate(pairs)
        if isinstance(e, torch.Tensor)
    )
