"""The process of `bench.farm --stand-in MS`: it takes the time of measuring and launches nothing."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Mapping, Sequence

from mucc.measure.tune.bench import Trial
from mucc.measure.tune.child import main


class Sleeping:
    """A card whose measurements take `seconds`; the time of a kernel is a hash of its library's name."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.prepared: set[tuple[object, ...]] = set()

    def hello(self) -> Mapping[str, str]:
        return {"card": "stand-in", "arch": "sm_90"}

    def prepare(self, text: str, kernel: str, target: str, dims: Mapping[str, int], seed: int) -> None:
        key = (text, kernel, *dims.items())
        if key not in self.prepared:  # as on a GPU, inputs and references are kept
            time.sleep(5 * self.seconds)
        self.prepared.add(key)

    def try_one(self, path: str, budget_us: float) -> Trial:
        time.sleep(self.seconds)
        return Trial("good", "", 1e-3, (_time(path),))

    def race(self, paths: Sequence[str], budget_us: float, heat_us: float) -> list[list[float]]:
        time.sleep(self.seconds * len(paths))
        return [[_time(path)] for path in paths]


def _time(path: str) -> float:
    name = path.rpartition("/")[2].encode()
    return 50.0 + int(hashlib.sha256(name).hexdigest()[:4], 16) / 65536 * 8


if __name__ == "__main__":
    main(Sleeping(float(sys.argv[1]) * 1e-3))
