"""The detectors of an audit. A detector is one file here, with a class, and a line in `DETECTORS`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Protocol

from mucc.agent.audit.findings import Finding
from mucc.agent.audit.observations import Observations


class Detector(Protocol):
    """Looks for one kind of fault or cheating in what was seen."""

    name: str
    looks_at: str
    """In a few words, for docs and help."""

    def check(self, seen: Observations) -> Iterator[Finding]:
        """Return the findings; none where all is well."""
        ...


DETECTORS: tuple[str, ...] = (
    "results:Results",
    "constant_output:ConstantOutput",
    "stale_output:StaleOutput",
    "unread_inputs:UnreadInputs",
    "input_shortcut:InputShortcut",
    "uninitialised:Uninitialised",
    "out_of_bounds:OutOfBounds",
    "aliasing:Aliasing",
    "inputs_modified:InputsModified",
    "late_work:LateWork",
    "early_work:EarlyWork",
    "graph_replay:GraphReplay",
    "kernel_set:KernelSet",
    "timers:Timers",
    "noise:Noise",
    "libraries:Libraries",
    "harness:Harness",
    "fallback:Fallback",
    "pytorch_only:PyTorchOnly",
    "hidden_work:HiddenWork",
    "other_processes:OtherProcesses",
    "precision:Precision",
    "sol_ceiling:SolCeiling",
    "degenerate:Degenerate",
)
"""Every detector, as module and class, in the order in which findings are told."""


def detectors() -> Iterator[Detector]:
    """One of each."""
    for entry in DETECTORS:
        module, _, name = entry.partition(":")
        yield getattr(import_module(f"{__name__}.{module}"), name)()


def findings(seen: Observations) -> Iterator[Finding]:
    """Return the findings of all detectors."""
    for detector in detectors():
        yield from detector.check(seen)
