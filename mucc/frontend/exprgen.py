"""Generate `mu` operations from expressions.

An erroneous expression becomes None, to avoid follow-up errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from mucc.diagnostics.core import Fix, Span
from mucc.dialects.mu import rules
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.pointwise import extent_number
from mucc.dialects.mu.ops.views import ExpandOp, TransposeOp
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
from mucc.frontend.extents import as_extent, lower_extent, names_in
from mucc.frontend.functions import FUNCTIONS, choose

Value = SSAValue | None

_ARITHMETIC: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "+": e.AddOp,
    "-": e.SubOp,
    "*": e.MulOp,
    "/": e.DivOp,
    "@": MatmulOp,
    "and": e.AndOp,
    "or": e.OrOp,
}
INFINITY = "inf"
"""The name of infinity, unless the program defines this name."""

_MOST_LISTED = 12
_FUNCTIONS_LISTED = "`mucc docs --card` lists the functions of the language"

_RELATIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


@dataclass
class Scope:
    """The dims and values of a kernel by name. `used` collects names that are read."""

    dims: dict[str, int | None]
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    used: set[str] = field(default_factory=set[str])


class ExprGen:
    """Generator that appends the operations of expressions to `block`."""

    def __init__(self, context: Context, scope: Scope, block: Block):
        self.context = context
        self.scope = scope
        self.block = block

    def lower(self, expr: ast.Expr) -> Value:
        """Generate an expression; returns its value, or None after reporting an error."""
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
                return self._index(expr)
            case ast.Call():
                return self._call(expr)

    def add(
        self,
        span: Span,
        build: Callable[[], Operation | Sequence[Operation]],
        at: Span | None = None,
        labels: Labels = (),
        fixes: Callable[[], tuple[Fix, ...]] = tuple,
    ) -> Value:
        """Append operations with the location of `span`; report a broken type rule at `at` or `span`."""
        try:
            built = build()
            ops = (built,) if isinstance(built, Operation) else built
            if not isinstance(built, MatmulOp | TransposeOp):
                rules.dense([v.type for op in ops for v in op.operands])
        except rules.TypeRuleError as error:
            self.context.rule_error(error, at or span, labels, fixes())
            return None
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
            return f"add a parameter `{name}` to the kernel, or define it: `{name} = ...`"
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

        def build() -> Operation:
            if relation := _RELATIONS.get(expr.op):
                return e.CmpOp(relation, lhs, rhs)
            return _ARITHMETIC[expr.op](lhs, rhs)

        return self.add(expr.span, build, expr.op_span, labels, lambda: _operand_fixes(expr, lhs, rhs))

    def _index(self, expr: ast.Index) -> Value:
        value = self.lower(expr.operand)
        if value is None:
            return None
        rank, kept = len(Shaped.of(value.type).dims), expr.new_axes.count(False)
        if kept != rank:
            wanted = ", ".join([":"] * rank + ["None"])
            self.context.error(
                "MU1018",
                f"{kept} ':' for the {rank} axes of {type_text(value.type)}",
                expr.span,
                helps=(f"write one ':' per axis, for example `[{wanted}]`",),
            )
            return None
        axes = [n for n, new in enumerate(expr.new_axes) if new]
        return self.add(expr.span, lambda: ExpandOp(value, axes)) if axes else value

    # Calls

    def _call(self, call: ast.Call) -> Value:
        name = call.function.text
        if (overloads := FUNCTIONS.get(name)) is None:
            for argument in call.args:  # for their own errors, and as uses
                if not isinstance(argument.value, ast.List) and not argument.name:
                    self.lower(argument.value)
            self._unknown_function(call.function)
            return None
        keywords = [a.name.text for a in call.args if a.name]
        positional = len(call.args) - len(keywords)
        function = choose(overloads, positional, keywords).taking(positional)
        bound = self._bind(call, function)
        values: list[Value] = []
        labels: list[tuple[Span, str]] = []
        options: dict[str, Option] = {}
        if any(param.kind is VALUE and param.default is not None for param in function.params):
            options[GIVEN] = " ".join(p.name for p in function.params if p.name in bound and p.kind is VALUE)
        for param in function.params:
            if (argument := bound.get(param.name)) is None:
                continue
            if param.kind is VALUE:
                values.append(value := self._value(argument, param))
                if value is not None:
                    labels.append((argument.span, f"this is {type_text(value.type)}"))
            elif (option := self._option(argument, param)) is not None:
                options[param.name] = option
            else:
                values.append(None)
        known = [v for v in values if v is not None]
        complete = all(p.default is not None or p.name in bound for p in function.params)
        if not complete or len(known) != len(values) or len(bound) != len(call.args):
            return None
        return self.add(call.span, lambda: function.build(known, options), call.function.span, tuple(labels))

    def _unknown_function(self, function: ast.Ident) -> None:
        name = function.text
        if name in self.scope.values:
            helps = (f"'{name}' is a value: write `{name} * (...)` for a product",)
            self.context.error("MU1002", f"unknown function '{name}'", function.span, helps=helps)
            return
        helps = (help_,) if (help_ := foreign.function_help(name)) else (_FUNCTIONS_LISTED,)
        known = () if foreign.is_foreign(name) else FUNCTIONS
        message = f"unknown function '{name}'"
        self.context.unknown("MU1002", message, function.span, name, known, helps=helps)

    def _bind(self, call: ast.Call, function: Function) -> dict[str, ast.Argument]:
        """Bind arguments to parameters by name; arguments that fit none are reported and left out."""
        bound: dict[str, ast.Argument] = {}
        params = {p.name: p for p in function.params}
        note = (f"the signature is `{function.signature}`",)
        for position, argument in enumerate(call.args):
            keyword = argument.name
            if keyword is None and position >= len(function.params):
                count = f"{len(params)} argument{'s' if len(params) != 1 else ''}"
                self.context.error(
                    "MU1007", f"{function.name} takes at most {count}", argument.span, notes=note
                )
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
                "MU1007", f"{function.name} needs the argument{plural} {names}", call.span, notes=note
            )
        return bound

    def _unknown_keyword(self, function: Function, keyword: ast.Ident, note: tuple[str, ...]) -> None:
        name = keyword.text
        known = [p.name for p in function.params]
        same = next((p for p in foreign.parameter_names(name) if p in known), None)
        helps = (f"the parameter is called '{same}'",) if same else ()
        message = f"{function.name} has no parameter '{name}'"
        self.context.unknown("MU1008", message, keyword.span, name, known, note, helps)

    def _value(self, argument: ast.Argument, param: Parameter) -> Value:
        if isinstance(argument.value, ast.List):
            self._misfit(argument, param, "a value, not a list")
            return None
        return self.lower(argument.value)

    def _option(self, argument: ast.Argument, param: Parameter) -> Option:
        expr = argument.value
        option: Option = None
        match param.kind:
            case _ if param.kind is NUMBER:
                option = None if isinstance(expr, ast.List) else constant(expr)
                if option is None:
                    self._misfit(argument, param, "a number known at compile time")
            case _ if param.kind is WORD:
                word = expr.text if isinstance(expr, ast.Name) else None
                option = word if word in param.choices else None
                if option is None and word is not None:
                    choices = ", ".join(param.choices)
                    message = f"'{word}' is no value of '{param.name}'"
                    note = (f"it is one of {choices}",)
                    same = foreign.DTYPES.get(word)
                    helps = (f"write `{same}`",) if same in param.choices else ()
                    self.context.unknown("MU1010", message, expr.span, word, param.choices, note, helps)
                elif option is None:
                    self._misfit(argument, param, f"one of {', '.join(param.choices)}")
            case _ if param.kind is EXTENT:
                option = self._extent(expr)
                if option is None:
                    self._misfit(argument, param, "a dim of the kernel or a positive integer")
            case _ if param.kind is BOUND:
                option = self._extent(expr, None)
                if option is None:
                    self._misfit(argument, param, "an integer, a dim, or arithmetic on dims")
            case _ if param.kind is EXTENTS:
                option = self._extents(expr)
                if option is None:
                    self._misfit(
                        argument, param, "extents such as (M, 8): dims of the kernel, positive integers"
                    )
            case _:
                option = self._integers(expr)
                if option is None:
                    what = "an axis" if param.kind is AXES else "an integer"
                    self._misfit(argument, param, f"{what} such as 1 or -1, or several such as (0, 1)")
        return option

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

    def _arithmetic(self, extent: ast.DimExpr, least: int | None = 1) -> Dim | None:
        """Read arithmetic on dims of at least `least`; None where it has other names, or after an error."""
        names = names_in(extent)
        if not names <= self.scope.dims.keys():
            return None
        self.scope.used |= names
        return lower_extent(self.context, extent, self.scope.dims, least)

    def _extent(self, expr: ast.Expr | ast.List, least: int | None = 1) -> Dim | None:
        """Read an extent; None for other expressions, or after an error."""
        extent = None if isinstance(expr, ast.List) else as_extent(expr)
        return None if extent is None else self._arithmetic(extent, least)

    def _misfit(self, argument: ast.Argument, param: Parameter, wanted: str) -> None:
        """Report an argument that does not fit, unless an error within it was reported."""
        if any(d.span and _is_within(d.span, argument.value.span) for d in self.context.sink.diagnostics):
            return
        self.context.error("MU1010", f"'{param.name}' must be {wanted}", argument.value.span)


def constant(expr: ast.Expr) -> float | None:
    """Evaluate a literal expression; None for other expressions."""
    match expr:
        case ast.Number():
            return expr.value
        case ast.Name(text=text) if text == INFINITY:
            return float(text)
        case ast.Unary(op="-"):
            operand = constant(expr.operand)
            return None if operand is None else -operand
        case ast.Binary():
            first, chain = expr.spine
            value = constant(first)
            for binary in chain:
                divisor = constant(binary.rhs) if binary.op == "/" else None
                value = value / divisor if value is not None and divisor else None
            return value
        case _:
            return None


def _operand_fixes(expr: ast.Binary, lhs: SSAValue, rhs: SSAValue) -> tuple[Fix, ...]:
    """Suggest an edit of one operand that makes the shapes of an operator fit."""
    if expr.op == "@":
        if isinstance(expr.rhs, ast.Name) and _fits(
            lambda: rules.matmul(lhs.type, rules.transpose(rhs.type))
        ):
            return (_insertion(expr.rhs, ".T"),)
        if isinstance(expr.lhs, ast.Name) and _fits(
            lambda: rules.matmul(rules.transpose(lhs.type), rhs.type)
        ):
            return (_insertion(expr.lhs, ".T"),)
        return ()
    if _fits(lambda: rules.elementwise([lhs.type, rhs.type])):
        return ()
    for operand, value, other in ((expr.rhs, rhs, lhs), (expr.lhs, lhs, rhs)):
        if isinstance(operand, ast.Name) and len(Shaped.of(value.type).dims) == 1:
            column = rules.expand(value.type, [1])
            if _fits(lambda: rules.elementwise([other.type, column])):  # noqa: B023
                return (_insertion(operand, "[:, None]"),)
    return ()


def _fits(rule: Callable[[], object]) -> bool:
    try:
        rule()
    except rules.TypeRuleError:
        return False
    return True


def _is_within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _insertion(expr: ast.Expr, text: str) -> Fix:
    return Fix(Span(expr.span.end, expr.span.end), text, f"write `{text}`")
