"""Launch kernels on a GPU, with inputs drawn as `mucc run` draws them, and check them in float64.

Imports torch.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from mucc.compiler.program import compile_source
from mucc.database.records import Status
from mucc.diagnostics.core import Source
from mucc.library.errors import MuccError
from mucc.library.signature import KernelInfo, Manifest
from mucc.measure.run_gpu import poison, random_inputs
from mucc.measure.timing import interleaved_us
from mucc.measure.tune.bench import Trial
from mucc.measure.verify import Reference, against, references
from mucc.runtime.kernel import Kernel
from mucc.runtime.module import load
from mucc.runtime.torch_glue import DTYPES, TorchKernel

torch: Any = importlib.import_module("torch")

ROOM = 0.4
"""The part of the GPU's memory that has to be free before tensors of a further size are made."""

FEWEST, MOST = 5, 200
"""Launches that a time is the median of."""

LONG_US = 100.0
"""Launches that take so long draw enough power to lower a card's clocks."""


@dataclass
class Prepared:
    """Tensors for one kernel at one size: what it is given, what it should make of it, where it writes."""

    info: KernelInfo
    inputs: list[Any]
    expected: list[Reference]
    outs: list[Any] | None = None


class Gpu:
    """One GPU, the current one of torch."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.prepared: OrderedDict[tuple[object, ...], Prepared] = OrderedDict()
        self.now: Prepared | None = None
        self.ready: dict[str, Callable[[], Any]] = {}

    def hello(self) -> Mapping[str, str]:
        major, minor = torch.cuda.get_device_capability(self.device)
        return {"card": torch.cuda.get_device_name(self.device), "arch": f"sm_{major}{minor}"}

    def prepare(self, text: str, kernel: str, target: str, dims: Mapping[str, int], seed: int) -> None:
        key = (text, kernel, tuple(dims.items()), seed)
        self.ready.clear()
        if key not in self.prepared:
            self._make_room()
            compilation = compile_source(Source("<tune>", text), target, tuned=False)
            info = next(k for k in Manifest.parse(compilation.manifest).kernels if k.name == kernel)
            inputs = random_inputs(info, dict(dims), seed, self.device)
            expected = [
                wanted.each(methodcaller("to", DTYPES[a.dtype]))
                for a, wanted in zip(info.outputs, references(compilation, info, inputs), strict=True)
            ]
            self.prepared[key] = Prepared(info, inputs, expected)
        self.prepared.move_to_end(key)
        self.now = self.prepared[key]

    def _make_room(self) -> None:
        while self.prepared:
            free, total = torch.cuda.mem_get_info(self.device)
            if free >= ROOM * total:
                return
            self.now = None
            self.prepared.popitem(last=False)
            torch.cuda.empty_cache()

    def try_one(self, path: str, budget_us: float) -> Trial:
        try:
            trial = self._checked(path)
            if trial.status != Status.GOOD:
                return trial
            return trial._replace(times=self.race([path], budget_us, 0.0)[0])
        except MuccError as error:
            return Trial(Status.FAULT, str(error), broken=not self._works())
        except Exception as error:
            return Trial(Status.FAULT, f"{type(error).__name__}: {error}", broken=not self._works())

    def race(self, paths: Sequence[str], budget_us: float, heat_us: float) -> list[list[float]]:
        launches = [self.ready.get(path) or self._launcher(path) for path in paths]
        probe = interleaved_us(launches, 3, self.device)
        slowest = max(min(times) for times in probe)
        if slowest >= LONG_US:
            for _ in range(int(heat_us / sum(min(times) for times in probe))):
                for launch in launches:
                    launch()
        runs = min(max(int(budget_us / max(slowest, 1.0)), FEWEST), MOST)
        return interleaved_us(launches, runs, self.device)

    def _launcher(self, path: str) -> Callable[[], Any]:
        """Return a function that launches a library's kernel on prepared arguments."""
        assert self.now is not None, "prepare comes first"
        kernel: Kernel = load(path)[self.now.info.name]
        if self.now.outs is None:
            self.now.outs = TorchKernel(kernel).allocate(self.now.inputs)
        args = (*self.now.inputs, *self.now.outs)
        size = kernel.workspace_bytes(*args)
        workspace = [torch.empty(size, dtype=torch.uint8, device=self.device)] if size else []
        launch = self.ready[path] = lambda: kernel.launch(*args, *workspace)
        return launch

    def _checked(self, path: str) -> Trial:
        """One launch over poisoned outputs, compared with the reference."""
        launch = self._launcher(path)
        assert self.now is not None and self.now.outs is not None
        outs = self.now.outs
        for out in outs:
            poison(out)
        launch()
        torch.cuda.synchronize(self.device)
        verdicts = [
            against(a.name, a.dtype, out.to(torch.float64), wanted.each(torch.Tensor.double), torch)
            for a, out, wanted in zip(self.now.info.outputs, outs, self.now.expected, strict=True)
        ]
        error = max(v.relative for v in verdicts)
        if bad := [v for v in verdicts if not v.good]:
            v = bad[0]
            found = f"error {v.relative:.2e}, {v.beyond} elements beyond what roundings explain"
            return Trial(Status.WRONG, f"{v.name} differs from the float64 interpreter: {found}", error)
        return Trial(Status.GOOD, "", error)

    def _works(self) -> bool:
        """Whether the GPU still takes launches of this process: an illegal access ends that for good."""
        try:
            torch.cuda.synchronize(self.device)
            torch.zeros(1, device=self.device).item()
        except Exception:
            return False
        return True
