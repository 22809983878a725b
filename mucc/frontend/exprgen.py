"""Generate `mu` operations from expressions.

An erroneous expression becomes None, to avoid follow-up errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from mucc.diagnostics.core import Fix, Span
from mucc.dialects.mu import rules
from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.surface import (
    AXES,
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
from mucc.dialects.mu.types import DTYPES, Shaped
from mucc.frontend import ast, foreign
from mucc.frontend.context import Context, Labels, type_text
from mucc.frontend.expressions import MAX_HEIGHT
from mucc.frontend.functions import FUNCTIONS, choose
from mucc.frontend.indexing import lower_index

if TYPE_CHECKING:
    from mucc.frontend.inlining import Inliner

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

MAX_DEPTH = MAX_HEIGHT + 32
"""The most expressions in each other, those of the functions that are called among them."""

_MOST_LISTED = 12
_FUNCTIONS_LISTED = "`mucc docs --card` lists the functions of the language"

_RELATIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


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
            if (extent := scope.dims[name]) is not None:
                return self.add(expr.span, lambda: e.ConstantOp(extent))
            self.context.error(
                "MU1004",
                f"the dim '{name}' is not a value",
                expr.span,
                helps=(f"bind it (`[{name}=4096]`), or pass the number as a parameter of type f32",),
            )
            return None
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

        def build() -> Operation:
            if relation := _RELATIONS.get(expr.op):
                return e.CmpOp(relation, lhs, rhs)
            return _ARITHMETIC[expr.op](lhs, rhs)

        return self.add(expr.span, build, expr.op_span, labels, lambda: _operand_fixes(expr, lhs, rhs))

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
        bound = self._bind(call, signature)
        values = {p.name: self._value(bound[p.name], p) for p in params if p.name in bound}
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
        if any(self.scope.is_open(name) for name in _names(expr)):
            self.scope.used.update(_names(expr))
            return None
        match param.kind:
            case _ if param.kind is NUMBER:
                option = None if isinstance(expr, ast.List) else self._number(expr)
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

    def _extents(self, expr: ast.Expr | ast.List) -> tuple[int | str, ...] | None:
        if not isinstance(expr, ast.List):
            return None if (extent := self._extent(expr)) is None else (extent,)
        extents: list[int | str] = []
        for item in expr.values:
            extent = self._dim(item.text) if isinstance(item, ast.Ident) else item
            if extent is None or (isinstance(extent, int) and extent < 1):
                return None
            extents.append(extent)
        return tuple(extents)

    def _integers(self, expr: ast.Expr | ast.List) -> tuple[int, ...] | None:
        """Read integers, or dims bound to integers; None for other expressions."""
        items: Sequence[int | str | None]
        if isinstance(expr, ast.List):
            items = [self._dim(i.text) if isinstance(i, ast.Ident) else i for i in expr.values]
        else:
            items = [self._integer(expr)]
        numbers = [i for i in items if isinstance(i, int)]
        return tuple(numbers) if len(numbers) == len(items) else None

    def _integer(self, expr: ast.Expr) -> int | None:
        """Evaluate an integer, a name of one, or its negative; None for others."""
        match expr:
            case ast.Number():
                return int(expr.text) if expr.is_int else None
            case ast.Name():
                number = self._dim(expr.text)
                return number if isinstance(number, int) else None
            case ast.Unary(op="-"):
                operand = self._integer(expr.operand)
                return None if operand is None else -operand
            case _:
                return None

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

    def _dim(self, name: str) -> int | str | None:
        """Return the value of a bound dim or an integer, the name of another dim, None for other names."""
        self.scope.used.add(name)
        if name not in self.scope.dims:
            return self.scope.integer(name)
        return self.scope.dims[name] or name

    def _extent(self, expr: ast.Expr | ast.List) -> int | str | None:
        """Read an extent: a dim or a positive integer; None for other expressions."""
        if isinstance(expr, ast.Number) and expr.is_int and int(expr.text) > 0:
            return int(expr.text)
        extent = self._dim(expr.text) if isinstance(expr, ast.Name) else None
        return None if isinstance(extent, int) and extent < 1 else extent

    def _misfit(self, argument: ast.Argument, param: Parameter, wanted: str) -> None:
        self.context.error("MU1010", f"'{param.name}' must be {wanted}", argument.value.span)


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


def _insertion(expr: ast.Expr, text: str) -> Fix:
    return Fix(Span(expr.span.end, expr.span.end), text, f"write `{text}`")
