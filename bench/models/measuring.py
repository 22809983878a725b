"""Times and errors of a model: eager PyTorch, Inductor and mucc in the same modes, in one process."""

from __future__ import annotations

import contextlib
import copy
import gc
import importlib
import math
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast
from unittest.mock import patch

from bench.gemm.measure import captured, timed
from bench.layers.measuring import error_of
from bench.models.forms import Case, Model, laid_out
from bench.models.gate import pass_gate

Values = dict[str, Any]
Call = Callable[[], Any]

MODES = ("default", "reduce-overhead", "max-autotune")
COMPILERS = ("inductor", "mucc")

SLACK = 1.5
"""An error from float64 is good up to so many times that of eager PyTorch."""

BLOCKS = 5
"""Blocks of calls whose median is the wall time."""
BLOCK_SECONDS = 0.03


@dataclass(frozen=True)
class Setting:
    """How models are measured: modes of torch.compile, compilers, calls, and where profiles go.

    `options` are options of mucc's backend. With `warm`, first calls are also timed from full caches.
    `cache` is mucc's cache for all of them, in the place of empty ones; Inductor's is a folder of it then, so
    that contenders compile what they share once. With `gate`, a folder, a model
    that is compiled waits there until it may be timed (`pass_gate`). With `first_calls`, these alone are
    timed, in caches that are empty but for the skeletons of the cache `skeletons`. `limit` is the most
    seconds of a model, 0 for any.
    """

    modes: Sequence[str]
    compilers: Sequence[str]
    rounds: int
    warm: bool = False
    options: Mapping[str, Any] | None = None
    profiles: Path | None = None
    cache: Path | None = None
    gate: Path | None = None
    first_calls: bool = False
    limit: int = 0
    skeletons: Path | None = None

    @property
    def how(self) -> str:
        """What first calls of mucc find, or whether they wait."""
        if (self.options or {}).get("background"):
            return "background"
        return "skeletons" if self.skeletons is not None else "empty"


def measure(torch: Any, model: Model, setting: Setting) -> Values:
    """Return one row: errors, first calls in seconds, GPU and wall times in ms by contender.

    A contender is `eager`, or compiler and mode: `mucc/default`. One that fails is named in `failed`; `kept`
    has the versions of mucc's graphs that were timed at the first call.
    """
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        case = model.make(torch)
    row: Values = {"name": model.key, "first_s": {}, "gpu_ms": {}, "wall_ms": {}, "error": {}, "failed": {}}
    call = call_of(torch, on_gpu(torch, case, getattr(torch, model.dtype)), model.trains)
    exact, calls = None if setting.first_calls else _exact(torch, case, model), {"eager": call}
    row["error"]["eager"] = _error(torch, call(), exact)
    for name, compiler, mode in contenders(setting, model.other):
        try:
            calls[name] = _compiled(torch, case, model, name, compiler, mode, setting, row)
            row["error"][name] = _error(torch, calls[name](), exact)
        except Exception as error:
            row["failed"][name] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
            calls.pop(name, None)
    del exact
    gc.collect()
    torch.cuda.empty_cache()  # for the processes beside this one
    if setting.first_calls:
        how = setting.how
        return row | judged(row) | {"good": True, "name": f"{model.key}, {how}", "how": how}
    if setting.gate is not None:
        row["first_s"] = {}  # models that compile at once hold each other up
        pass_gate(setting.gate, model.key)
    graphs = {name: _captured(torch, name, c, model, row) for name, c in calls.items()}
    row["gpu_ms"] = {n: round(ms, 6) for n, ms in timed(torch, graphs, setting.rounds).items()}
    row["wall_ms"] = {name: round(ms, 6) for name, ms in wall_times(torch, calls).items()}
    if setting.profiles is not None:
        for name, c in calls.items():
            _profile(torch, c, setting.profiles / f"{model.key}.{name.replace('/', '.')}.txt")
    return row | judged(row)


def begin(torch: Any, setting: Setting) -> None:
    """Compile a small function by each contender, so that models do not pay for it; not where first calls
    are not timed.
    """
    if setting.cache is not None and not setting.first_calls:
        return

    def small(x: Any) -> Any:
        return torch.relu(x @ x)

    x = torch.randn(64, 64, device="cuda", dtype=torch.bfloat16)
    for _, compiler, mode in contenders(setting):
        torch._dynamo.reset()
        torch.compile(small, **_options(compiler, mode, setting))(x)
    torch.cuda.synchronize()


