"""The ops that are legal at each level of the compiler, verified after each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, OpDef
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.nodes import ComputeOp
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp, ExtentOp
from mucc.dialects.mu.ops.indexed import PickOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.quantization import DequantizeOp
from mucc.dialects.mu.ops.stage import PinOp, StageOp
from mucc.dialects.mu.ops.views import AXIS_VIEWS, BroadcastOp, GeneratedOp, IndexMapOp, RegroupOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.kernels.registry import claimant, kind_of

VIEWS = (*AXIS_VIEWS, RegroupOp, IndexMapOp, PickOp)
PRIMITIVES = (ElementwiseOp, ConstantOp, ExtentOp, GeneratedOp, *VIEWS, BroadcastOp, PinOp, ReturnOp)
"""What a `mu.kernel` may hold for its stages to become device kernels, besides anchors that a kind claims."""

COMPOSITE = (DequantizeOp, InferredOp)
"""What `decompose` rewrites, or `check-lowering` refuses."""


Contents = list[tuple[object, ...]]
"""All that verifiers see of a module: its ops in order, and what each consists of."""


class Verified(NamedTuple):
    """Contents of a module that verified, and the level whose ops they are."""

    level: Level
    contents: Contents


def contents_of(ops: Iterable[Operation]) -> Contents:
    """Return the contents of the ops of a module.

    Two that are equal verify alike; they cost a tenth of verification.
    """
    return [
        (
            op,
            op.parent,
            op._operands,  # pyright: ignore[reportPrivateUsage] (the property makes an object)
            [result.type for result in op.results],
            op.properties.copy(),
            op.attributes.copy(),
            op._successors,  # pyright: ignore[reportPrivateUsage]
            [(r, *((b, b.parent, *b.arg_types) for b in r.blocks)) for r in op.regions],
        )
        for op in ops
    ]


MOST_FORMS = 20_000
"""The most forms of an op that are remembered; programs have a few dozen."""


@cache
def check_forms_once(kind: type[Operation]) -> None:
    """Check the constraints of a kind of op of mucc once for each form: types, properties and attributes.

    Constraints see nothing else, and take half of the time of verification. Traits and `verify_` see users
    and parents, too, so they run for every op.
    """
    if not issubclass(kind, IRDLOperation) or not kind.__module__.startswith("mucc."):
        return
    definition, known = kind.get_irdl_definition(), set[object]()

    def verify(op: Operation) -> None:
        form = (
            *(value.type for value in op._operands),  # pyright: ignore[reportPrivateUsage]
            None,
            *(result.type for result in op.results),
            *op.properties.items(),
            None,
            *op.attributes.items(),
            *((len(region.blocks), *(block.arg_types for block in region.blocks)) for region in op.regions),
            len(op._successors),  # pyright: ignore[reportPrivateUsage]
        )
        if form in known:
            for trait in definition.traits:
                trait.verify(op)
            return
        OpDef.verify(definition, op)
        if len(known) >= MOST_FORMS:
            known.clear()
        known.add(form)

    definition.verify = verify


class LevelError(Exception):
    """IR that does not belong to the level it claims; always a defect of the compiler."""

    def __init__(self, level: str, op: Operation, reason: str):
        super().__init__(f"{op.name} is not legal at level '{level}': {reason}")
        self.op = op


class Level(NamedTuple):
    """A set of legal ops: `top` in the module, `inner` directly in kernels, plus a rule for each op."""

    name: str
    top: tuple[type[Operation], ...]
    inner: tuple[type[Operation], ...]
    rule: Callable[[Operation], str | None] = lambda op: None

    def verify(self, module: ModuleOp, known: Verified | None = None) -> Verified:
        """Raise LevelError at the first op that is not legal, or that does not verify.

        Returns what verified. Where the contents equal those of `known`, ops are not verified again; which
        ops are legal is then checked for another level only.
        """
        ops = list(module.walk())
        found = Verified(self, contents_of(ops))
        if known is not None and found.contents != known.contents:
            known = None
        if known is None or known.level is not self:
            self._refuse_others(module, ops)
        if known is None:
            for kind in {type(op) for op in ops}:
                check_forms_once(kind)
            try:
                module.verify()
            except VerifyException as e:
                raise LevelError(self.name, module, str(e).splitlines()[0]) from e
        return found

    def _refuse_others(self, module: ModuleOp, ops: Iterable[Operation]) -> None:
        """Raise LevelError at the first op that is not legal."""
        for top in module.body.block.ops:
            if not isinstance(top, self.top):
                raise LevelError(self.name, top, "not a top-level op")
            for region in top.regions:
                for op in region.block.ops:
                    if not isinstance(op, self.inner):
                        raise LevelError(self.name, op, f"not an op of {top.name}")
        for op in ops:
            if (reason := self.rule(op)) is not None:
                raise LevelError(self.name, op, reason)


def _primitive(op: Operation) -> str | None:
    return "composite" if isinstance(op, ElementwiseOp) and op.COMPOSITE else None


def _lowerable(op: Operation) -> str | None:
    if isinstance(op, AnchorOp) and claimant(op) is None:
        return "no kind of kernel claims it"
    return _primitive(op)


def _fused(op: Operation) -> str | None:
    if isinstance(op, ElementwiseOp | ConstantOp) and not isinstance(op.parent_op(), ComputeOp):
        return "outside of a compute body"
    return _primitive(op)


def _scheduled(op: Operation) -> str | None:
    if isinstance(op, c.DeviceKernelOp) and (reason := kind_of(op).unresolved(op)):
        return reason
    return _fused(op)


def _resolved(op: Operation) -> str | None:
    if isinstance(op, c.DeviceKernelOp) and (reason := kind_of(op).uncounted(op)):
        return reason
    return _scheduled(op)


def _planned(op: Operation) -> str | None:
    if isinstance(op, c.WorkspaceOp) and op.slot is None:
        return "no workspace slot"
    return _resolved(op)


_PROGRAM = (c.WorkspaceOp, c.DeviceKernelOp, ExtentOp, *VIEWS)

MU = Level("mu", (KernelOp, ScheduleOp), (*PRIMITIVES, AnchorOp, *COMPOSITE))
DECOMPOSED = Level("decomposed", MU.top, MU.inner, _primitive)
PRIMITIVE = Level("primitive", MU.top, (*PRIMITIVES, AnchorOp), _lowerable)
STAGED = Level("stages", (KernelOp, ScheduleOp), (StageOp, ReturnOp), _primitive)
LOWERED = Level("lowered", (c.ProgramOp, ScheduleOp), _PROGRAM, _primitive)
FUSED = Level("fused", LOWERED.top, _PROGRAM, _fused)
SCHEDULED = Level("scheduled", LOWERED.top, _PROGRAM, _scheduled)
RESOLVED = Level("resolved", LOWERED.top, _PROGRAM, _resolved)
CUTLASS = Level("cutlass", LOWERED.top, _PROGRAM, _planned)
