"""Check the functions that a program defines (`fn`), and generate their bodies in place of their calls.

A function is checked once by itself, with parameters that have no type yet, for all that does not depend on
types. Types are inferred at each call, from its arguments; an error is then reported in the body, with labels
at the calls that lead there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice, pairwise

from xdsl.ir import Block, SSAValue

from mucc.diagnostics.core import Span
from mucc.dialects.mu.types import DTYPES
from mucc.frontend import ast
from mucc.frontend.context import Context
from mucc.frontend.definitions import Definitions, defined_twice
from mucc.frontend.exprgen import ExprGen, Scope, Value
from mucc.frontend.functions import FUNCTIONS

MOST = 20_000
"""The most operations and calls that calls of functions expand to in a program."""

_LONGEST = 8
"""The most functions of a cycle that are shown."""


class Inliner:
    """The functions of a program by name, and what their calls have led to so far."""

    def __init__(self, context: Context, program: ast.Program):
        self.context = context
        self.functions: dict[str, ast.Function] = {}
        self._calls: dict[str, dict[str, Span]] = {}  # which functions call which, and where first
        self._used: set[str] = set()  # functions that kernels call
        self._broken: set[str] = set()  # functions with errors of their own, whose calls say no more
        self._checked: str | None = None
        self.called: set[str] = set()
        """The functions that a kernel calls; the lowering clears it before each kernel."""
        self.inlined = 0
        """How many operations and calls the calls of functions have expanded to."""
        kernels = {k.name.text: k.name for k in program.kernels}
        for function in program.functions:
            name = function.name
            first = self.functions.setdefault(name.text, function)
            if first is not function or name.text in kernels:
                other = first.name if first is not function else kernels[name.text]
                defined_twice(context, "function", name, other)
            elif name.text in FUNCTIONS or name.text in DTYPES:
                what = "a type" if name.text in DTYPES else "a function of the language"
                context.error(
                    "MU1019",
                    f"'{name.text}' is {what} and cannot name a function",
                    name.span,
                    helps=(f"choose another name, for example 'my_{name.text}'",),
                )

    def check(self) -> None:
        """Check the definition of each function."""
        for function in self.functions.values():
            errors = self.context.errors
            self._checked = function.name.text
            self._check(function)
            self._checked = None
            if self.context.errors != errors:
                self._broken.add(function.name.text)
        self._check_recursion()

    def _check(self, function: ast.Function) -> None:
        definitions, errors = Definitions(self.context), self.context.errors
        for param in function.params:
            definitions.add("parameter", param)
        scope = Scope({}, {p.text: None for p in function.params}, what="function")
        gen = ExprGen(self.context, scope, Block(), self)
        for statement in function.body:
            scope.values[statement.name.text] = gen.lower(statement.value)
            definitions.add("value", statement.name)
        for value in function.returns:
            gen.lower(value)
        if self.context.errors == errors:
            params, values = {p.text for p in function.params}, {s.name.text for s in function.body}
            definitions.warn_unused(scope.used, params, values)

    def _check_recursion(self) -> None:
        """Report each function that leads to a call of itself."""
        done: set[str] = set()
        for start in self.functions:
            path: dict[str, list[str]] = {}  # the functions on the way from `start`, with the calls to follow
            pending = [start]
            while pending:
                name = pending[-1]
                if name not in path and name not in done:
                    path[name] = [f for f in self._calls.get(name, {}) if f in self.functions]
                if not (following := path.get(name)):
                    path.pop(name, None)
                    done.add(pending.pop())
                elif (called := following.pop(0)) in path:
                    self._recursive([*list(path)[list(path).index(called) :], called])
                elif called not in done:
                    pending.append(called)

    def _recursive(self, cycle: list[str]) -> None:
        self._broken.update(cycle)
        shown = cycle if len(cycle) <= _LONGEST else [*cycle[: _LONGEST - 2], "...", *cycle[-1:]]
        steps = pairwise(cycle[:-1])
        self.context.error(
            "MU1051",
            f"the function '{cycle[0]}' leads to a call of itself: {' -> '.join(shown)}",
            self._calls[cycle[-2]][cycle[-1]],
            labels=tuple((self._calls[a][b], f"'{a}' calls '{b}'") for a, b in islice(steps, _LONGEST)),
            notes=("each call is replaced by the body of the function, which would never end",),
        )

    def warn_unused(self) -> None:
        """Warn of functions that nothing calls."""
        called = self._used | {f for caller, calls in self._calls.items() for f in calls if f != caller}
        for name, function in self.functions.items():
            if name not in called | self._broken and not name.startswith("_"):
                message = f"the function '{name}' is never called"
                help_ = f"remove it, or call it '_{name}' to keep it"
                self.context.warn("MU1052", message, function.name.span, help_)

    def calls(self, name: ast.Ident) -> None:
        """Note that the function that is checked, or a kernel, calls another one."""
        if self._checked is None:
            self.called.add(name.text)
            self._used.add(name.text)
        else:
            self._calls.setdefault(self._checked, {}).setdefault(name.text, name.span)

    def repeat(self, calls: Iterable[str], inlined: int) -> None:
        """Note the calls of a kernel that is not lowered again, and what they expanded to."""
        self._used.update(calls)
        self.inlined += inlined

    def is_broken(self, name: str) -> bool:
        """Whether the definition of a function has errors, which its calls do not repeat."""
        if name in self._broken:
            self.context.follow_up()
        return name in self._broken

    def inline(self, gen: ExprGen, call: ast.Call, values: Mapping[str, SSAValue]) -> Value:
        """Generate the body of a called function; `values` are its arguments. None after an error."""
        name = call.function.text
        if self._checked is not None:
            return None
        if not self.spend(call.function.span):
            return None
        function = self.functions[name]
        scope = Scope({}, dict(values), what="function")
        inner = ExprGen(self.context, scope, gen.block, self, gen.depth)
        with self.context.called(call.function.span, name):
            for statement in function.body:
                value = inner.lower(statement.value)
                if value is not None and not value.name_hint:
                    value.name_hint = statement.name.text
                scope.values[statement.name.text] = value
            return inner.lower(function.returns[0])

    def spend(self, span: Span) -> bool:
        """Count a call or an operation of a body; returns False, after an error, when there are too many."""
        self.inlined += 1
        if self.inlined == MOST:
            self.context.error(
                "MU1053",
                f"the calls of functions expand to more than {MOST} operations",
                span,
                helps=("give a value that is computed several times a name, and use the name",),
            )
        elif self.inlined > MOST:
            self.context.follow_up()
        return self.inlined < MOST
