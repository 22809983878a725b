"""The interface of a kind of device kernel: stages, lowering, schedules, C++, interpreter, manifest.

A kind is one folder beside this file, with a `Kind`, and one line in `registry`. Nothing outside
`mucc/kernels` names a kind: passes, emission, manifest and interpreter call the methods of the kind of an op.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

from mucc.dialects.cutlass.attributes import RequirementAttr
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp, is_reproducible
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.pointwise import ElementwiseOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.setting_kinds import Setting
from mucc.dialects.mu.settings import REPRODUCIBLE, Chosen
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType
from mucc.dialects.rewriting import Finding
from mucc.kernels.lowering.access import Axes, identity
from mucc.kernels.lowering.inputs import Inputs
from mucc.kernels.traffic import NOTHING, Traffic
from mucc.kernels.workload import Workload

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder

Op = TypeVar("Op", bound=DeviceKernelOp)


class Offer(NamedTuple):
    """Kernels that a target has of a kind, by the settings and formats that they take."""

    mainloops: tuple[str, ...]
    computes: tuple[str, ...]
    schedulers: tuple[str, ...]
    sparse: bool


class IndexTensor(NamedTuple):
    """An s32 tensor whose values divide `rows` rows into groups (`ends`), or name them (`rows`).

    With `once` no row may be named twice.
    """

    value: SSAValue
    kind: Literal["ends", "rows"]
    rows: Dim
    once: bool = False


@dataclass(frozen=True)
class Query:
    """A kernel of a program whose schedule is to be chosen; `fixed` are the settings that are pinned."""

    program: str
    op: DeviceKernelOp
    fixed: Chosen
    workload: Workload[Any]


class FormingStage(Protocol):
    """A stage that is being formed."""

    @property
    def anchor(self) -> AnchorOp | None: ...
    @property
    def space(self) -> Dims:
        """The extents of its pointwise work."""
        ...

    @property
    def stored(self) -> Sequence[SSAValue]:
        """Its values that others read from memory, as far as they are known."""
        ...

    @property
    def axes(self) -> Mapping[SSAValue, Axes]:
        """For each axis of a value in flight, the axis of the space that walks along it (see `Access`)."""
        ...


class Joins(NamedTuple):
    """An operation may join a stage: bytes of memory traffic, and launches, that this saves."""

    saved: Traffic = NOTHING
    launches: int = 1


class Refused(NamedTuple):
    """An operation may not join a stage. The reason is a clause about the stage, for people."""

    reason: str


Answer = Joins | Refused


Meaning = Callable[["CutlassFunctions", Any, tuple[Any, ...]], tuple[Any, ...]]
"""What a node computes in float64, of its operands' values."""

Measured = Callable[[Query], Chosen]
"""Settings that were measured to suit a kernel best; they agree with what is pinned."""


