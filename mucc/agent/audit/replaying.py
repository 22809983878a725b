"""What the reference makes of the calls that were timed, where one call changes what the next one gets.

Timed calls take turns with sets of inputs that lie where they lay before: a model that changes its inputs, or
keeps something, gives other results each time. Imports torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mucc.agent.audit.cases import SLOTS
from mucc.agent.audit.inputs import drift, leaves

torch: Any = importlib.import_module("torch")


class Step(NamedTuple):
    """What happened to one set of inputs: they drifted, the model was called on them, or both."""

    slot: int
    drifts: bool
    calls: bool


def steps(made: Iterable[tuple[str, int]]) -> Iterator[Step]:
    """Yield the steps of series of calls, given by kind and number; see `candidate.Session`."""
    for kind, count in made:
        for n in range(count):
            yield Step(n % SLOTS, kind != "warm", kind != "drift")


class Replay:
    """A model called as another was, on inputs of its own. Series are only ever added."""

    def __init__(self, call: Callable[[Any], Any], slots: Sequence[Any]):
        self.call, self.slots = call, slots
        self.done = 0
        self.last: Any = ()

    def until(self, made: Iterable[tuple[str, int]]) -> list[Any]:
        """Return the results of the last call of these series."""
        todo = list(steps(made))
        for step in todo[self.done :]:
            inputs = self.slots[step.slot]
            if step.drifts:
                for value in leaves(inputs):
                    if isinstance(value, torch.Tensor):
                        drift(value)
            if step.calls:
                self.last = self.call(inputs)
        self.done = len(todo)
        return [v.clone() if isinstance(v, torch.Tensor) else v for v in leaves(self.last)]
