"""Parse tokens to an AST by recursive descent. The docstring of a method has the grammar rules it parses.

After an error, parsing continues at the next comma, statement or item, so that one run reports several
errors.
"""

from __future__ import annotations

import re

from mucc.diagnostics.core import Span, near_spelling
from mucc.frontend import ast
from mucc.frontend.expressions import ExpressionParser
from mucc.frontend.lexer import DTYPES, KEYWORDS, Token
from mucc.frontend.stream import ITEM_WORDS, Bail, safe_fix

LAYOUTS = ("row_major", "col_major", "strides", "sparse")
_PROMISES = ("==", "<=", ">=", "<", ">")
LOOPS = ("for", "while", "if")
"""Words that statements with blocks begin with in other languages."""
_ENDS = ("name", "}", "eof", *KEYWORDS)  # kinds of tokens that may follow a statement
_DIVISION = re.compile(r"[ \t]*(?P<comment>//[ \t]*(?P<divisor>[0-9][0-9.]*))[ \t\r]*(?:\n|\Z)")
_LOOSE_SHAPE = re.compile(r"[0-9]+(?:\s*x\s*[0-9]+)+(?![\w.])")


class Parser(ExpressionParser):
    """The parser of one source; `program()` parses it all and never raises."""

    def program(self) -> ast.Program:
        """program = { kernel | function | schedule } ;"""
        parse = {"kernel": self.kernel, "fn": self.function, "schedule": self.schedule}
        items: list[ast.Kernel | ast.Function | ast.Schedule] = []
        while self.kind != "eof":
            self.begin()
            start, is_item = self.token.start, self.kind in ITEM_WORDS
            try:
                word = self.kind if is_item else self._misspelt_item()
                is_item = True
                items.append(parse[word]())
            except Bail:
                self.reset_nesting()
                while self.kind not in (*ITEM_WORDS, "eof"):
                    self.advance()
                if not is_item:
                    self.leave_out(start)
        return ast.Program(Span(0, len(self.source.text)), tuple(items))

    def _misspelt_item(self) -> str:
        """Report a token that begins no item; return the keyword it is a misspelling of, or bail."""
        helps, fixes = self.did_you_mean(ITEM_WORDS)
        if self.token.text in ("def", "func", "function") and self.kind_after(2) != "[":
            helps = ("a function reads `fn name(x, y) { return x + y }`",)
            fixes = (safe_fix(self.token.span, "fn", "write 'fn'"),)
        if not helps:
            from mucc.frontend import syntax_help

            helps = syntax_help.item_help(self.token.text, self.kind_after(1))
        bail = self.unexpected("'kernel', 'fn' or 'schedule'", helps=helps, fixes=fixes)
        if not fixes:
            raise bail
        return fixes[0].replacement

    # Kernels

    def kernel(self) -> ast.Kernel:
        """
        kernel = "kernel" [ "each" ] name [ dims ] "(" [ param { "," param } [ "," ] ] ")" "->" results
                 [ where ] block ;
        """
        start = self.advance().start
        try:
            name = self.name("the name of a kernel")
            each = name.text == "each" and self.kind == "name"
            if each:
                name = self.name("the name of a kernel")
            dims = self.dims() if self.kind == "[" else ()
            if self.kind == "<":
                raise self.unexpected("'('", helps=("dims are in square brackets: `kernel f[M, N](...)`",))
            bracket = self.expect("(")
            params = self.items(bracket, lambda: self.param("a parameter"))
            params_span = self.span_from(bracket.start)
            if not self.accept("->"):
                example = "for example `-> bf16[M, N]`"
                help_ = "promises follow the result: `-> bf16[M, N] where M % 8 == 0`"
                helps = (help_ if self.kind == "where" else example,)
                raise self.unexpected("'->' and the type of the result", helps=helps)
            results_start = self.token.start
            results = self.results()
            results_span = self.span_from(results_start)
            promises = self.where() if self.kind == "where" else ()
            opener = self._body()
        except Bail:
            self.reset_nesting()
            if self.to_brace():  # parse the body all the same, to report its errors
                self.block(self.advance())
            raise
        body, returns, return_span = self.block(opener)
        return ast.Kernel(
            self.span_from(start),
            name,
            dims,
            params,
            results,
            promises,
            body,
            returns,
            params_span,
            results_span,
            opener.span,
            return_span,
            each,
        )

    def _body(self) -> Token:
        """Consume the brace that opens the body of a kernel."""
        if self.kind == ",":
            from mucc.frontend import syntax_help

            raise self.unexpected("'{'", helps=(syntax_help.NAMED_RESULTS,))
        return self._brace()

    def _brace(self) -> Token:
        helps = ("a body is in braces: `{ return relu(x) }`",) if self.kind == ":" else ()
        if self.kind != "{":
            raise self.unexpected("'{'", helps=helps)
        return self.advance()

    def function(self) -> ast.Function:
        """function = "fn" name "(" [ name { "," name } [ "," ] ] ")" block ;"""
        start = self.advance().start
        try:
            name = self.name("the name of a function")
            if self.kind == "[":
                help_ = (
                    "a function has neither dims nor types; a kernel does: `kernel f[M](x: f32[M]) -> f32[M]`"
                )
                raise self.unexpected("'('", helps=(help_,))
            bracket = self.expect("(")
            params = self.items(bracket, self._function_param)
            params_span = self.span_from(bracket.start)
            opener = self._brace()
        except Bail:
            self.reset_nesting()
            if self.to_brace():  # parse the body all the same, to report its errors
                self.block(self.advance(), "function")
            raise
        body, returns, return_span = self.block(opener, "function")
        return ast.Function(
            self.span_from(start), name, params, body, returns, params_span, opener.span, return_span
        )

    def _function_param(self) -> ast.Ident:
        name = self.name("a parameter")
        if self.kind == ":":
            raise self.error(
                "MU0016",
                "a parameter of a function has no type",
                helps=("it has that of the value it is called with: leave the type out",),
            )
        return name

    def dims(self) -> tuple[ast.Dim, ...]:
        """dims = "[" dim { "," dim } [ "," ] "]" ;"""
        return self.items(self.advance(), self.dim, empty=False)

    def dim(self) -> ast.Dim:
        """dim = name [ "=" integer ] ;"""
        name = self.name("the name of a dim")
        value = self.integer("the value of the dim") if self.accept("=") else None
        return ast.Dim(self.span_from(name.span.start), name, value)

    def param(self, what: str) -> ast.Param:
        """param = name ":" type ;"""
        name = self.name(what)
        if not self.accept(":"):
            from mucc.frontend import syntax_help

            helps = syntax_help.type_help(name.text, self.kind, is_result=what == "a result")
            raise self.unexpected(f"':' and the type of '{name.text}'", helps=helps)
        type_ = self.type()
        return ast.Param(name.span.to(type_.span), name, type_)

    def results(self) -> ast.Type | tuple[ast.Param, ...]:
        """results = type | "(" param { "," param } [ "," ] ")" ;"""
        if opener := self.accept("("):
            return self.items(opener, lambda: self.param("a result"), empty=False)
        return self.type()

    def type(self) -> ast.Type:
        """
        type = name [ "[" [ dimexpr { "," dimexpr } [ "," ] ] "]" ] [ layout ] ;
        """
        self._check_dtype()
        dtype = self.name("a type")
        if dtype.text not in DTYPES:
            self._skip_qualified()
        opener = self.accept("[")
        shape = self.items(opener, lambda: self.dimexpr("an extent")) if opener else None
        layout = self.layout() if self.kind == "name" and not self.starts_assignment() else None
        return ast.Type(self.span_from(dtype.span.start), dtype, shape, layout)

    def _skip_qualified(self) -> None:
        """Skip what follows an unknown type, so that it is not reported too: `.Tensor`, `*`."""
        while self.kind == "." and self.kind_after(1) == "name":
            self.advance()
            self.advance()
        while self.accept("*"):
            pass

    def _check_dtype(self) -> None:
        token = self.token
        if token.kind != "name" or token.text in DTYPES:
            return
        from mucc.frontend import syntax_help

        helps, fixes = syntax_help.dtype_help(token)
        note = f"the types are {', '.join(DTYPES)}"
        bail = self.error("MU0006", f"unknown type '{token.text}'", notes=(note,), helps=helps, fixes=fixes)
        if syntax_help.NAMED_RESULTS in helps:
            raise bail

    def layout(self) -> ast.Layout:
        """
        layout = "row_major" | "col_major" | "sparse" | "strides" "(" stride { "," stride } [ "," ] ")" ;
        stride = integer | "_" ;
        """
        token = self.token
        if token.text not in LAYOUTS:
            helps, fixes = self.did_you_mean((*LAYOUTS, "where"))
            raise self.unexpected("a layout, or the end of the type", helps=helps, fixes=fixes)
        self.advance()
        strides: tuple[int | None, ...] = ()
        if token.text == "strides":
            strides = self.items(self.expect("("), self._stride, empty=False)
        return ast.Layout(self.span_from(token.start), token.text, strides)

    def _stride(self) -> int | None:
        if self.token.text == "_":
            self.advance()
            return None
        return self.integer("a stride or '_'").value

    def where(self) -> tuple[ast.Promise, ...]:
        """where = "where" promise { "," promise } [ "," ] ;"""
        self.advance()
        promises = [self.promise()]
        while self.accept(",") and self.kind != "{":
            promises.append(self.promise())
        return tuple(promises)

    def promise(self) -> ast.Promise:
        """promise = dimexpr ( "==" | "<=" | ">=" | "<" | ">" ) dimexpr ;"""
        lhs = self.dimexpr()
        if self.kind not in _PROMISES:
            help_ = "equality is `==`" if self.kind == "=" else "a promise reads like `K % 8 == 0`"
            raise self.unexpected("a comparison", helps=(help_,))
        op = self.advance().kind
        rhs = self.dimexpr()
        if self.kind in _PROMISES:
            raise self.chained()
        if self.kind == "and":
            fix = safe_fix(self.token.span, ",", "write ','")
            raise self.unexpected("',' or '{'", helps=("promises are a list with commas",), fixes=(fix,))
        return ast.Promise(lhs.span.to(rhs.span), op, lhs, rhs)

    def block(
        self, opener: Token, what: str = "kernel"
    ) -> tuple[tuple[ast.Statement, ...], tuple[ast.Expr, ...], Span]:
        """block = "{" { statement } "return" expr { "," expr } "}" ;"""
        body: list[ast.Statement] = []
        returns: tuple[ast.Expr, ...] = ()
        return_span: Span | None = None
        while self.kind not in ("}", "eof", *ITEM_WORDS):
            before = self.position
            self.begin()
            if return_span is not None:
                self._after_return(return_span, what)
            try:
                if self.kind == "return":
                    start = self.token
                    return_span = return_span or start.span
                    returns = self._return()
                    return_span = self.span_from(start.start)
                    if what == "function" and len(returns) > 1:
                        self._unfit(return_span, "a function returns one value", "write a function for each")
                else:
                    body.append(statement := self.statement())
                    if what == "function":
                        self._check_line(statement)
            except Bail:
                self.reset_nesting()
                start = self.tokens[before]
                if self.position == before:
                    self.advance()
                self.to_statement()
                if start.text in LOOPS:
                    self.leave_out(start.start)
        if return_span is None and self.kind == "}":
            self.error(
                "MU0008",
                f"the {what} does not return a value",
                helps=("end it with `return` and the result",),
            )
        self.close(opener)
        return tuple(body), returns, return_span or self.tokens[self.position - 1].span

    def _check_line(self, statement: ast.Statement) -> None:
        """Report what a statement of a function cannot have."""
        if statement.is_stage:
            self._unfit(statement.span, "a stage in a function", "pin the result of the call in the kernel")
        elif statement.type:
            message = "a value of a function has no declared type"
            self._unfit(statement.type.span, message, "leave the type out, or convert with `cast(x, f32)`")

    def _unfit(self, span: Span, message: str, help_: str) -> None:
        self.error("MU0016", message, span, helps=(help_,))

    def _return(self) -> tuple[ast.Expr, ...]:
        self.advance()
        values = [self.expr()]
        while self.accept(","):
            values.append(self.expr())
        self._end_of_expression("an operator, ',' or '}'", "=")
        return tuple(values)

    def _end_of_expression(self, expected: str, *assigning: str) -> None:
        """Check what follows the last expression of a statement. Raises Bail after reporting other tokens.

        On its line only a statement may follow: a name and one of the tokens `assigning`.
        """
        token, before = self.token, self.tokens[self.position - 1]
        is_on_line = "\n" not in self.source.text[before.end : token.start]
        is_loose = self.kind in ("name", "not", "for") and self.kind_after(1) not in assigning
        if self.kind not in _ENDS or (is_on_line and is_loose):
            from mucc.frontend import syntax_help

            last = self.tokens[max(self.position - 3, 0) : self.position]
            raise self.unexpected(expected, helps=syntax_help.operator_help(token, self.kind_after(1), last))
        self._warn_of_division()

    def _warn_of_division(self) -> None:
        """Warn of a comment such as `// 2` behind an expression, which elsewhere divides."""
        if match := _DIVISION.match(self.source.text, self.tokens[self.position - 1].end):
            span = Span(*match.span("comment"))
            self.warn(
                "MU0017",
                "this is a comment, which divides nothing",
                span,
                helps=(f"`floor_divide(x, {match['divisor']})` rounds a quotient down; `/` divides",),
            )

    def _after_return(self, span: Span, what: str) -> None:
        several = "; several results are separated by commas" if what == "kernel" else ""
        self.error(
            "MU0011",
            "a statement after 'return'",
            labels=((span, f"the {what} ends here"),),
            helps=(f"a {what} has one `return`, its last statement{several}",),
        )

    def statement(self) -> ast.Statement:
        """statement = [ "stage" ] name [ ":" type ] "=" expr ;"""
        start = self.token
        is_stage = start.kind == "stage" and self.kind_after(1) not in ("=", ":")
        if is_stage:
            self.advance()
        if self.kind in KEYWORDS and self.kind_after(1) not in ("=", ":"):
            from mucc.frontend import syntax_help

            raise self.unexpected("a statement", helps=syntax_help.statement_help(self.kind))
        name = self.name("the name of a value")
        is_typed = self.kind == ":" and self.kind_after(1) != "="
        type_ = self.type() if is_typed and self.advance() else None
        if not self.accept("="):
            raise self._no_assignment(name)
        value = self.expr()
        self._end_of_expression("an operator or the end of the statement", "=", ":")
        return ast.Statement(Span(start.start, value.span.end), name, type_, value, is_stage)

    def _no_assignment(self, name: ast.Ident) -> Bail:
        from mucc.frontend import syntax_help

        if advice := syntax_help.name_help(name.text, self.kind):
            help_ = advice
        elif guess := near_spelling(name.text, ("return", "stage")) if self.kind != ":" else None:
            help_ = f"did you mean '{guess}'?"
        elif self.kind in tuple("+-*/@") and self.kind_after(1) == "=":
            help_ = f"values are named once: write `new = {name.text} {self.kind} ...`"
        else:
            help_ = "a statement reads `name = expression`, and the last one `return expression`"
        return self.unexpected(f"'=' after '{name.text}'", helps=(help_,))

    # Schedules

    def schedule(self) -> ast.Schedule:
        """schedule = "schedule" name [ "." name ] "for" name "{" { setting } "}" ;"""
        start = self.advance().start
        if self.kind == "for":
            raise self.unexpected("the name of a kernel")
        kernel = self.name("the name of a kernel")
        stage = self.name("the name of a stage") if self.accept(".") else None
        if not self.accept("for"):
            raise self.unexpected("'for' and the target", helps=("for example `schedule f for sm_90a {`",))
        target = self.name("the name of a target")
        if self.kind == ",":
            raise self.unexpected("'{'", helps=("a schedule is for one target: write one for each",))
        opener = self.expect("{")
        settings: dict[str, ast.Setting] = {}
        while self.kind not in ("}", "eof", *ITEM_WORDS):
            before = self.position
            try:
                setting = self.setting(settings)
                settings.setdefault(setting.name.text, setting)
            except Bail:
                if self.position == before:
                    self.advance()
                self.to_statement()
        self.close(opener)
        return ast.Schedule(
            self.span_from(start), kernel, stage, target, tuple(settings.values()), opener.span
        )

    def setting(self, earlier: dict[str, ast.Setting]) -> ast.Setting:
        """setting = name "=" value ;"""
        token = self.token
        if token.kind == ",":
            if self.kind_after(1) == "int":
                raise self.unexpected("a setting", helps=("a shape has no commas: `tile = 128x256x64`",))
            fixes = (safe_fix(token.span, "", "remove it"),)
            raise self.unexpected("a setting", helps=("settings need no commas between them",), fixes=fixes)
        if token.text in earlier:
            self.error(
                "MU0007",
                f"the setting '{token.text}' is given twice",
                labels=((earlier[token.text].span, "first given here"),),
            )
        name = self.name("a setting")
        if self.kind != "=":
            helps = ("a setting reads `tile = 128x256x64`",)
            raise self.unexpected(f"'=' after '{name.text}'", helps=helps)
        self.advance()
        value = self.value()
        return ast.Setting(name.span.to(value.span), name, value)

    def value(self) -> ast.Value:
        """value = shape | integer | name [ "(" [ value_arg { "," value_arg } [ "," ] ] ")" ] ;"""
        token = self.token
        if token.kind == "shape":
            self.advance()
            return ast.Shape(token.span, tuple(int(n) for n in token.text.split("x")))
        if token.kind == "int":
            return self._loose_shape() or self.integer("a number")
        if self.kind == "(":
            raise self.unexpected("a value", helps=("a shape has no brackets and no commas: `128x256x64`",))
        name = self.name("a value")
        args = None
        if self.kind == "(":
            args = self._leave(self.items(self._enter(), self.value_arg))
        return ast.Word(self.span_from(name.span.start), name.text, args)

    def value_arg(self) -> ast.ValueArg:
        """value_arg = [ name "=" ] value ;"""
        start, name = self.token.start, None
        if self.kind == "name" and self.kind_after(1) == "=":
            name = self.name("")
            self.advance()
        value = self.value()
        return ast.ValueArg(self.span_from(start), name, value)

    def _loose_shape(self) -> ast.Shape | None:
        """Report a shape written with spaces, such as `128 x 256`, and parse it as a shape."""
        match = _LOOSE_SHAPE.match(self.source.text, self.token.start)
        if match is None or (shape := "".join(match.group().split())) == match.group():
            return None
        span = Span(*match.span())
        self.error(
            "MU0012",
            "a shape is written without spaces",
            span,
            helps=(f"write {shape}",),
            fixes=(safe_fix(span, shape, f"write {shape}"),),
        )
        while self.token.start < span.end and self.kind != "eof":
            self.advance()
        return ast.Shape(span, (1,) * len(shape.split("x")))  # after an error the sizes do not matter
