"""Random `mu` kernels for property tests: DAGs of contractions, pointwise work, reductions, views, pins.

Every op carries a source location of its own, so that a test can see where locations get lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, f32, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, PermuteOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.rules import TypeRuleError, broadcast
from mucc.dialects.mu.types import DTYPES, Dim, Dims, LayoutAttr, Shaped, TensorType
from mucc.kernels.reduce.claims import REDUCTIONS

SIZES = {"B": 2, "H": 2, "M": 3, "N": 5, "K": 4}
"""The run-time dims of every random kernel, with the sizes that tests run them with."""

EXTENTS: tuple[Dim, ...] = ("M", "N", "K", 8, 1)


@dataclass(frozen=True)
class Profile:
    """What a random kernel may hold.

    With `dtypes` of f32 alone, a value of another dtype is an explicit cast, so that storing it is exact.
    `positive` keeps to inputs and operations that lose no precision (positive numbers, nothing that
    cancels), so that rounded intermediates change a result by a few roundings at most.
    """

    dtypes: tuple[str, ...] = ("f32",)
    steps: int = 8
    positive: bool = False
    casts: tuple[str, ...] = ("bf16", "f16")
    layouts: bool = True


@dataclass(frozen=True)
class Sample:
    """A kernel in a module of its own, and the seed of its inputs."""

    module: ModuleOp
    text: str
    """The module before any pass."""
    seed: int
    positive: bool

    def __repr__(self) -> str:
        return f"{self.text}\nseed {self.seed}"

    @property
    def kernel(self) -> KernelOp:
        kernel = self.module.body.block.first_op
        assert isinstance(kernel, KernelOp)
        return kernel

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        """Arguments that fit the kernel's parameters, already rounded to their dtypes."""
        from mucc.dialects.mu.arrays import NumpyArrays

        random, arrays = np.random.default_rng(self.seed), NumpyArrays()
        found: list[np.ndarray[Any, Any]] = []
        for type in self.kernel.function_type.inputs:
            shape = tuple(SIZES[d] if isinstance(d, str) else d for d in Shaped.of(type).dims)
            values = random.uniform(0.5, 1.25, shape) if self.positive else random.standard_normal(shape)
            dtype = type.dtype if isinstance(type, TensorType) else "f32"
            found.append(arrays.round_to(values, dtype))
        return found


_ANY: tuple[Callable[[SSAValue], Operation], ...] = (
    *(e.ReluOp, e.GeluOp, e.TanhOp, e.SigmoidOp, e.NegOp, e.AbsOp, e.SiluOp, e.SoftplusOp, e.HardswishOp),
    *(e.HardtanhOp, e.EluOp, e.SeluOp, e.LeakyReluOp, e.SoftsignOp, e.MishOp, e.HardsigmoidOp, e.ErfOp),
    *(e.SinOp, e.CosOp),
)
_POSITIVE = (e.ReluOp, e.AbsOp, e.SqrtOp, e.SigmoidOp, e.TanhOp, e.SoftplusOp, e.SiluOp, e.HardswishOp)
_BINARY = (e.AddOp, e.MulOp, e.MinOp, e.MaxOp)
_SIGNED_BINARY = (*_BINARY, e.SubOp, e.Atan2Op)