def contenders(setting: Setting, other: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield name, compiler and mode of what is compared with eager PyTorch.

    With `other`, a memory format, Inductor is one of a second name there, `inductor-channels_last`.
    """
    for mode in setting.modes:
        for compiler in setting.compilers:
            yield f"{compiler}/{mode}", compiler, mode
            if other and compiler == "inductor":
                yield f"{compiler}-{other}/{mode}", f"{compiler}-{other}", mode


def judged(row: Values) -> Values:
    """Return the ratios of a row by mode, to Inductor's faster layout, and whether mucc's errors are good."""
    found: Values = {}
    for kind in ("gpu_ms", "wall_ms", "first_s", "warm_s"):
        times = row.get(kind, {})
        for mode in MODES:
            ours = times.get(f"mucc/{mode}")
            theirs = best_of_inductor(times, mode)
            if ours and theirs == theirs:
                found.setdefault(f"over_inductor_{kind.partition('_')[0]}", {})[mode] = theirs / ours
    errors = row["error"]
    ours = [e for name, e in errors.items() if name.startswith("mucc/")]
    found["good"] = bool(ours) and all(e <= SLACK * errors["eager"] for e in ours)
    return found


def best_of_inductor(times: Mapping[str, float], mode: str) -> float:
    """Return Inductor's time in a mode, in the layout where it is least, or NaN."""
    found = [t for n, t in times.items() if n.startswith("inductor") and n.endswith(f"/{mode}")]
    return min(found, default=math.nan)


def on_gpu(torch: Any, case: Case, dtype: Any) -> Case:
    """Copy a case to the GPU, its floats in another format."""

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to("cuda", dtype if value.is_floating_point() else value.dtype)

    module = copy.deepcopy(case.module).to("cuda", dtype).eval()
    return Case(module, tuple(map(moved, case.args)), {k: moved(v) for k, v in case.keywords.items()})


def call_of(torch: Any, case: Case, trains: bool, module: Any = None) -> Call:
    """Return a function that runs the model: forward, or forward and backward."""
    run = module if module is not None else case.module

    def forward() -> Any:
        with torch.no_grad():
            return _tensor(run(*case.args, **case.keywords))

    parameters = list(case.module.parameters())

    def step() -> Any:
        out = _tensor(run(*case.args, **case.keywords)).float()
        # Results are normalised, so their mean square would have no gradient.
        weights = torch.arange(out.numel(), device=out.device).sin().reshape(out.shape)
        loss = (out * weights).mean()
        return (loss, *torch.autograd.grad(loss, parameters, allow_unused=True))

    return step if trains else forward


def _tensor(result: Any) -> Any:
    """Return the tensor that counts of a model's results, the last layer's."""
    if hasattr(result, "last_hidden_state"):
        return result.last_hidden_state
    return cast("tuple[Any, ...]", result)[0] if isinstance(result, tuple) else result


def _exact(torch: Any, case: Case, model: Model) -> Any:
    """Compute the model in float64 from the values that its weights and inputs have; in f32 where images
    are convolved, which would take minutes.
    """
    rounded = on_gpu(torch, case, getattr(torch, model.dtype))
    is_vision = any(isinstance(m, torch.nn.Conv2d) for m in case.module.modules())
    for dtype in (torch.float64, torch.float32)[is_vision:]:  # some operations have no float64
        try:
            with _without_tf32(torch):
                return call_of(torch, on_gpu(torch, rounded, dtype), model.trains)()
        except (torch.AcceleratorError, torch.OutOfMemoryError):
            raise
        except RuntimeError:
            continue
    return None


@contextlib.contextmanager
def _without_tf32(torch: Any) -> Generator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _error(torch: Any, result: Any, exact: Any) -> float:
    """Return the relative distance of a result; gradients count as one vector, since some are 0."""
    if exact is None:
        return math.nan
    if not isinstance(result, tuple):
        return error_of(torch, result, exact)
    _, *given = cast("tuple[Any, ...]", result)
    _, *wanted = cast("tuple[Any, ...]", exact)
    flat, exact_flat = (
        torch.cat([g.double().reshape(-1) for g, w in zip(given, wanted, strict=True) if w is not None]),
        torch.cat([w.double().reshape(-1) for w in wanted if w is not None]),
    )
    return error_of(torch, flat, exact_flat)


def _compiled(
    torch: Any, case: Case, model: Model, name: str, compiler: str, mode: str, setting: Setting, row: Values
) -> Call:
    """Compile a model by one compiler from empty caches, and time its first calls."""

    def first(key: str) -> Call:
        torch._dynamo.reset()
        gpu = on_gpu(torch, case, getattr(torch, model.dtype))
        if compiler.startswith("inductor-"):
            gpu = laid_out(torch, gpu, model.other)
        options = _options(compiler, mode, setting)
        module = torch.compile(gpu.module, dynamic=False, **options)
        made = call_of(torch, gpu, model.trains, module)
        if not model.trains and hasattr(gpu.module, "cache"):
            call_of(torch, gpu, False)()  # makes the cache of keys
        torch.cuda.synchronize()
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made()
            torch.cuda.synchronize()
        row.setdefault(key, {})[name] = round(time.perf_counter() - start, 3)
        if compiler == "mucc":
            options["backend"].wait()
            made()
        if compiler == "mucc" and key == "first_s":
            row.setdefault("kernels", {})[name] = sum(len(p.kernels) for p in options["backend"].programs)
            if verdicts := options["backend"].verdicts:
                row.setdefault("kept", {})[name] = [f"{v.kept}: {v}" for v in verdicts]
        return made

    with fresh_caches(torch, setting.cache, setting.skeletons):
        made = first("first_s")
        if setting.warm:
            made = first("warm_s")
    return made


def _options(compiler: str, mode: str, setting: Setting) -> Values:
    """Return the arguments of torch.compile for a contender."""
    if compiler.startswith("inductor"):
        return {"mode": None if mode == "default" else mode}
    from mucc.torch.backend import torch_backend

    return {"backend": torch_backend(mode=mode, **(setting.options or {}))}


def fresh_caches(torch: Any, cache: Path | None = None, skeletons: Path | None = None) -> Any:
    """Return a context in which the caches of Inductor and mucc are empty, or those of the folder `cache`.

    There Inductor keeps compiled kernels, and no graphs: those in its cache are not divided again. An empty
    cache of mucc gets the skeletons of the cache `skeletons`.
    """
    functorch: Any = importlib.import_module("torch._functorch.config")
    config: Any = importlib.import_module("torch._inductor.config")
    utils: Any = importlib.import_module("torch._inductor.utils")
    stack = contextlib.ExitStack()
    if cache is None:
        stack.enter_context(utils.fresh_inductor_cache())
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        stack.enter_context(patch.dict(os.environ, MUCC_CACHE_DIR=folder))
        if skeletons is not None:
            shutil.copytree(skeletons / "device", Path(folder) / "device")
    else:
        inductor = cache / "inductor"
        inductor.mkdir(parents=True, exist_ok=True)
        stack.enter_context(
            patch.dict(os.environ, MUCC_CACHE_DIR=str(cache), TORCHINDUCTOR_CACHE_DIR=str(inductor))
        )
        stack.enter_context(config.patch(fx_graph_cache=False))
        stack.enter_context(functorch.patch(enable_autograd_cache=False))
    return stack


def _captured(torch: Any, name: str, call: Call, model: Model, row: Values) -> Call:
    """Return the call as a CUDA graph if it is none yet, or as it is where it cannot be one."""
    _, _, mode = name.partition("/")
    if mode in ("reduce-overhead", "max-autotune"):
        for _ in range(3):
            call()
        return call
    try:
        return captured(torch, call)
    except Exception as error:
        row["failed"][f"{name} in a CUDA graph"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        torch.cuda.synchronize()
        return call


def wall_times(torch: Any, calls: Mapping[str, Call]) -> dict[str, float]:
    """Return the ms of a call as the host sees it, many in a row, contenders in turns."""
    counts: dict[str, int] = {}
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        counts[name] = max(3, min(100, int(BLOCK_SECONDS / (time.perf_counter() - start))))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(BLOCKS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                call()
            torch.cuda.synchronize()
            found[name].append((time.perf_counter() - start) / counts[name] * 1e3)
    return {name: median(times) for name, times in found.items()}


def _profile(torch: Any, call: Call, path: Path) -> None:
    """Write the kernels of a call with their times to a file."""
    profiler = torch.profiler
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = 3
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(runs):
            call()
        torch.cuda.synchronize()
    times: dict[str, list[float]] = {}
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times.setdefault(event.name, []).append(event.device_time)
    rows = sorted(times.items(), key=lambda item: -sum(item[1]))
    total = sum(sum(t) for t in times.values()) / runs
    lines = [f"{total:10.1f} us on the GPU in {sum(map(len, times.values())) / runs:.0f} kernels"]
    lines += [f"{sum(t) / runs:10.1f} us {len(t) / runs:6.1f} x  {n[:150]}" for n, t in rows]
    path.write_text("\n".join(lines) + "\n")
