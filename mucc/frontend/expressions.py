"""Parse expressions by precedence climbing.

Recursion has two bounds: brackets, signs and `not` nest at most `MAX_NESTING` deep, and a tree is at most
`MAX_HEIGHT` high, so that no tree walk exhausts Python's stack. Left operands of binary operators do not
count: `a + b + c` may have any number of terms, and tree walks iterate over them (`ast.Binary.spine`).
"""

from __future__ import annotations

from collections.abc import Callable

from mucc.diagnostics.core import Span
from mucc.frontend import ast
from mucc.frontend.lexer import Token
from mucc.frontend.stream import Bail, Stream

MAX_NESTING = 64
MAX_HEIGHT = 128

# Levels of precedence, lowest first.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, UNARY, POSTFIX = range(8)
PRECEDENCE: dict[str, int] = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARISON),
    **dict.fromkeys("+-", SUM),
    **dict.fromkeys("*/%@", PRODUCT),
}
DIM_PRECEDENCE: dict[str, int] = {**dict.fromkeys("+-", SUM), **dict.fromkeys("*%/", PRODUCT)}


_IN_LISTS = ("(", ")", ",", "int", "name", *"+-*/%")
"""The tokens of a list argument; an expression in brackets has no comma outside of further brackets."""


class ExpressionParser(Stream):
    """Parser of expressions over values, and over dims."""

    _nesting = 0
    _height = 0
    """The height of the tree parsed last."""

    def expr(self) -> ast.Expr:
        """
        expr       = or ;
        or         = and { "or" and } ;
        and        = not { "and" not } ;
        comparison = sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ] ;
        sum        = product { ( "+" | "-" ) product } ;
        product    = unary { ( "*" | "/" | "%" | "@" ) unary } ;
        """
        return self._binary(OR)

    def _binary(self, level: int) -> ast.Expr:
        left = self._not() if self.kind == "not" and level <= NOT else self._unary()
        while (binds := PRECEDENCE.get(self.kind, -1)) >= level:
            height, op = self._height, self.advance()
            right = self._binary(binds + 1)
            self._rise(0, op.span)
            self._height = max(height, self._height)
            left = ast.Binary(left.span.to(right.span), op.kind, left, right, op.span)
            if binds == COMPARISON and PRECEDENCE.get(self.kind) == COMPARISON:
                raise self.chained()
        return left

    def chained(self) -> Bail:
        """Report a second comparison operator in a row."""
        return self.error(
            "MU0009",
            "comparisons cannot be chained",
            label="second comparison",
            helps=("join two comparisons: `a < b and b < c`; in a `where` clause use a comma",),
        )

    def _not(self) -> ast.Expr:
        """not = "not" not | comparison ;"""
        op = self._enter()
        operand = self._binary(NOT)
        return self._leave(ast.Unary(op.span.to(operand.span), op.kind, operand))

    def _unary(self) -> ast.Expr:
        """unary = "-" unary | postfix ;"""
        if self.kind != "-":
            return self._postfix()
        op = self._enter()
        operand = self._unary()
        return self._leave(ast.Unary(op.span.to(operand.span), op.kind, operand))

    def _postfix(self) -> ast.Expr:
        """
        postfix = primary { "." "T" | "[" index { "," index } [ "," ] "]" } ;
        """
        left = self._primary()
        while self.kind in (".", "["):
            height, token = self._height, self.advance()
            if token.kind == "[":
                indices = self.items(token, self._index, empty=False)
                left = ast.Index(self.span_from(left.span.start), left, indices)
            else:
                self._expect_t()
                left = ast.Transpose(self.span_from(left.span.start), left)
            self._rise(height, token.span)
        return left

    def _expect_t(self) -> None:
        if self.token.text != "T":
            raise self._no_attribute()
        self.advance()
        if self.kind == "(":
            raise self.unexpected("an operator", helps=("the transpose is written without brackets: `x.T`",))

    def _no_attribute(self) -> Bail:
        """Report an attribute other than `T`: a method, or a function of a library."""
        from mucc.frontend import foreign, syntax_help

        while self.token.text in foreign.LIBRARIES and self.kind_after(1) == ".":
            self.advance()
            self.advance()
        owner, is_call = self.tokens[self.position - 2], self.kind_after(1) == "("
        helps, fixes = syntax_help.attribute_help(self.token, owner, is_call=is_call)
        return self.unexpected("'T'", helps=helps, fixes=fixes)

    def _index(self) -> ast.IndexItem:
        """index = "None" | "..." | dimexpr | [ dimexpr ] ":" [ dimexpr ] [ ":" [ dimexpr ] ] ;"""
        token = self.token
        if self.accept("None"):
            return ast.NewAxis(token.span)
        if self.accept("..."):
            return ast.Ellipsis(token.span)
        bounds: list[ast.DimExpr | None] = [None if self.kind == ":" else self._bound()]
        while self.kind == ":" and len(bounds) < 3:
            self.advance()
            bounds.append(None if self.kind in (":", ",", "]") else self._bound())
        if len(bounds) == 1 and bounds[0] is not None:
            return bounds[0]
        return ast.Slice(self.span_from(token.start), *bounds)

    def _bound(self) -> ast.DimExpr:
        """Parse an integer of an index."""
        if self.kind not in ("int", "name", "(", "-") or self.token.text == "newaxis":
            raise self._no_index()
        height = self._height
        bound = self.dimexpr()
        self._height = max(height, self._height)
        if self.kind in (*PRECEDENCE, "(", "[", "."):
            raise self._no_index()
        return bound

    def _no_index(self) -> Bail:
        words = [t.text for t in self.tokens[self.position - 1 : self.position + 2]]
        if "newaxis" in words:
            message, helps = "a new axis is written 'None'", ("for example `x[:, None]`",)
            return self.error("MU0013", message, helps=helps)
        return self.error(
            "MU0013",
            "an index is an integer, a slice such as `2:8`, 'None' or '...'",
            helps=(
                "integers are arithmetic on numbers and dims: `x[:, K/2:]`",
                "`gather(x, rows)` picks rows by number, `take_along(x, index, axis=1)` elements of an axis",
            ),
        )

    def _primary(self) -> ast.Expr:
        """primary = number | name | call | "(" expr ")" ;"""
        token = self.token
        self._height = 1
        if token.kind in ("int", "float"):
            self.advance()
            return ast.Number(token.span, token.text.lower())
        if token.kind in ("name", "where") and self.kind_after(1) == "(":
            return self._call()
        if token.kind == "name" or token.kind in self._misnamed:
            self.advance()
            return ast.Name(token.span, token.text)
        if token.kind != "(":
            raise self._no_expression(token)
        opener = self._enter()
        inner = self._binary(OR)
        helps = ("a list of values takes no brackets: `return a, b`",) if self.kind == "," else ()
        self.close(opener, helps=helps)
        return self._leave(inner.at(self.span_from(opener.start)), 0)

    def _no_expression(self, token: Token) -> Bail:
        from mucc.frontend import syntax_help

        helps = syntax_help.expression_help(token, self.tokens[self.position - 1])
        return self.unexpected("an expression", helps=helps)

    def _call(self) -> ast.Expr:
        """call = ( name | "where" ) "(" [ argument { "," argument } [ "," ] ] ")" ;"""
        function = self.advance()
        opener = self._enter()
        height = 0
        keyword: ast.Ident | None = None

        def argument() -> ast.Argument:
            nonlocal height, keyword
            result = self._argument(keyword)
            keyword = keyword or result.name
            height = max(height, self._height)
            return result

        args = self.items(opener, argument)
        self._height = height
        name = ast.Ident(function.span, function.text)
        return self._leave(ast.Call(self.span_from(function.start), name, args))

    def _argument(self, keyword: ast.Ident | None) -> ast.Argument:
        """argument = [ name "=" ] ( expr | list ) ;"""
        start, name = self.token, None
        if start.kind == "name" and self.kind_after(1) == "=":
            name = ast.Ident(self.advance().span, start.text)
            self.advance()
        elif keyword is not None:
            self.error(
                "MU0014",
                "positional argument after a keyword argument",
                labels=((keyword.span, "keyword argument"),),
                helps=("put positional arguments first",),
            )
        value = self._list() if self._starts_list() else self._binary(OR)
        return ast.Argument(self.span_from(start.start), name, value)

    def _starts_list(self) -> bool:
        """Whether brackets hold a list: whether there is a comma in them."""
        depth, n = 0, 0
        while (kind := self.kind_after(n)) in _IN_LISTS:
            depth += (kind == "(") - (kind == ")")
            if not depth:
                return False
            if kind == "," and depth == 1:
                return True
            n += 1
        return False

    def _list(self) -> ast.List:
        """
        list = "(" item "," [ item { "," item } [ "," ] ] ")" ;
        item = "-" integer | dimexpr ;
        """
        opener = self.advance()
        self._height = 1
        values = self.items(opener, self._item)
        return ast.List(self.span_from(opener.start), values)

    def _item(self) -> int | ast.Ident | ast.DimBinary | ast.DimNegation:
        if self.accept("-"):
            return -self.integer("an integer").value
        extent = self.dimexpr()
        return extent.value if isinstance(extent, ast.IntLit) else extent

    def integer(self, what: str) -> ast.IntLit:
        token = self.expect("int", what)
        return ast.IntLit(token.span, int(token.text))

    # Dims

    def dimexpr(self, what: str = "a dim or a number") -> ast.DimExpr:
        """
        dimexpr = dimterm { ( "+" | "-" ) dimterm } ;
        dimterm = dimatom { ( "*" | "%" | "/" ) dimatom } ;
        """
        return self._dimchain(SUM, lambda: self._dimchain(PRODUCT, lambda: self._dimatom(what)))

    def _dimchain(self, level: int, operand: Callable[[], ast.DimExpr]) -> ast.DimExpr:
        left = operand()
        while DIM_PRECEDENCE.get(self.kind) == level:
            height, op = self._height, self.advance()
            right = operand()
            self._rise(height, op.span)
            left = ast.DimBinary(left.span.to(right.span), op.kind, left, right)
        return left

    def _dimatom(self, what: str) -> ast.DimExpr:
        """dimatom = name | integer | "(" dimexpr ")" | "-" dimatom ;"""
        self._height = 1
        if self.kind == "-":
            sign = self._enter()
            operand = self._dimatom(what)
            return self._leave(ast.DimNegation(sign.span.to(operand.span), operand))
        if self.kind == "int":
            return self.integer("a number")
        if self.kind != "(":
            return self.name(what)
        opener = self._enter()
        inner = self.dimexpr()
        self.close(opener)
        return self._leave(inner.at(self.span_from(opener.start)), 0)

    # Bounds

    def _enter(self) -> Token:
        """Consume a token that begins a nested expression, and check the depth."""
        if self._nesting >= MAX_NESTING:
            raise self._too_deep(self.token.span)
        self._nesting += 1
        return self.advance()

    def _leave(self, node: _N, rise: int = 1) -> _N:
        """End a nested expression; `rise` is the height that `node` adds to its children."""
        self._nesting -= 1
        self._height += rise
        return node

    def _rise(self, height: int, span: Span) -> None:
        """Update the height for a node with two children: one of `height`, and the one parsed last."""
        self._height = max(height, self._height) + 1
        if self._height > MAX_HEIGHT:
            raise self._too_deep(span)

    def _too_deep(self, span: Span) -> Bail:
        return self.error(
            "MU0010",
            "the expression nests too deeply",
            span,
            notes=(f"brackets nest at most {MAX_NESTING} deep, expressions in each other {MAX_HEIGHT}",),
            helps=("give parts of it names: `part = ...`",),
        )

    def reset_nesting(self) -> None:
        """Reset the nesting depth, for recovery from an error inside brackets."""
        self._nesting = 0


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _N = TypeVar("_N")