@dataclass
class _Generator:
    draw: st.DrawFn
    profile: Profile
    block: Block = field(default_factory=Block)
    values: list[SSAValue] = field(default_factory=list[SSAValue])
    """Number tensors, parameters first."""
    bools: list[SSAValue] = field(default_factory=list[SSAValue])
    narrow: list[SSAValue] = field(default_factory=list[SSAValue])
    """Casts that are read by casts back to f32, and returned, alone."""
    pins: int = 0
    line: int = 0

    # Building

    def add(self, op: Operation) -> SSAValue:
        self.line += 1
        op.location = FileLineColLoc(StringAttr("random.mcu"), IntAttr(self.line), IntAttr(1))
        self.block.add_op(op)
        result = op.results[0]
        if isinstance(result.type, TensorType) and not isinstance(op, e.ConstantOp):
            (self.bools if result.type.element_type == i1 else self.values).append(result)
        return result

    def choose(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def coin(self) -> bool:
        return self.draw(st.booleans())

    def param(self, dims: Dims, dtype: str | None = None) -> SSAValue:
        """A parameter: a new one, or one of the same shape that is there already."""
        same = [
            a
            for a in self.block.args
            if Shaped.of(a.type).dims == dims and dtype in (None, getattr(a.type, "dtype", "f32"))
        ]
        if same and self.coin():
            return self.choose(same)
        element = DTYPES[dtype or self.choose(self.profile.dtypes)]
        type = TensorType.of(dims, element, self.layout(len(dims)))
        arg = self.block.insert_arg(type, len(self.block.args))
        self.values.append(arg)
        return arg

    def layout(self, rank: int) -> LayoutAttr:
        kinds = ["row_major"]
        if self.profile.layouts:
            kinds += ["strides"] * (rank > 0) + ["col_major"] * (rank > 1)
        match self.choose(kinds):
            case "row_major":
                return LayoutAttr.row_major()
            case "col_major":
                return LayoutAttr.col_major()
            case _:
                unit = self.draw(st.integers(0, rank - 1))
                return LayoutAttr.strided([1 if i == unit else None for i in range(rank)])

    def number(self) -> SSAValue:
        return self.add(e.ConstantOp(self.choose((0.25, 0.5, 1.0, 1.5, 2.0))))

    def scalar(self) -> SSAValue:
        return self.block.insert_arg(f32, len(self.block.args))

    def dims(self, shortest: int, longest: int) -> Dims:
        rank = self.draw(st.integers(shortest, longest))
        batch = ("B", "H")[: max(0, rank - 2)]
        return (*batch, *(self.choose(EXTENTS) for _ in range(min(rank, 2))))

    def known(self) -> list[Dim]:
        """Extents whose size the parameters tell."""
        dims = {d: None for a in self.block.args for d in Shaped.of(a.type).dims if isinstance(d, str)}
        return [*dims, 2]

    def value(self, shortest: int = 0, longest: int = 4) -> SSAValue:
        """A tensor; the newest ones are likely, so that chains grow."""
        fitting = [v for v in self.values if shortest <= len(Shaped.of(v.type).dims) <= longest]
        if not fitting or self.draw(st.integers(0, 9)) == 0:
            return self.param(self.dims(max(shortest, 1), max(min(longest, 3), 1)))
        return fitting[-1] if self.draw(st.integers(0, 3)) else self.choose(fitting)

    # One step each

    def matmul(self) -> None:
        lhs = self.value(2)
        dims = Shaped.of(lhs.type).dims
        dtype = Shaped.of(lhs.type).element_type
        fitting = [
            v
            for v in self.values
            if len(d := Shaped.of(v.type).dims) >= 2
            and d[-2] == dims[-1]
            and Shaped.of(v.type).element_type == dtype
        ]
        if fitting and self.coin():
            rhs = self.choose(fitting)
        else:
            name = next(n for n, t in DTYPES.items() if t == dtype)
            batch = self.choose(
                ((), dims[:-2], dims[1:-2], tuple(d if self.coin() else 1 for d in dims[:-2]))
            )
            n = self.choose(EXTENTS)
            if self.coin():
                rhs = self.param((*batch, dims[-1], n), name)
            else:
                rhs = self.add(TransposeOp(self.param((*batch, n, dims[-1]), name)))
        try:
            self.add(MatmulOp(lhs, rhs))
        except TypeRuleError as error:
            assert error.code == "MU1026"

    def unary(self) -> None:
        op = self.choose(_POSITIVE if self.profile.positive else _ANY)
        self.add(op(self.value()))

    def operand(self, dims: Dims) -> SSAValue:
        """Something that broadcasts with `dims`."""
        match self.draw(st.integers(0, 8)):
            case 0:
                return self.number()
            case 1:
                return self.scalar()
            case 2 | 3 | 4 | 5 if dims:
                start = self.draw(st.integers(0, len(dims) - 1))
                part = tuple(d if self.coin() else 1 for d in dims[start:])
                if len(part) >= 3 and self.coin():
                    order = self.draw(st.permutations(range(len(part))))
                    return self.add(
                        PermuteOp(self.param(tuple(part[order.index(i)] for i in range(len(part)))), order)
                    )
                if len(part) >= 2 and self.coin():
                    return self.add(TransposeOp(self.param((*part[:-2], part[-1], part[-2]))))
                return self.param(part)
            case _:
                fitting = [v for v in self.values if _broadcasts(Shaped.of(v.type).dims, dims)]
                return self.choose(fitting) if fitting else self.number()

    def binary(self) -> None:
        a = self.value()
        b = self.operand(Shaped.of(a.type).dims)
        if self.coin():
            a, b = b, a
        if self.profile.positive:
            self.add(self.choose((*_BINARY, e.DivOp))(a, b))
        elif self.draw(st.integers(0, 4)) == 0:
            # A divisor that keeps away from zero.
            self.add(e.DivOp(a, self.add(e.AddOp(self.add(e.AbsOp(b)), self.number()))))
        else:
            self.add(self.choose(_SIGNED_BINARY)(a, b))

    def condition(self) -> None:
        value = self.value()
        # Compared with numbers that no computed value hits, so that rounding decides nothing.
        limit = self.add(e.ConstantOp(0.3178923465987))
        found = self.add(e.CmpOp(self.choose(tuple(e.Relation)).value, value, limit))
        if not isinstance(found.type, TensorType):
            return
        others = [c for c in self.bools if c.type == found.type and c is not found]
        if others and self.coin():
            found = self.add(self.choose((e.AndOp, e.OrOp))(found, self.choose(others)))
        if self.coin():
            self.add(e.NotOp(found))

    def select(self) -> None:
        if not self.bools or self.profile.positive:
            return self.binary()
        condition = self.choose(self.bools)
        dims = Shaped.of(condition.type).dims
        if self.draw(st.integers(0, 3)) == 0:
            self.add(e.CastOp(condition, DTYPES["f32"]))
            return None
        a, b = self.operand(dims), self.operand(dims)
        if _broadcasts(Shaped.of(a.type).dims, Shaped.of(b.type).dims):
            self.add(e.SelectOp(condition, a, b))
        return None

    def reduce(self) -> None:
        value = self.value(1)
        rank = len(Shaped.of(value.type).dims)
        if self.coin():
            axes = self.choose(((rank - 1,), (max(rank - 2, 0),), tuple(range(rank)), tuple(range(rank - 1))))
        else:
            axes = tuple(i for i in range(rank) if self.coin())
        kind = self.choose(REDUCTIONS)
        if axes:
            self.add(ReduceOp(kind.value, value, axes))

    def view(self) -> None:
        value = self.value()
        dims = Shaped.of(value.type).dims
        if 1 in dims and self.coin():
            ones = [i for i, d in enumerate(dims) if d == 1]
            self.add(SqueezeOp(value, ones if self.coin() else [self.choose(tuple(ones))]))
        elif len(dims) >= 3 and self.coin():
            self.add(PermuteOp(value, self.draw(st.permutations(range(len(dims))))))
        elif len(dims) >= 2 and self.coin():
            self.add(TransposeOp(value))
        elif len(dims) < 4:
            self.add(ExpandOp(value, [self.draw(st.integers(0, len(dims)))]))

    def broadcast(self) -> None:
        value = self.value(0, 2)
        dims = Shaped.of(value.type).dims
        extent = self.choose(self.known())
        wider = tuple(extent if d == 1 else d for d in dims)
        self.add(BroadcastOp(value, wider if wider != dims else (extent, *dims)))

    def clamp(self) -> None:
        a = self.value()
        self.add(e.ClampOp(a, self.number(), self.operand(Shaped.of(a.type).dims)))

    def cast(self) -> None:
        value = self.add(e.CastOp(self.value(), DTYPES[self.choose((*self.profile.casts, "f32"))]))
        if self.profile.dtypes == ("f32",):
            self.values.remove(value)
            self.narrow.append(value)
            self.add(e.CastOp(value, DTYPES["f32"]))

    def pin(self) -> None:
        self.pins += 1
        value = self.value()
        if Shaped.of(value.type).dims:
            self.add(PinOp(f"p{self.pins}", value))

    # The whole

    def kernel(self) -> KernelOp:
        steps = (
            *(self.matmul, self.matmul, self.unary, self.unary, self.binary, self.binary, self.binary),
            *(self.condition, self.select, self.reduce, self.view, self.clamp, self.cast, self.pin),
            self.broadcast,
        )
        self.param(self.dims(2, 4))
        if self.draw(st.integers(0, 4)):
            self.matmul()
        for _ in range(self.draw(st.integers(0, self.profile.steps))):
            self.choose(steps)()
        returned = [self.values[-1], *(self.value() for _ in range(self.draw(st.integers(0, 2))))]
        returned += self.narrow if self.coin() else ()
        self.line += 1
        end = ReturnOp(returned)
        end.location = FileLineColLoc(StringAttr("random.mcu"), IntAttr(self.line), IntAttr(1))
        self.block.add_op(end)
        args = list(self.block.args)
        for i, arg in enumerate(args):
            arg.name_hint = f"a{i}"
        shapes = [Shaped.of(v.type) for v in returned]
        kernel = KernelOp(
            "random",
            [(f"a{i}", a.type) for i, a in enumerate(args)],
            [(f"r{i}", TensorType.of(s.dims, s.element_type)) for i, s in enumerate(shapes)],
            tuple(SIZES),
            body=Region(self.block),
        )
        kernel.location = FileLineColLoc(StringAttr("random.mcu"), IntAttr(0), IntAttr(1))
        return kernel


def _broadcasts(a: Dims, b: Dims) -> bool:
    try:
        broadcast([a, b])
    except TypeRuleError:
        return False
    return True


@st.composite
def samples(draw: st.DrawFn, profile: Profile) -> Sample:
    """A random kernel that verifies, with a seed for inputs."""
    module = ModuleOp([_Generator(draw, profile).kernel()])
    return Sample(module, str(module), draw(st.integers(0, 2**16)), profile.positive)
