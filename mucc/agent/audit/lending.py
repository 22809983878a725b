"""Memory that calls find their inputs in and leave their results in: the judge makes it, and lends it to the
candidate's process. Imports torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from mucc.agent.audit import values
from mucc.agent.audit.cases import Case
from mucc.agent.audit.described import padded, ranges, room_for
from mucc.agent.audit.inputs import leaves, make_inputs, sampled
from mucc.agent.audit.results import Results
from mucc.agent.audit.rooms import Room, Wire, make
from mucc.agent.audit.slots import Slot
from mucc.agent.audit.threads import bytes_of, few
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import OpenedProblem
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

RESULTS = "results"
"""The name of the memory that results go to; that of inputs has the number of its slot."""


class HiddenSlot(Slot):
    """Inputs in main memory that nobody else has."""

    def allocate(self, sizes: Sequence[int], device: Any) -> list[Any]:
        return super().allocate(sizes, "cpu")


class LentSlot(Slot):
    """Inputs in memory that the candidate's process has as well; until they are shown there, their values are
    the judge's alone."""

    def __init__(self, name: str, wire: Wire):
        super().__init__()
        self.name, self.wire = name, wire
        self.room: Room | None = None
        self.lent = 0
        self.hidden = HiddenSlot()

    def allocate(self, sizes: Sequence[int], device: Any) -> list[Any]:
        room, fd = make(sum(map(padded, sizes)))
        self.wire.lend(self.name, room, fd)
        self.lent += 1
        self.room = room
        found, at = list[Any](), 0
        for size in sizes:
            found.append(room.data[at : at + size])
            at += padded(size)
        return found

    def fill(self, values: Any, byte: int) -> None:
        self.hidden.fill(values, byte)
        self.lay_out(values)

    def show(self) -> None:
        """Put the values where the candidate's process sees them."""
        for own, hidden in zip(self.guarded, self.hidden.guarded, strict=True):
            own.copy(hidden)

    def image(self, device: Any) -> Any:
        """Return on a device what shared memory would hold."""
        assert self.room
        image = torch.zeros(self.room.size, dtype=torch.uint8, device=device)
        for own, hidden in zip(self.guarded, self.hidden.guarded, strict=True):
            at = own.buffer.data_ptr() - self.room.start
            image[at : at + own.buffer.numel()].copy_(hidden.buffer)
        return image

    def told(self) -> Json:
        """Return the arguments, with where tensors lie."""
        numbers = {id(own.tensor): n for n, own in enumerate(self.guarded)}

        def tensor(value: Any) -> Json:
            own = self.guarded[numbers[id(value)]]
            assert self.room
            return {
                "at": value.data_ptr() - self.room.start,
                "bytes": own.buffer.numel() - 2 * own.band,
                "band": own.band,
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "strides": list(value.stride()),
            }

        return values.told(list(self.values), tensor)


class Lender:
    """The inputs of calls, and the memory that their results go to, at most `memory` bytes of it."""

    def __init__(self, problem: OpenedProblem, shown: str, device: Any, memory: int, wire: Wire):
        self.problem, self.shown = problem, shown
        self.device, self.memory, self.wire = device, memory, wire
        self.slots: dict[int, LentSlot] = {}
        self.results: Room | None = None
        self.ranges: list[tuple[int, int]] = []
        """Where results lie in that memory, first byte and end."""
        self._older: list[Room] = []
        """Memory that a GPU knows the address of."""

    def arguments(self) -> Json:
        """Return the arguments of the module. Raises MU7012 for what cannot be handed over."""
        try:
            return {"init": values.told(self.problem.init_inputs(), values.packed)}
        except values.NotPlain as error:
            raise self._cannot("get_init_inputs()", error) from None

    def _cannot(self, what: str, error: values.NotPlain) -> DiagnosticError:
        said = f"{what} of {self.shown} gives a {error}, which cannot be handed to another process"
        helps = ("arguments are tensors, numbers, strings, and lists, tuples and dicts of them",)
        return DiagnosticError(Diagnostic("MU7012", said, helps=helps))

    def prepare(self, case: Case) -> Json:
        """Make the inputs of a case, and tell where they are going to be."""
        slot = self.slots.setdefault(case.slot, LentSlot(str(case.slot), self.wire))
        before = slot.lent
        made = make_inputs(self.problem, case, self.device)
        with few(bytes_of(leaves(made))):
            slot.fill(made, case.guard)
        try:
            args = slot.told()
        except values.NotPlain as error:
            raise self._cannot("get_inputs()", error) from None
        return {
            "slot": case.slot,
            "args": args,
            "seed": case.call,
            "lent": slot.lent - before,
        }

    def show(self, case: Case) -> None:
        """Show the inputs of a case to the candidate's process."""
        self.slots[case.slot].show()

    def size(self, case: Case) -> int:
        """Return the bytes of memory that is lent for a case and for results."""
        lent = (self.slots[case.slot].room, self.results)
        return sum(room.size for room in lent if room is not None)

    def room(self, described: Sequence[Json]) -> Room | None:
        """Lend memory for such results; None where there is enough already."""
        size = room_for(described, self.memory)
        self.ranges = ranges(described, size)
        if self.results is not None and size <= self.results.size:
            return None
        room, fd = make(size)
        self.forget_results()
        self.results = room
        self.wire.lend(RESULTS, room, fd)
        return room

    def forget_results(self) -> None:
        """Have the next results lie in other memory."""
        self._older += [self.results] if self.results else []
        self.results = None

    def kept(self, case: Case, described: Sequence[Json], data: Any = None) -> list[Any]:
        """Return copies of the elements of results that are compared, from the memory of results or from a
        copy of it; None for each result that is not there."""
        if data is None:
            if self.results is None:
                return [None] * len(described)
            data = self.results.data
        read = Results(data).read(described)
        return [None if v is None else sampled(v, case.sample, case.most).clone() for v in read]
