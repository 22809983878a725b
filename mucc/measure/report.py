"""Print the report of `mucc run`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from mucc.measure.profile import StageTime, as_lines
from mucc.measure.verify import Verdict


@dataclass
class Report:
    """What a run found. Times are in microseconds; they and the rates are there for runs on a GPU only."""

    kernel: str
    signature: str
    dims: dict[str, int]
    seed: int
    device: str
    checked: str
    """What was compared with the interpreter: the kernel's outputs on the GPU, or the lowered program's."""
    verdicts: list[Verdict]
    time_us: float | None = None
    time_min_us: float | None = None
    tflops: float | None = None
    gbps: float | None = None
    notes: list[str] = field(default_factory=list[str])
    stages: list[StageTime] = field(default_factory=list[StageTime])
    """The times of single kernels, where they were asked for."""

    @property
    def good(self) -> bool:
        return all(v.good for v in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """Return the report as `--json` prints it."""
        outputs = [
            {
                "name": v.name,
                "dtype": v.dtype,
                "shape": list(v.shape),
                "relative_error": v.relative,
                "worst_error": v.worst,
                "wrong_elements": v.wrong,
                "tolerance": v.tolerance,
                "beyond": v.beyond or 0,
                "good": v.good,
            }
            for v in self.verdicts
        ]
        names = ("kernel", "signature", "dims", "seed", "device", "checked")
        numbers = ("time_us", "time_min_us", "tflops", "gbps", "notes")
        head, tail = ({n: getattr(self, n) for n in group} for group in (names, numbers))
        stages = {"stages": [s.as_json() for s in self.stages]} if self.stages else {}
        return {**head, "outputs": outputs, **tail, **stages, "good": self.good}

    def as_text(self) -> str:
        """One table."""
        rows = [("kernel", self.signature), ("dims", ", ".join(f"{k}={v}" for k, v in self.dims.items()))]
        rows += [("device", self.device), ("seed", str(self.seed)), ("checked", self.checked)]
        for v in self.verdicts:
            shape = ", ".join(map(str, v.shape))
            word = "good" if v.good else "WRONG"
            line = f"{word}: error {v.relative:.2e}, worst {v.worst:.2e}"
            if v.astray:
                line += ", the stages mean something else than the program"
            if v.beyond:
                line += f", {v.beyond} of {prod(v.shape)} elements beyond what roundings explain: {v.example}"
            rows.append((f"{v.name}: {v.dtype}[{shape}]", line))
        if self.time_us is not None:
            rows.append(("time", f"{self.time_us:.1f} µs (median; best {self.time_min_us:.1f})"))
            rates = [f"{self.tflops:.1f} TFLOP/s"] if self.tflops else []
            rows.append(("rate", ", ".join([*rates, f"{self.gbps:.0f} GB/s of compulsory traffic"])))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        if self.stages:
            lines += ["", *as_lines(self.stages), ""]
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)]) + "\n"
