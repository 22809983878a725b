"""Write a kernel as a function of PyTorch, as one would write it by hand, to compare mucc with.

    def linear_gelu(x, w, b):
        return F.gelu(F.linear(x, w, b))

Values have the dtypes of the program. Operations that PyTorch has no short form for are refused (MU6071).
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.dialects.mu.ops import activations as a
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.attention import AttentionOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.conversions import CastOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.normalisation import (
    LogSoftmaxOp,
    LogSumExpOp,
    Normalisation,
    NormalizeOp,
    SoftmaxOp,
)
from mucc.dialects.mu.ops.reduction import ReduceOp, VarianceOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, RegroupOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Shaped, TensorType, dtype_name, is_packed

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "s32": "int32", "s8": "int8", "u8": "uint8"}

INFIX: dict[type[Operation], str] = {e.AddOp: "+", e.SubOp: "-", e.MulOp: "*", e.DivOp: "/", e.PowOp: "**"}

FUNCTIONS: dict[type[Operation], str] = {
    e.NegOp: "-{}",
    e.MinOp: "torch.minimum({}, {})",
    e.MaxOp: "torch.maximum({}, {})",
    **{
        op: f"torch.{name}({{}})"
        for op, name in (
            (e.AbsOp, "abs"),
            (e.ExpOp, "exp"),
            (e.Expm1Op, "expm1"),
            (e.LogOp, "log"),
            (e.Log1pOp, "log1p"),
            (e.SqrtOp, "sqrt"),
            (e.RsqrtOp, "rsqrt"),
            (e.SinOp, "sin"),
            (e.CosOp, "cos"),
            (e.TanhOp, "tanh"),
            (e.ErfOp, "erf"),
            (e.SigmoidOp, "sigmoid"),
        )
    },
    a.ReluOp: "F.relu({})",
    a.SiluOp: "F.silu({})",
    a.SeluOp: "F.selu({})",
    a.MishOp: "F.mish({})",
    a.SoftsignOp: "F.softsign({})",
    a.HardsigmoidOp: "F.hardsigmoid({})",
    a.HardswishOp: "F.hardswish({})",
}

REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}


def torch_source(module: ModuleOp, kernel: str) -> str:
    """Return a kernel of a `mu` module as source of a Python function. Raises MU6071."""
    found = [op for op in module.walk() if isinstance(op, KernelOp) and op.sym_name.data == kernel]
    return _Writer(found[0]).text()


def torch_function(module: ModuleOp, kernel: str) -> Callable[..., Any]:
    """Return a kernel as a function of torch tensors. Raises MU6071."""
    names: dict[str, Any] = {
        "torch": importlib.import_module("torch"),
        "F": importlib.import_module("torch.nn.functional"),
    }
    # The text is made of names of the program's arguments and of the forms above.
    exec(compile(torch_source(module, kernel), f"<torch {kernel}>", "exec"), names)
    return names[kernel]


class _Writer:
    """Writes one kernel. A value that is used once is written where it is used."""

    def __init__(self, kernel: KernelOp):
        self.kernel = kernel
        self.values: dict[SSAValue, str] = {}
        self.lines: list[str] = []
        self.dims: dict[str, str] = {}

    def text(self) -> str:
        block: Block = self.kernel.body.block
        names = [str(n.data) for n in self.kernel.arg_names]
        for name, arg in zip(names, block.args, strict=True):
            self.values[arg] = name
            self._check(arg)
            for axis, dim in enumerate(Shaped.of(arg.type).dims):
                if isinstance(dim, str) and dim.isidentifier():
                    self.dims.setdefault(dim, f"{name}.shape[{axis}]")
        for op in block.ops:
            if isinstance(op, ReturnOp):
                self.lines.append(f"return {', '.join(self.values[v] for v in op.operands)}")
            else:
                self._bind(op, self._expression(op))
        body = "".join(f"    {line}\n" for line in self.lines)
        text = f"def {self.kernel.sym_name.data}({', '.join(names)}):\n{body}"
        return f"{ast.unparse(ast.parse(text))}\n"  # without needless parentheses

    def _check(self, arg: SSAValue) -> None:
        """Refuse parameters whose arrays PyTorch would read otherwise."""
        if isinstance(arg.type, TensorType) and (
            is_packed(arg.type.element_type) or "sparse" in str(arg.type)
        ):
            raise refused(self.kernel.sym_name.data, f"{arg.type}")

    def _bind(self, op: Operation, text: str) -> None:
        result = op.results[0]
        if len(list(result.uses)) == 1 and len(text) < 70:
            self.values[result] = f"({text})" if _is_open(text) else text
            return
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[result] = name

    def _expression(self, op: Operation) -> str:
        args = [self.values[v] for v in op.operands]
        match op:
            case e.ConstantOp():
                return repr(op.value.value.data)
            case MatmulOp() if op.mixed is None and op.blocks is None:
                return self._product(op, args)
            case e.AddOp() if (linear := self._linear(op)) is not None:
                return linear
            case e.GeluOp():
                return f"F.gelu({args[0]}{', approximate=' + repr('tanh') if op.uses_tanh else ''})"
            case CastOp():
                return f"{args[0]}.to({self._dtype(op)})"
            case PinOp():
                return args[0]
            case NormalizeOp():
                return self._normalised(op, args[0])
            case SoftmaxOp() | LogSoftmaxOp():
                function = "softmax" if isinstance(op, SoftmaxOp) else "log_softmax"
                return f"F.{function}({args[0]}, {op.axis.value.data})"
            case LogSumExpOp():
                return f"torch.logsumexp({args[0]}.float(), {_axes(op)})"
            case ReduceOp():
                return self._reduced(op, args[0])
            case VarianceOp():
                return f"{args[0]}.float().var({_axes(op)}, correction={op.correction.value.data})"
            case AttentionOp() if op.mask is None and op.sinks is None:
                return f"F.scaled_dot_product_attention({', '.join([*args, *_options(op)])})"
            case _:
                return self._simple(op, args)

    def _simple(self, op: Operation, args: Sequence[str]) -> str:
        """Write an elementwise operation or a view."""
        if (sign := INFIX.get(type(op))) is not None:
            return f"{args[0]} {sign} {args[1]}"
        if (form := FUNCTIONS.get(type(op))) is not None:
            return form.format(*args)
        match op:
            case TransposeOp():
                return f"{args[0]}.mT"
            case ExpandOp():
                text = args[0]
                for axis in op.axes.get_values():
                    text = f"{text}.unsqueeze({axis})"
                return text
            case SqueezeOp():
                return f"{args[0]}.squeeze({_axes(op)})"
            case BroadcastOp():
                return f"{args[0]}.expand({self._shape(op)})"
            case RegroupOp():
                return f"{args[0]}.reshape({self._shape(op)})"
            case _:
                raise refused(self.kernel.sym_name.data, op)

    def _product(self, op: MatmulOp, args: Sequence[str]) -> str:
        text = f"{args[0]} @ {args[1]}"
        wanted, natural = _name(op.result), _name(op.lhs)
        return text if wanted == natural else f"({text}).to({self._dtype(op)})"

    def _linear(self, op: e.AddOp) -> str | None:
        """Write `x @ w.T + b` as F.linear; None for another sum."""
        product = op.operands[0].owner
        if not isinstance(product, MatmulOp) or not isinstance(weight := product.rhs.owner, TransposeOp):
            return None
        ranks = [len(Shaped.of(v.type).dims) for v in (weight.operand, op.operands[1])]
        same = {_name(v) for v in (product.lhs, product.rhs, op.operands[1], op.results[0])}
        once = len(list(product.result.uses)) == 1
        if ranks != [2, 1] or len(same) > 1 or not once or product.mixed is not None:
            return None
        x, w, b = (self.values[v] for v in (product.lhs, weight.operand, op.operands[1]))
        return f"F.linear({x}, {w}, {b})"

    def _normalised(self, op: NormalizeOp, x: str) -> str:
        axes, rank = op.axes.get_values(), len(Shaped.of(op.operand.type).dims)
        if list(axes) != list(range(rank - len(axes), rank)):
            raise refused(self.kernel.sym_name.data, op)
        function = "rms_norm" if op.kind.data is Normalisation.RMS else "layer_norm"
        shape = ", ".join(f"{x}.shape[{axis}]" for axis in axes)
        eps = op.eps.value.data
        return f"F.{function}({x}, ({shape},), eps={eps!r})"

    def _reduced(self, op: ReduceOp, x: str) -> str:
        kind = op.kind.data.value
        if kind == "amax":
            return f"{x}.abs().amax({_axes(op)}).float()"
        if (name := REDUCTIONS.get(kind)) is None or _name(op.result) != "f32":
            raise refused(self.kernel.sym_name.data, op)
        if kind in ("sum", "mean"):
            return f"{x}.{name}({_axes(op)}, dtype=torch.float32)"
        return f"{x}.{name}({_axes(op)}).float()"

    def _shape(self, op: Operation) -> str:
        extents = Shaped.of(op.results[0].type).dims
        if any(isinstance(n, str) and n not in self.dims for n in extents):
            raise refused(self.kernel.sym_name.data, op)
        return ", ".join(self.dims[n] if isinstance(n, str) else str(n) for n in extents)

    def _dtype(self, op: Operation) -> str:
        name = _name(op.results[0])
        if name not in DTYPES:
            raise refused(self.kernel.sym_name.data, op)
        return f"torch.{DTYPES[name]}"


def _name(value: SSAValue) -> str:
    return dtype_name(Shaped.of(value.type).element_type)


def _axes(op: Any) -> str:
    return f"({', '.join(str(axis) for axis in op.axes.get_values())},)"


def _options(op: AttentionOp) -> list[str]:
    """Return the options of an attention; without a scale PyTorch has the same one."""
    causal = ["is_causal=True"] if op.causal is not None else []
    return causal if op.scale is None else [*causal, f"scale={op.scale.value.data!r}"]


def _is_open(text: str) -> bool:
    """Whether an operator at the top of an expression needs parentheses around it."""
    return isinstance(ast.parse(text, mode="eval").body, ast.BinOp | ast.UnaryOp)


def refused(kernel: str, op: Operation | str) -> DiagnosticError:
    """Build MU6071 for an operation, or for the type of a parameter."""
    what = op if isinstance(op, str) else op.name.removeprefix("mu.")
    message = f"{kernel} cannot be written in PyTorch: there is no short form for '{what}' as it is used"
    helps = ("give a function of your own: KERNEL in a file STEM.torch.py beside the program",)
    return DiagnosticError(Diagnostic("MU6071", message, helps=helps))
