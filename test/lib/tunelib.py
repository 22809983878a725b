"""Stand-ins for tuning without compilers and without a GPU.

As a script it is a process that measures: what a "library" is like is written in it, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mucc.database.records import Record, Run, Status
from mucc.diagnostics.core import Source
from mucc.measure.tune.bench import Trial
from mucc.measure.tune.child import main
from mucc.measure.tune.choosing import plan
from mucc.measure.tune.folder import Folder
from mucc.measure.tune.measuring import record_of
from mucc.measure.tune.plans import Candidate, Kernel, Plan, Program, Size

CARD = "NVIDIA H200"
TEXT = "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return relu(x @ w.T)\n}\n"
TWO = """\
kernel g[M, N, K](x: bf16[M, K], w: bf16[N, K], v: bf16[K, N]) -> bf16[M, K] {
    stage h = relu(x @ w.T)
    return h @ v.T
}
"""
SIZES = ({"M": 4096, "N": 4096, "K": 4096}, {"M": 128, "N": 4096, "K": 4096})
COMMAND = (sys.executable, __file__)


def planned(text: str = TEXT, dims: Sequence[Mapping[str, int]] = SIZES, budget: int = 4) -> Plan:
    return plan(Program(Source("f.mcu", text), dims), budget=budget)


def built(folder: Path, made: Plan, **behaviour: dict[str, Any]) -> Folder:
    """A folder with "libraries": each takes as long as the model says unless `behaviour` has its id."""
    place = Folder(folder)
    place.write_plan(made)
    for kernel in made.kernels:
        for candidate in kernel.candidates:
            times = [100.0 if e is None else e for e in candidate.estimates]
            place.add_library(candidate, library(kernel, times, behaviour.get(candidate.id, {})))
    return place


def library(kernel: Kernel, times: Sequence[float], behaviour: Mapping[str, Any]) -> bytes:
    sizes = {size.text: time for size, time in zip(kernel.sizes, times, strict=True)}
    return json.dumps({"times": sizes, **behaviour}).encode()


def record(kernel: Kernel, size: Size, candidate: Candidate, time_us: float | None, **run: Any) -> Record:
    status = Status.GOOD if time_us else Status.WRONG
    return record_of(kernel, size, candidate, CARD, Run(status, "", time_us, 20, **run))


class FakeBench:
    """What a library says of itself comes true: `{"does": "crash"}` ends the process that runs it.

    GPUs whose numbers are words of the command are cards of another kind.
    """

    def __init__(self) -> None:
        self.size = ""

    def hello(self) -> Mapping[str, str]:
        if "nothing" in sys.argv:
            raise RuntimeError("there is no GPU")
        if os.environ.get("CUDA_VISIBLE_DEVICES") in sys.argv:
            return {"card": "NVIDIA H100 80GB HBM3", "arch": "sm_90"}
        return {"card": CARD, "arch": "sm_90"}

    def prepare(self, text: str, kernel: str, target: str, dims: Mapping[str, int], seed: int) -> None:
        if "large" in sys.argv and dims["M"] > 1000:
            raise MemoryError("CUDA out of memory")
        print("a library that prints must not spoil the protocol", flush=True)
        self.size = ",".join(f"{name}={value}" for name, value in dims.items())

    def try_one(self, path: str, budget_us: float) -> Trial:
        data = json.loads(Path(path).read_text())
        with open(os.environ.get("TUNELIB_LOG", os.devnull), "a") as log:
            log.write(
                f"{Path(path).stem} {self.size} {os.environ.get('CUDA_VISIBLE_DEVICES', '')}".strip() + "\n"
            )
        time.sleep(float(os.environ.get("TUNELIB_SLEEP", "0")))
        match data.get("does"):
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                time.sleep(1000)
            case "wrong":
                return Trial(Status.WRONG, "differs", 0.5)
            case "break":
                return Trial(Status.FAULT, "an illegal memory access", broken=True)
            case _:
                pass
        return Trial(Status.GOOD, "", 1e-3, self.race([path], budget_us, 0.0)[0])

    def race(self, paths: Sequence[str], budget_us: float, heat_us: float) -> list[list[float]]:
        """In the last round everything takes 1 % longer: the card has become warm."""
        found = [json.loads(Path(path).read_text())["times"][self.size] for path in paths]
        factor = 1.01 if len(paths) > 1 else 1.0
        return [[time * factor * (1 + 0.01 * i) for i in range(-2, 3)] for time in found]


if __name__ == "__main__":
    main(FakeBench())