class Kind(ABC, Generic[Op]):
    """A kind of device kernel, of which `op` is one kernel."""

    name: ClassVar[str]
    """What manifests call it."""
    op: type[Op]

    nodes: ClassVar[tuple[type[Operation], ...]] = ()
    """The nodes that only kernels of this kind have."""

    attributes: ClassVar[tuple[type[Attribute], ...]] = ()
    """Attributes that only kernels of this kind have."""

    host_headers: ClassVar[tuple[str, ...]] = ()
    """Headers that the host code of its skeletons includes: they are precompiled."""

    # Stages: which operations such a kernel computes

    @abstractmethod
    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        """Whether such kernels of a target, or of any where None, compute an operation whole.

        None as anchor stands for pointwise work alone. What a kind claims `decompose` leaves as it is.
        """

    def instead(self, op: Operation) -> str | None:
        """Return advice on what to write instead of an operation that such kernels compute in part only."""
        return None

    def memory_operands(self, anchor: AnchorOp) -> Sequence[SSAValue]:
        """Return the operands that are read from memory, in their own dtype; others are computed."""
        return ()

    def operand_orders(self, anchor: AnchorOp, target: str) -> Mapping[SSAValue, Sequence[int]]:
        """Return the order of axes, outermost first, of operands that the kernel would copy from row-major.

        It is what the estimate of an operation alone says: what joins its kernel may change it.
        """
        return {}

    def result_orders(self, kernel: KernelOp, target: str) -> Mapping[SSAValue, Sequence[int]]:
        """Return the order of axes in memory, outermost first, of results of stages that is not row-major.

        Only stages of the kernel read such results, where they lie.
        """
        return {}

    def repeats(self, anchor: AnchorOp, operand: SSAValue) -> Collection[int]:
        """Return the axes of an operand in memory along which a kernel may read one element for all."""
        return ()

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        """Whether pointwise work on the result may join the stage; if not it reads the result from memory."""
        return False

    def computes_with(self, anchor: AnchorOp, op: AnchorOp, inputs: Inputs) -> bool:
        """Whether the kernel around an anchor has the result of another one too, at no cost.

        For example the positions of what it sorts. `inputs` finds what pointwise work before them reads.
        """
        return False

    def stores_ranges(self, anchor: AnchorOp, types: Sequence[TensorType], target: str | None) -> bool:
        """Whether a kernel around an anchor can store ranges of its columns as matrices of these types.

        What is computed of one range alone may be stored in the place of its columns.
        """
        return False

    def stores_regrouped(self, anchor: AnchorOp) -> bool:
        """Whether a kernel around an anchor can store its result with other extents, as by `RegroupOp`."""
        return True

    def stores_turned(self, anchor: AnchorOp, places: Axes) -> bool:
        """Whether a kernel around an anchor can store its result with axes in another order.

        `places` are those of the result's axes among the stored ones, None for axes of extent 1.
        """
        return False

    def space(self, anchor: AnchorOp) -> Dims:
        """Return the extents of the pointwise work that may join a kernel around an anchor."""
        return anchor.space

    def placed(self, stage: FormingStage, op: Operation) -> Axes | None:
        """Return where the result of an anchor that the kernel keeps in flight lies in the space.

        Also that of pointwise work or of a view with an operand in flight: None where the kernel does not
        compute it. By default it computes pointwise work of the space's shape.
        """
        dims = Shaped.of(op.results[0].type).dims
        computes = isinstance(op, AnchorOp) or (isinstance(op, ElementwiseOp) and dims == stage.space)
        return identity(dims) if computes else None

    stores_operands: ClassVar[bool] = False
    """Whether the kernel also stores values that are its operands, where it computes them and others read
    them.
    """

    takes_integers: ClassVar[bool] = True
    """Whether pointwise work in the kernel may compute with integers."""

    def takes(self, stage: FormingStage, op: AnchorOp) -> Answer:
        """Say whether the kernel of a stage takes a further anchor, whose first operand it has in flight.

        What it saves is against a kernel of the operation's own, which reads that operand from memory.
        """
        return Refused(f"{self.name} kernels take no {op.stage}")

    # Lowering

    @abstractmethod
    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        """Append the kernel of a stage to the program, after what it needs before it."""

    def unresolved(self, op: Op) -> str | None:
        """Name a setting that select-schedule must set and that is missing; None if all are set."""
        return None

    def uncounted(self, op: Op) -> str | None:
        """Name a setting that legalize-pipeline must set and that is missing; None if all are set."""
        return None

    # Schedules: kinds without one leave all of this as it is

    settings: ClassVar[tuple[Setting[Any], ...]] = ()
    """What `schedule NAME` may set for such a kernel, in the order of `schedule` blocks and manifests."""

    needs_own_schedule: ClassVar[bool] = False
    """Whether a schedule of a whole program leaves such kernels out beside kernels of other kinds, for which
    tiles mean something else.
    """

    @property
    def has_schedule(self) -> bool:
        """Whether `schedule NAME` may set something for such a kernel."""
        return bool(self.settings)

    def schedule(self, op: Op) -> dict[str, Attribute]:
        """Return the settings that a kernel has, in the order of `settings`."""
        return {s.name: value for s in self.settings if (value := s.of(op.properties)) is not None}

    def workload(self, target: str, op: Op, sizes: Mapping[str, int]) -> Workload[Any] | None:
        """Return what the schedule is chosen for; None of a kernel without one. `sizes` are of open dims."""
        return None

    def seconds(self, target: str, op: Op, sizes: Mapping[str, int]) -> float | None:
        """Estimate the time of a kernel without a schedule on the target's first card, without launching it.

        None where its bound says as much.
        """
        return None

    def card(self) -> str:
        """Return the reference card's text on `settings`: paragraphs and points, with suitable values."""
        return ""

    def reasons(self, target: str, op: Op, sizes: Mapping[str, int]) -> Sequence[str]:
        """Say what spoke for the kernel that was chosen where no setting says it: a line for each choice."""
        return ()

    def body(self, op: Op) -> str:
        """Return a digest of pointwise work, to tell kernels of equal workloads apart."""
        return ""

    def offers(self, target: str) -> tuple[Offer, ...]:
        """Return the kernels of a target whose schedules may be set."""
        return ()

    def taking_any_rows(self, op: Op) -> str | None:
        """Return the setting, as source, with which the kernel takes rows of any length; None if there is
        none.
        """
        return None

    def select(
        self,
        program: ProgramOp,
        op: Op,
        settings: Chosen,
        sizes: Mapping[str, int],
        measured: Measured,
    ) -> None:
        """Set the schedule. `settings` are pinned, `sizes` are typical values of open dims."""

    def schedule_findings(self, program: ProgramOp, op: Op) -> Iterable[Finding]:
        """Return the findings about the schedule, but for its stage count."""
        return ()

    def resolve_pipeline(self, program: ProgramOp, op: Op) -> Iterable[Finding]:
        """Set how many stages the pipeline has where that is left open; what is wrong with it."""
        return ()

    def prepare(self, program: ProgramOp, op: Op) -> None:
        """Insert kernels around this one for tensors that it cannot read or write where they lie."""

    def requirements(self, program: ProgramOp, op: Op) -> Iterable[RequirementAttr | Finding]:
        """Return the kernel's demands on dims, as promises of the caller or as findings."""
        return ()

    # Facts about a kernel

    def reads(self, op: Op) -> Sequence[SSAValue]:
        """Return the tensors that the kernel reads besides those of its nodes."""
        return op.operands

    def parts(self, op: Op) -> Mapping[SSAValue, Dims]:
        """Return how much the kernel reads of tensors that it does not read whole, as extents."""
        return {}

    def details(self, op: Op) -> dict[str, Any]:
        """Return the manifest's entries besides the settings, as JSON."""
        return {}

    def manifest(self, op: Op) -> dict[str, Any]:
        """Return the kernel's entry in the manifest, as JSON."""
        settings = {s.name: s.json(s.of(op.properties)) for s in self.settings if s is not REPRODUCIBLE}
        promised = {REPRODUCIBLE.name: True} if is_reproducible(op) else {}
        return {"name": op.stage.data, "kind": self.name, **self.details(op), **settings, **promised}

    def alignments(self, op: Op, granule: int) -> Iterator[tuple[SSAValue, int]]:
        """Tensors whose data and free strides must be multiples of so many bytes, `granule` of TMA.

        Other tensors need what their elements need.
        """
        return iter(())

    def index_tensors(self, op: Op) -> Iterator[IndexTensor]:
        """Yield the index tensors that the kernel itself reads, besides those of its nodes and views."""
        return iter(())

    def takes_scratch(self, op: Op) -> bool:
        """Whether `run` has a parameter for memory that kernels use one after the other."""
        return False

    def needs_scratch(self, op: Op) -> bool:
        """Whether the kernel uses such memory; then it has a function `scratch_bytes`."""
        return False

    def launches_lists(self, op: Op) -> bool:
        """Whether one launch computes all problems that a call lists; then it has a function `run_list`."""
        return False

    # Meaning and code

    @abstractmethod
    def interpret(self, functions: CutlassFunctions, op: Op, args: tuple[Any, ...]) -> None:
        """Set `functions.launch`, the space and the sums over which the kernel's nodes are interpreted."""

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        """Return the interpreter of each of the kind's nodes."""
        return {}

    @abstractmethod
    def code(self, op: Op, places: Places, *, canonical: bool = False) -> KernelCode:
        """Its C++. With `canonical` types are named and commented for no program in particular."""
