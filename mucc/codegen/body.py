"""Compute bodies: straight-line C++ on floats and integers, one line per operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Operation, SSAValue

from mucc.codegen.lines import mark
from mucc.codegen.memory import EmissionError
from mucc.codegen.names import Namer, float_literal, integer_literal
from mucc.dialects.cutlass.nodes import BitsOp, ComputeOp, YieldOp
from mucc.dialects.mu.folding import literal
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.integral import RoundingOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.types import dtype_name

INFIX: dict[type[Operation], str] = {
    e.AddOp: "+",
    e.SubOp: "-",
    e.MulOp: "*",
    e.AndOp: "&&",
    e.OrOp: "||",
}

INTEGER_INFIX: dict[type[Operation], str] = {
    e.BitwiseAndOp: "&",
    e.BitwiseOrOp: "|",
    e.BitwiseXorOp: "^",
}

RELATIONS = {
    e.Relation.LT: "<",
    e.Relation.LE: "<=",
    e.Relation.GT: ">",
    e.Relation.GE: ">=",
    e.Relation.EQ: "==",
    e.Relation.NE: "!=",
}

INTEGER_CALLS: dict[type[Operation], str] = {
    e.AddOp: "mucc::add",
    e.SubOp: "mucc::sub",
    e.MulOp: "mucc::mul",
    e.MinOp: "mucc::min",
    e.MaxOp: "mucc::max",
    e.NegOp: "mucc::neg",
    e.AbsOp: "mucc::abs",
    e.SignOp: "mucc::sign",
    e.FmodOp: "mucc::fmod",
    e.RemainderOp: "mucc::remainder",
    e.FloorDivideOp: "mucc::floor_divide",
    e.LeftShiftOp: "mucc::left_shift",
    e.RightShiftOp: "mucc::right_shift",
}
"""Arithmetic on integers, which wrap around."""

CALLS: dict[type[Operation], str] = {
    e.MinOp: "mucc::min",
    e.MaxOp: "mucc::max",
    e.FmodOp: "fmodf",
    e.RemainderOp: "mucc::remainder",
    e.FloorDivideOp: "mucc::floor_divide",
    e.SignOp: "mucc::sign",
    e.FloorOp: "floorf",
    e.CeilOp: "ceilf",
    e.RoundOp: "rintf",
    e.TruncOp: "truncf",
    e.SinOp: "sinf",
    e.CosOp: "cosf",
    e.TanOp: "tanf",
    e.Atan2Op: "atan2f",
    e.AbsOp: "fabsf",
    e.ExpOp: "mucc::exp",
    e.Expm1Op: "mucc::expm1",
    e.LogOp: "mucc::log",
    e.Log1pOp: "mucc::log1p",
    e.SqrtOp: "mucc::sqrt",
    e.RsqrtOp: "mucc::rsqrt",
    e.TanhOp: "mucc::tanh",
    e.ErfOp: "mucc::erf",
    e.SigmoidOp: "mucc::sigmoid",
}

_INTEGER_POWERS = range(-8, 9)


def _divide(op: e.DivOp, a: str, b: str) -> str:
    divisor = literal(op.rhs)
    # Of powers of two so large or small the reciprocal is no normal number.
    normal = divisor and 2.0**-126 <= abs(divisor) <= 2.0**126
    if divisor and normal and abs(math.frexp(divisor)[0]) == 0.5:
        return f"{a} * {float_literal(1.0 / divisor)}"  # by a power of two: exact
    return f"mucc::div({a}, {b})"


def _power(op: e.PowOp, a: str, b: str) -> str:
    match literal(op.rhs):
        case 0.5:
            return f"mucc::sqrt({a})"
        case -0.5:
            return f"mucc::rsqrt({a})"
        case float() as x if x.is_integer() and int(x) in _INTEGER_POWERS:
            return f"mucc::powi<{int(x)}>({a})"
        case _:
            return f"mucc::pow({a}, {b})"


def _is_plain_softplus(value: SSAValue) -> bool:
    return isinstance(op := value.owner, e.SoftplusOp) and op.beta.value.data == 1.0


def expression(op: Operation, x: Sequence[str]) -> str:
    """Emit a primitive operation on operands `x`. Raises EmissionError for other operations."""
    if isinstance(op, e.ElementwiseOp) and op.computes_integers:
        if (call := INTEGER_CALLS.get(type(op))) is not None:
            return f"{call}({', '.join(x)})"
        if (sign := INTEGER_INFIX.get(type(op))) is not None:
            return f" {sign} ".join(x)
        if isinstance(op, RoundingOp):
            return x[0]
    if (call := CALLS.get(type(op))) is not None:
        return f"{call}({', '.join(x)})"
    if (sign := INFIX.get(type(op))) is not None:
        return f" {sign} ".join(x)
    match op:
        case e.NegOp():
            return f"-({x[0]})" if x[0].startswith("-") else f"-{x[0]}"
        case e.DivOp():
            return _divide(op, x[0], x[1])
        case e.PowOp():
            return _power(op, x[0], x[1])
        case e.SoftplusOp() if _is_plain_softplus(op.result):
            return f"mucc::softplus({x[0]})"
        case e.SoftplusOp():
            return f"mucc::softplus({x[0]}, {float_literal(op.beta.value.data)})"
        case e.GeluOp():
            return f"mucc::gelu_{'tanh' if op.uses_tanh else 'erf'}({x[0]})"
        case e.BitwiseNotOp():
            return f"~{x[0]}"
        case e.CmpOp():
            return f"{x[0]} {RELATIONS[op.relation.data]} {x[1]}"
        case e.NotOp():
            return f"!{x[0]}"
        case e.SelectOp():
            return f"{x[0]} ? {x[1]} : {x[2]}"
        case BitsOp():
            return f"mucc::{'from_bits' if op.result.type == f32 else 'to_bits'}({x[0]})"
        case e.CastOp() if op.element_type == S32:
            return f"int({x[0]})" if op.operand.type == i1 else f"mucc::to_s32({x[0]})"
        case e.CastOp() if op.operand.type == S32:
            return f"float({x[0]})"
        case e.CastOp() if op.operand.type == i1:
            return f"mucc::from_bool({x[0]})"
        case e.CastOp():
            return f"mucc::round_{dtype_name(op.element_type)}({x[0]})"
        case _:
            raise EmissionError(f"{op.name} cannot be written as C++")


Express = Callable[[Operation, Sequence[str]], str]
"""Emits an operation on operands."""


def _is_rounding_back(op: Operation) -> bool:
    """Emit a cast to f32, which is the value itself: bodies compute in f32."""
    return isinstance(op, e.CastOp) and op.element_type == f32 and op.operand.type not in (i1, S32)


@dataclass(frozen=True, slots=True)
class Body:
    """A pointwise body: a C++ struct `name` whose `apply` maps `inputs` floats to one.

    With `placed`, `apply` is a template, and LLVM does not move the marker of `apply<true>`. Other markers it
    may move into the branch that uses the result, as it does with expensive instructions.
    """

    name: str
    text: str
    inputs: int
    placed: bool = False

    def marker(self, index: int, base: str = "") -> str:
        """Emit the struct with a marker comment in the PTX, where body `index` is spliced in later.

        Kernels of CUTLASS know it by its C++ type `base`.
        """
        names = [f"x{i}" for i in range(self.inputs)]
        operands = ", ".join(f"%{i}" for i in range(self.inputs + 1))
        taken = ", ".join(f'"f"({n})' for n in names)
        parameters = ", ".join(f"float {n}" for n in names)
        marker = f'("// mucc.body {index} 1: {operands}" : "=f"(y) : {taken});'.replace(" : )", ")")
        return "\n".join(
            [
                f"struct {self.name} : {base} {{" if base else f"struct {self.name} {{",
                *(["  template <bool kPlaced = false>"] if self.placed else []),
                f"  static MUCC_DEVICE float apply({parameters}) {{",
                "    float y = 0.0f;",
                "#if defined(__CUDA_ARCH__)",
                *([f"    if constexpr (kPlaced) asm volatile{marker}", "    else"] if self.placed else []),
                f"    asm{marker}",
                "#endif",
                "    return y;",
                "  }",
                "};",
            ]
        )

    def entry(self, index: int) -> str:
        """Emit an entry function around the body, from whose PTX the body is extracted."""
        names = [f"x{i}" for i in range(self.inputs)]
        operands = ", ".join(f"%{i}" for i in range(self.inputs))
        given = ", ".join(f'"=f"({n})' for n in names)
        declared = f"  float {', '.join(names)};\n" if names else ""
        inputs = (
            f'  asm volatile("// mucc.in {operands}" : {given});\n'
            if names
            else '  asm volatile("// mucc.in");\n'
        )
        return (
            f'extern "C" __global__ void mucc_body_{index}() {{\n{declared}{inputs}'
            f"  float const y = {self.name}::apply({', '.join(names)});\n"
            '  asm volatile("// mucc.out %0" : : "f"(y));\n}'
        )


def bodies_source(bodies: Mapping[int, Body]) -> str:
    """Emit a source with an entry function for each body, by its number; empty without bodies."""
    if not bodies:
        return ""
    texts = [body.text for body in bodies.values()]
    entries = [body.entry(index) for index, body in bodies.items()]
    return "\n\n".join(["#include <mucc/math.cuh>", *texts, *entries]) + "\n"


def compute_body(
    name: str,
    op: ComputeOp,
    parameters: Sequence[str],
    order: Sequence[int] | None = None,
    express: Express = expression,
) -> Body:
    """Emit the body of a `cutlass.compute`.

    `parameters` are C++ names of its inputs, and `order` says in which `apply` takes them. `express` emits
    an operation on operands.
    """
    text = _struct(name, op, parameters, order or range(len(parameters)), express)
    return Body(name, "\n".join(text), len(parameters))


def identity_body(name: str, parameter: str) -> Body:
    """Emit the identity body."""
    return Body(name, "\n".join(_lines(name, [parameter], [f"return {parameter};"])), 1)


def _struct(
    name: str, op: ComputeOp, parameters: Sequence[str], order: Sequence[int], express: Express
) -> list[str]:
    namer = Namer(parameters)
    texts: dict[SSAValue, str] = dict(zip(op.body.block.args, parameters, strict=True))
    lines: list[str] = []
    block = list(op.body.block.ops)
    unwanted = {
        inner.operand
        for inner in block
        if isinstance(inner, e.TanhOp)
        and _is_plain_softplus(inner.operand)
        and len(set(inner.operand.uses)) == 1
    }
    for inner in block:
        operands = [_operand(inner, v, texts[v]) for v in inner.operands if v in texts]
        match inner:
            case e.ConstantOp():
                texts[inner.result] = float_literal(inner.value.value.data)
            case YieldOp():
                lines.append(f"return {texts[inner.value]};")
            case e.CastOp() if _is_rounding_back(inner):
                texts[inner.result] = operands[0]
            case e.SoftplusOp() if inner.result in unwanted:
                continue
            case _:
                result = inner.results[0]
                if isinstance(inner, e.TanhOp) and inner.operand in unwanted:
                    owner = inner.operand.owner
                    assert isinstance(owner, e.SoftplusOp)
                    text = f"mucc::tanh_softplus({texts[owner.operand]})"
                else:
                    text = express(inner, operands)
                texts[result] = namer(f"v{len(lines)}")
                kind = "bool" if result.type == i1 else "int" if result.type == S32 else "float"
                lines.append(f"{kind} const {texts[result]} = {text};{mark(inner)}")
    return _lines(name, [parameters[i] for i in order], lines)


def _operand(op: Operation, value: SSAValue, text: str) -> str:
    """Emit an operand; literals of operations on integers are integers."""
    number = literal(value)
    if number is None or not (isinstance(op, e.ElementwiseOp) and op.computes_integers):
        return text
    return integer_literal(int(number))


def _lines(name: str, parameters: Sequence[str], lines: Sequence[str]) -> list[str]:
    signature = ", ".join(f"float {p}" for p in parameters)
    return [
        f"struct {name} {{",
        f"  static MUCC_DEVICE float apply({signature}) {{",
        *(f"    {line}" for line in lines),
        "  }",
        "};",
    ]
