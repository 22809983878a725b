"""Check a kernel and other implementations of it, and time them, interleaved. Imports torch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from mucc.measure.run_gpu import poison, random_inputs
from mucc.measure.timing import interleaved_us
from mucc.measure.verify import Verdict, against, references
from mucc.process.alarm import limited
from mucc.runtime.torch_glue import TorchKernel

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation
    from mucc.runtime.kernel import Kernel

torch: Any = importlib.import_module("torch")

LOOSE = 16
"""How many times the tolerance of a kernel a contender's error may be; it is shown."""

Function = Callable[..., Any]
"""From the kernel's inputs to its outputs: a tensor, or a tuple of tensors."""


class Timed(NamedTuple):
    """A contender: its time and its error, or why it has none."""

    name: str
    time_us: float | None = None
    error: float | None = None
    problem: str = ""


def function_of(path: Path, kernel: str) -> tuple[Function | None, str]:
    """Return the function for a kernel from a Python file, or why there is none."""
    if not path.exists():
        return None, f"there is no file {path.name} with it"
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where Helion looks names up
    sys.path.insert(0, str(path.parent.absolute()))  # as for a script: it may import files beside it
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        return None, f"{error.name} is not installed"
    except Exception as error:
        return None, f"{path.name} cannot be loaded: {type(error).__name__}: {error}"
    finally:
        sys.path.pop(0)
    found = getattr(module, kernel, None)
    return (found, "") if callable(found) else (None, f"{path.name} has no function {kernel}")


class TooLong(BaseException):
    """The end of a first call that takes too long; no Exception, since tuners go on after those."""


def compiled(function: Function) -> Function:
    """Return a function compiled by Inductor with its own tuning."""
    return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


def timed(
    compilation: Compilation,
    kernel: Kernel,
    dims: dict[str, int],
    seed: int,
    contenders: Mapping[str, Function],
    iters: int,
    progress: Callable[[str], None] = lambda _: None,
    first_call_s: float | None = None,
) -> list[Timed]:
    """Check the kernel and its contenders on the same inputs, and time those that are right, interleaved.

    A contender may compile and tune itself for `first_call_s` seconds in its first call.
    f32 products of PyTorch are in tf32, as those of programs are unless they say otherwise.
    """
    device = torch.device("cuda", torch.cuda.current_device())
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        inputs = random_inputs(kernel.info, dims, seed, device)
        outs = TorchKernel(kernel).allocate(inputs)
        for out in outs:
            poison(out)
        size = kernel.workspace_bytes(*inputs, *outs)
        workspace = [torch.empty(size, dtype=torch.uint8, device=device)] if size else []

        def ours() -> Any:
            kernel.ffi(*inputs, *outs, *workspace)
            return outs

        launches: dict[str, Function] = {"mucc": ours}
        launches |= {name: partial(function, *inputs) for name, function in contenders.items()}
        wanted = references(compilation, kernel.info, inputs)
        found = {
            name: _checked(kernel, name, launch, wanted, progress, first_call_s)
            for name, launch in launches.items()
        }
        good = [name for name, one in found.items() if not one.problem]
        times = interleaved_us([launches[name] for name in good], iters, device)
        for name, one in zip(good, times, strict=True):
            found[name] = found[name]._replace(time_us=median(one))
        return list(found.values())
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _checked(
    kernel: Kernel,
    name: str,
    launch: Function,
    wanted: Sequence[Any],
    progress: Callable[[str], None],
    first_call_s: float | None,
) -> Timed:
    """Run a contender once, and compare what it gives with the float64 interpreter."""
    progress(f"{name}: first call")
    try:
        with limited(first_call_s, TooLong()):
            given = launch()
            torch.cuda.synchronize()
    except TooLong:
        return Timed(name, problem=f"its first call is not done after {first_call_s:g} s")
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        return Timed(name, problem=f"{type(error).__name__}: {first}"[:300])
    values: list[Any] = [*given] if isinstance(given, tuple | list) else [given]
    outputs = kernel.info.outputs
    if len(values) != len(outputs):
        return Timed(name, problem=f"it returns {len(values)} values, the kernel has {len(outputs)} outputs")
    verdicts = [
        against(a.name, a.dtype, value.to(torch.float64), want, torch)
        for a, value, want in zip(outputs, values, wanted, strict=True)
    ]
    error = max(v.relative for v in verdicts)
    bad = [v.name for v in verdicts if not (v.good or (name != "mucc" and _is_near(v)))]
    return Timed(name, error=error, problem=f"{', '.join(bad)} differs from the interpreter" if bad else "")


def _is_near(verdict: Verdict) -> bool:
    """Whether a contender computes the same, though it may round every step to 16 bits."""
    return not verdict.wrong and verdict.relative <= LOOSE * verdict.tolerance


# Results


def table(results: Sequence[Timed]) -> str:
    """Lay out results, mucc first: time, time over that of mucc, error."""
    ours = next((r.time_us for r in results if r.name == "mucc"), None)
    width = max(len(r.name) for r in results)
    lines = [f"{'':<{width}}  {'µs':>9}  {'of mucc':>8}  {'error':>8}"]
    for r in results:
        if r.time_us is None:
            lines.append(f"{r.name:<{width}}  {'-':>9}  {r.problem}")
            continue
        ratio = f"{r.time_us / ours:8.2f}" if ours else f"{'-':>8}"
        lines.append(f"{r.name:<{width}}  {r.time_us:9.2f}  {ratio}  {r.error or 0:8.1e}")
    return "\n".join(lines) + "\n"


BAR, LABEL, PLOT = 22, 90, 420


def plot(title: str, results: Sequence[Timed]) -> str:
    """Draw bars of the times as an SVG, the shorter the faster."""
    drawn = [(r.name, r.time_us) for r in results if r.time_us is not None]
    longest = max((time for _, time in drawn), default=1.0)
    height = 40 + BAR * len(drawn)
    text = '<text x="{}" y="{}" font-family="sans-serif" font-size="12"{}>{}</text>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + PLOT + 90}" height="{height}">',
        '<rect width="100%" height="100%" fill="white"/>',
        text.format(8, 20, "", _escaped(title)),
    ]
    for i, (name, time) in enumerate(drawn):
        y, length = 32 + BAR * i, PLOT * time / longest
        colour = "#2a6f97" if name == "mucc" else "#adb5bd"
        parts.append(text.format(LABEL - 8, y + 14, ' text-anchor="end"', _escaped(name)))
        parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 6}" fill="{colour}"/>')
        parts.append(text.format(round(LABEL + length + 6, 1), y + 14, "", f"{time:.1f} µs"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
