"""Generate `mu` operations from expressions.

An erroneous expression becomes None, to avoid follow-up errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from mucc.diagnostics.core import Fix, Span, near_spelling
from mucc.dialects.mu import rules
from mucc.dialects.mu.folding import folded
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.pointwise import extent_number
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.surface import (
    AXES,
    BOUND,
    EXTENT,
    EXTENTS,
    GIVEN,
    NUMBER,
    VALUE,
    WORD,
    Function,
    Option,
    Parameter,
)
from mucc.dialects.mu.types import DTYPES, Dim, Dims, Shaped
from mucc.frontend import ast, foreign
from mucc.frontend.context import Context, Labels, type_text
from mucc.frontend.expressions import MAX_HEIGHT
from mucc.frontend.extents import as_extent, lower_extent, names_in
from mucc.frontend.functions import FUNCTIONS, choose
from mucc.frontend.indexing import lower_index
from mucc.frontend.operand_fixes import operand_fixes

if TYPE_CHECKING:
    from mucc.frontend.inlining import Inliner

Value = SSAValue | None

_ARITHMETIC: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "+": e.AddOp,
    "-": e.SubOp,
    "*": e.MulOp,
    "/": e.DivOp,
    "%": e.RemainderOp,
    "@": MatmulOp,
    "and": e.AndOp,
    "or": e.OrOp,
}
INFINITY = "inf"
"""The name of infinity, unless the program defines this name."""

MAX_DEPTH = MAX_HEIGHT + 32
"""The most expressions in each other, those of the functions that are called among them."""

_MOST_LISTED = 12
_FUNCTIONS_LISTED = "`mucc docs --card` lists the functions of the language"

_RELATIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def _is_bool(value: SSAValue) -> bool:
    return Shaped.of(value.type).element_type == i1


@dataclass
class Scope:
    """The dims and values of a kernel, or of a function, by name. `used` collects names that are read."""

    dims: dict[str, int | None]
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    used: set[str] = field(default_factory=set[str])
    what: str = "kernel"

    def constant(self, name: str) -> float | None:
        """Return the number that a name stands for; None for all others."""
        value = self.values.get(name)
        if value is not None and isinstance(value.owner, e.ConstantOp):
            return value.owner.value.value.data
        return float(name) if name == INFINITY and name not in self.values and name not in self.dims else None

    def integer(self, name: str) -> int | None:
        """Return the integer that a name stands for; None for all others."""
        number = self.constant(name)
        is_exact = number is not None and number.is_integer() and abs(number) < 2**53
        return int(number) if number is not None and is_exact else None

    def is_open(self, name: str) -> bool:
        """Whether a name is a value of which no more is known: after an error, or a parameter of a function
        that is checked by itself.
        """
        return name in self.values and self.values[name] is None


class ExprGen:
    """Generator that appends the operations of expressions to `block`."""

    def __init__(self, context: Context, scope: Scope, block: Block, inliner: Inliner, depth: int = 0):
        self.context = context
        self.scope = scope
        self.block = block
        self.inliner = inliner
        self.depth = depth

    def lower(self, expr: ast.Expr) -> Value:
        """Generate an expression; returns its value, or None after reporting an error."""
        if self.depth >= MAX_DEPTH:
            message = "calls of functions nest too deeply"
            self.context.error("MU0010", message, expr.span, helps=("give parts names: `part = ...`",))
            return None
        self.depth += 1
        try:  # here, as a method of its own would be a frame more for each level
            match expr:
                case ast.Number():
                    return self.add(expr.span, lambda: e.ConstantOp(expr.value))
                case ast.Name():
                    return self._name(expr)
                case ast.Unary():
                    return self._unary(expr)
                case ast.Binary():
                    return self._binary(expr)
                case ast.Transpose():
                    return self._on(expr, expr.operand, TransposeOp)
                case ast.Index():
                    return lower_index(self, expr, self.lower(expr.operand))
                case ast.Call():
                    return self._call(expr)
        finally:
            self.depth -= 1

    def add(
        self,
        span: Span,
        build: Callable[[], Operation | Sequence[Operation]],
        at: Span | None = None,
        labels: Labels = (),
        fixes: Callable[[], tuple[Fix, ...]] = tuple,
    ) -> Value:
        """Append operations with the location of `span`; report a broken type rule at `at` or `span`."""
        if self.context.is_inlined and not self.inliner.spend(span):
            return None
        try:
            built = build()
            ops = (built,) if isinstance(built, Operation) else built
            if not isinstance(built, MatmulOp | TransposeOp):
                rules.dense([v.type for op in ops for v in op.operands])
        except rules.TypeRuleError as error:
            self.context.rule_error(error, at or span, labels, fixes())
            return None
        if (number := folded(ops[-1])) is not None:  # so that `K - 1` is a number, as K is
            ops[-1].erase()
            ops = (e.ConstantOp(number),)
        for op in ops:
            op.location = self.context.location(span)
            self.block.add_op(op)
        return ops[-1].results[0]

    def _on(self, expr: ast.Expr, operand: ast.Expr, build: Callable[[SSAValue], Operation]) -> Value:
        value = self.lower(operand)
        if value is None:
            return None
        labels = ((operand.span, f"this is {type_text(value.type)}"),)
        return self.add(expr.span, lambda: build(value), labels=labels)

    def _name(self, expr: ast.Name) -> Value:
        scope, name = self.scope, expr.text
        scope.used.add(name)
        if name in scope.values:
            return scope.values[name]
        if name == INFINITY and not self._is_defined(name):
            return self.add(expr.span, lambda: e.ConstantOp(float(name)))
        if name in scope.dims:
            return self.add(expr.span, lambda: extent_number(scope.dims[name] or name))
        known = () if name in DTYPES or name in FUNCTIONS or foreign.value_help(name) else scope.values
        helps = (self._name_help(name),)
        self.context.unknown("MU1001", f"unknown name '{name}'", expr.span, name, known, helps=helps)
        return None

    def _name_help(self, name: str) -> str:
        """Return advice for an undefined name."""
        if name in DTYPES:
            return "a type can be given to `cast(x, type)` only"
        if name in FUNCTIONS:
            return f"'{name}' is a function: write `{FUNCTIONS[name][0].signature}`"
        if (help_ := foreign.value_help(name)) is not None:
            return help_
        if not self.scope.values:
            return f"add a parameter `{name}` to the {self.scope.what}, or define it: `{name} = ...`"
        listed = ", ".join(list(self.scope.values)[:_MOST_LISTED])
        more = ", ..." if len(self.scope.values) > _MOST_LISTED else ""
        return f"define `{name} = ...` first, or use what is defined here: {listed}{more}"

    def _unary(self, expr: ast.Unary) -> Value:
        if expr.op == "-" and (number := self._literal(expr.operand)) is not None:
            return self.add(expr.span, lambda: e.ConstantOp(-number))
        return self._on(expr, expr.operand, e.NegOp if expr.op == "-" else e.NotOp)

    def _literal(self, expr: ast.Expr) -> float | None:
        """Return the number of a literal operand, including `inf` if undefined; None for other operands."""
        match expr:
            case ast.Number():
                return expr.value
            case ast.Name(text=text) if text == INFINITY and not self._is_defined(text):
                return float(text)
            case _:
                return None

    def _is_defined(self, name: str) -> bool:
        return name in self.scope.values or name in self.scope.dims

    def _binary(self, expr: ast.Binary) -> Value:
        first, chain = expr.spine
        value = self.lower(first)
        for binary in chain:
            value = self._operator(binary, value, self.lower(binary.rhs))
        return value

    def _operator(self, expr: ast.Binary, lhs: Value, rhs: Value) -> Value:
        if lhs is None or rhs is None:
            return None
        labels = (
            (expr.lhs.span, f"this is {type_text(lhs.type)}"),
            (expr.rhs.span, f"this is {type_text(rhs.type)}"),
        )

        if expr.op in ("==", "!=") and _is_bool(lhs) and _is_bool(rhs):
            lhs, rhs = (self.add(expr.span, lambda v=v: e.CastOp(v, DTYPES["s32"])) for v in (lhs, rhs))
            if lhs is None or rhs is None:
                return None

        def build() -> Operation:
            if relation := _RELATIONS.get(expr.op):
                return e.CmpOp(relation, lhs, rhs)
            return _ARITHMETIC[expr.op](lhs, rhs)

        return self.add(expr.span, build, expr.op_span, labels, lambda: operand_fixes(expr, lhs, rhs))

    # Calls

    def _call(self, call: ast.Call) -> Value:
        name = call.function.text
        if name in self.inliner.functions:
            return self._inlined(call, self.inliner.functions[name])
        if (overloads := FUNCTIONS.get(name)) is None:
            self._arguments(call)
            self._unknown_function(call.function)
            return None
        keywords = [a.name.text for a in call.args if a.name]
        positional = len(call.args) - len(keywords)
        chosen = choose(overloads, positional, keywords)
        function = chosen.taking(positional)
        bound = self._bind(call, function, chosen.signature)
        values: list[Value] = []
        labels: list[tuple[Span, str]] = []
        options: dict[str, Option] = {}
        if any(param.kind is VALUE and param.default is not None for param in function.params):
            options[GIVEN] = " ".join(p.name for p in function.params if p.name in bound and p.kind is VALUE)
        for param in function.params:
            if (argument := bound.get(param.name)) is None:
                continue
            if param.kind is VALUE:
                values.append(value := self._value(argument, param, name))
                if value is not None:
                    labels.append((argument.span, f"this is {type_text(value.type)}"))
            elif (option := self._option(argument, param, name)) is not None:
                options[param.name] = option
            else:
                values.append(None)
        known = [v for v in values if v is not None]
        complete = all(p.default is not None or p.name in bound for p in function.params)
        if not complete or len(known) != len(values) or len(bound) != len(call.args):
            return None
        return self.add(call.span, lambda: function.build(known, options), call.function.span, tuple(labels))

    def _arguments(self, call: ast.Call) -> None:
        """Generate the arguments of a call that has no value, for their own errors and as uses."""
        for argument in call.args:
            if not isinstance(argument.value, ast.List) and not argument.name:
                self.lower(argument.value)

    def _inlined(self, call: ast.Call, function: ast.Function) -> Value:
        """Generate a call of a function that the program defines."""
        self.inliner.calls(call.function)
        if self.inliner.is_broken(function.name.text):
            self._arguments(call)
            return None
        params = tuple(Parameter(p.text, VALUE) for p in function.params)
        signature = Function(function.name.text, params, "", lambda values, options: [])
        bound = self._bind(call, signature, signature.signature)
        values = {p.name: self._value(bound[p.name], p, signature.name) for p in params if p.name in bound}
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) != len(params) or len(bound) != len(call.args):
            return None
        return self.inliner.inline(self, call, known)

    def _unknown_function(self, function: ast.Ident) -> None:
        name = function.text
        if name in self.scope.values:
            helps = (f"'{name}' is a value: write `{name} * (...)` for a product",)
            self.context.error("MU1002", f"unknown function '{name}'", function.span, helps=helps)
            return
        helps = (help_,) if (help_ := foreign.function_help(name)) else (_FUNCTIONS_LISTED,)
        known = () if foreign.is_foreign(name) else (*self.inliner.functions, *FUNCTIONS)
        message = f"unknown function '{name}'"
        self.context.unknown("MU1002", message, function.span, name, known, helps=helps)

    def _bind(self, call: ast.Call, function: Function, signature: str) -> dict[str, ast.Argument]:
        """Bind arguments to parameters by name; arguments that fit none are reported and left out."""
        bound: dict[str, ast.Argument] = {}
        params = {p.name: p for p in function.params}
        note = (f"the signature is `{signature}`",)
        helps = foreign.call_help(function.name)
        for position, argument in enumerate(call.args):
            keyword = argument.name
            if keyword is None and position >= len(function.params):
                if position == len(function.params):
                    count = f"{len(params)} argument{'s' if len(params) != 1 else ''}"
                    message = f"{function.name} takes at most {count}"
                    self.context.error("MU1007", message, argument.span, notes=note, helps=helps)
                continue
            name = keyword.text if keyword else function.params[position].name
            if keyword and name not in params:
                self._unknown_keyword(function, keyword, note)
            elif name in bound:
                self.context.error(
                    "MU1009",
                    f"the argument '{name}' of {function.name} is given twice",
                    argument.span,
                    labels=((bound[name].span, "first given here"),),
                )
            else:
                bound[name] = argument
        missing = [p.name for p in function.params if p.default is None and p.name not in bound]
        if missing and len(bound) == len(call.args):
            names = " and ".join(f"'{n}'" for n in missing)
            plural = "s" if len(missing) > 1 else ""
            self.context.error(
                *("MU1007", f"{function.name} needs the argument{plural} {names}", call.span),
                notes=note,
                helps=helps,
            )
        return bound

    def _unknown_keyword(self, function: Function, keyword: ast.Ident, note: tuple[str, ...]) -> None:
        name = keyword.text
        known = [p.name for p in function.params]
        same = next((p for p in foreign.parameter_names(name) if p in known), None)
        message = f"{function.name} has no parameter '{name}'"
        if same and near_spelling(name, known) is None:
            fix = Fix(keyword.span, same, f"write '{same}'")
            helps = (f"the parameter is called '{same}'",)
            self.context.error("MU1008", message, keyword.span, notes=note, helps=helps, fixes=(fix,))
            return
        helps = (advice,) if (advice := foreign.parameter_help(name, function.name)) else ()
        self.context.unknown("MU1008", message, keyword.span, name, known, note, helps)

    def _value(self, argument: ast.Argument, param: Parameter, function: str) -> Value:
        if isinstance(argument.value, ast.List):
            self._misfit(argument, param, "a value, not a list", foreign.call_help(function))
            return None
        return self.lower(argument.value)

    def _option(self, argument: ast.Argument, param: Parameter, function: str) -> Option:
        expr = argument.value
        if any(self.scope.is_open(name) for name in _names(expr)):
            self.scope.used.update(_names(expr))
            return None
        option: Option = None
        match param.kind:
            case _ if param.kind is NUMBER:
                wanted = "a number known at compile time"
                option = None if isinstance(expr, ast.List) else self._number(expr)
            case _ if param.kind is WORD:
                wanted = f"one of {', '.join(param.choices)}"
                word = expr.text if isinstance(expr, ast.Name) else None
                option = word if word in param.choices else None
                if option is None and word is not None:
                    self._unknown_word(param, word, expr.span)
                    return None
            case _ if param.kind is EXTENT:
                wanted = "a dim of the kernel or a positive integer"
                option = self._extent(expr)
            case _ if param.kind is BOUND:
                wanted = "an integer, a dim, or arithmetic on dims"
                option = self._extent(expr, None)
            case _ if param.kind is EXTENTS:
                wanted = "extents such as (M, 8): dims of the kernel, positive integers"
                option = self._extents(expr)
            case _:
                what = "an axis" if param.kind is AXES else "an integer"
                wanted = f"{what} such as 1 or -1, or several such as (0, 1)"
                option = self._integers(expr)
        if option is None:
            self._misfit(argument, param, wanted, foreign.call_help(function))
        return option

    def _unknown_word(self, param: Parameter, word: str, span: Span) -> None:
        """Report a word that a parameter does not take."""
        note = (f"it is one of {', '.join(param.choices)}",)
        same = foreign.DTYPES.get(word) or foreign.SWITCHES.get(word)
        helps = (f"write `{same}`",) if same in param.choices else ()
        message = f"'{word}' is no value of '{param.name}'"
        self.context.unknown("MU1010", message, span, word, param.choices, note, helps)

    def _extents(self, expr: ast.Expr | ast.List) -> Dims | None:
        if not isinstance(expr, ast.List):
            return None if (extent := self._extent(expr)) is None else (extent,)
        extents: list[Dim] = []
        for item in expr.values:
            extent = item if isinstance(item, int) else self._arithmetic(item)
            if extent is None or (isinstance(extent, int) and extent < 1):
                return None
            extents.append(extent)
        return tuple(extents)

    def _integers(self, expr: ast.Expr | ast.List) -> tuple[int, ...] | None:
        """Read integers, or dims bound to integers; None for other expressions."""
        items: Sequence[Dim | None]
        if isinstance(expr, ast.List):
            items = [i if isinstance(i, int) else self._arithmetic(i, None) for i in expr.values]
        else:
            items = [self._extent(expr, None)]
        numbers = [i for i in items if isinstance(i, int)]
        return tuple(numbers) if len(numbers) == len(items) else None

    def _number(self, expr: ast.Expr) -> float | None:
        """Evaluate a number, a name of one, its negative, or a quotient of numbers; None for others."""
        match expr:
            case ast.Number():
                return expr.value
            case ast.Name():
                self.scope.used.add(expr.text)
                return self.scope.constant(expr.text)
            case ast.Unary(op="-"):
                operand = self._number(expr.operand)
                return None if operand is None else -operand
            case ast.Binary():
                first, chain = expr.spine
                value = self._number(first)
                for binary in chain:
                    divisor = self._number(binary.rhs) if binary.op == "/" else None
                    value = value / divisor if value is not None and divisor else None
                return value
            case _:
                return None

    def _arithmetic(self, extent: ast.DimExpr, least: int | None = 1) -> Dim | None:
        """Read arithmetic on dims of at least `least`; None where it has other names, or after an error."""
        dims = dict(self.scope.dims)
        for name in names_in(extent):
            if name not in dims:
                if (number := self.scope.integer(name)) is None:
                    return None
                dims[name] = number
        self.scope.used |= names_in(extent)
        return lower_extent(self.context, extent, dims, least)

    def _extent(self, expr: ast.Expr | ast.List, least: int | None = 1) -> Dim | None:
        """Read an extent; None for other expressions, or after an error."""
        extent = None if isinstance(expr, ast.List) else as_extent(expr)
        return None if extent is None else self._arithmetic(extent, least)

    def _misfit(self, argument: ast.Argument, param: Parameter, wanted: str, helps: tuple[str, ...]) -> None:
        """Report an argument that does not fit, unless an error within it was reported."""
        if any(d.span and _is_within(d.span, argument.value.span) for d in self.context.sink.diagnostics):
            return
        message = f"'{param.name}' must be {wanted}"
        self.context.error("MU1010", message, argument.value.span, helps=helps)


def _names(expr: ast.Expr | ast.List) -> tuple[str, ...]:
    """Return the names in an option: of itself, of its items, or behind a sign."""
    match expr:
        case ast.Name():
            return (expr.text,)
        case ast.Unary():
            return _names(expr.operand)
        case ast.List():
            return tuple(item.text for item in expr.values if isinstance(item, ast.Ident))
        case _:
            return ()


def _is_within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
