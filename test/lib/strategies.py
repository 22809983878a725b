"""Hypothesis strategies for programs. Reused by every property test that needs a `.mcu` text."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from mucc.diagnostics.core import DiagnosticSink, Source
from mucc.dialects.mu.types import PACKED, STORABLE
from mucc.frontend.grammar import rules
from mucc.frontend.lexer import KEYWORDS, lex

UNARY = (
    "relu",
    "gelu",
    "silu",
    "sigmoid",
    "tanh",
    "exp",
    "abs",
    "neg",
    "hardswish",
    "mish",
    "softsign",
    "sin",
    "floor",
)
BINARY = ("+", "-", "*", "/", "%")
SIZES = (8, 16, 24, 64, 128)


# Well-typed programs

DTYPES = tuple(d for d in STORABLE if d not in PACKED)
"""What a kernel both reads and writes."""

OPERANDS = tuple(d for d in DTYPES if d != "s32")
"""The dtypes that a contraction takes."""


# Strategies are made once: one that is made for each draw is validated each time, which takes long.

_COIN = st.booleans()
_SIZE = st.one_of(st.none(), st.sampled_from(SIZES))
_OPERAND, _DTYPE = st.sampled_from(OPERANDS), st.sampled_from(DTYPES)
_LAYOUT = st.sampled_from(("", " row_major", " col_major"))
_EXTRAS = st.lists(st.sampled_from(("alpha", "cell", "col", "full", "row")), unique=True)
_REDUCTION = st.sampled_from((("amax", ""), ("sum", ", axis=1"), ("max", ", axis=-2")))
_PROMISES = st.sampled_from(("", "where K % 8 == 0 ", "where M >= 1, (N + K) / 2 < 4096 "))
_PLACE = st.integers(0, 2519)
"""The place of a leaf; a multiple of all numbers of leaves up to 10, so that each is as likely."""


@st.composite
def programs(draw: st.DrawFn, stages: bool = True, reductions: bool = True) -> str:
    """One kernel that type-checks: a contraction in a random layout and a random epilogue.

    Part of the epilogue may be a function.

    `stages` allows a second contraction, pinned or not; `reductions` allows a second, reduced result.
    """
    sizes = {d: draw(_SIZE) for d in "MNK"}
    dims = ", ".join(d if size is None else f"{d}={size}" for d, size in sizes.items())
    dtype = draw(_OPERAND)
    a_transposed, b_transposed = draw(_COIN), draw(_COIN)
    layout = draw(_LAYOUT)
    params = [
        f"a: {dtype}[{'K, M' if a_transposed else 'M, K'}]{layout}",
        f"b: {dtype}[{'N, K' if b_transposed else 'K, N'}]",
    ]
    extras = {
        "row": f"{draw(_DTYPE)}[N]",
        "col": "f32[M]",
        "full": f"{draw(_DTYPE)}[M, N]",
        "alpha": "f32",
        "cell": "f32[]",
    }
    used = draw(_EXTRAS)
    params += [f"{name}: {extras[name]}" for name in used]
    # The quotient of two integers is refused, so that integers are leaves as floats.
    product = "cast(acc, f32)" if dtype in ("s8", "u8") else "acc"
    integers = {n for n in used if extras[n].startswith("s32")}
    leaves = [
        product,
        *("col[:, None]" if n == "col" else f"cast({n}, f32)" if n in integers else n for n in used),
    ]
    leaves += [n for n, size in sizes.items() if size is not None]

    lines = [f"acc = {'a.T' if a_transposed else 'a'} @ {'b.T' if b_transposed else 'b'}"]
    if draw(_COIN):  # a second product, which may make a pair of the two
        params.append(f"b2: {dtype}[{'N, K' if b_transposed else 'K, N'}]")
        lines.append(lines[0].replace("acc", "other").replace("b", "b2"))
        leaves.append(product.replace("acc", "other"))
    functions = ""
    if draw(_COIN):
        functions = f"fn part(p, q) {{\nr = {_grown(draw, ['p', 'q'])}\nreturn r + p * q\n}}\n"
        first, second = (leaves[draw(_PLACE) % len(leaves)] for _ in range(2))
        leaves.append(f"part({first}, q={second})")
        lines.append(f"used = part({product}, 0.5)")
        leaves.append("used")
    head = f"{_grown(draw, leaves)} + acc"  # so that the shape is [M, N], whatever the leaves are
    result = f"{draw(_DTYPE)}[M, N]"
    if stages and draw(_COIN):
        word = "stage " if draw(_COIN) else ""
        lines.append(f"{word}h = cast({head}, {dtype})")
        params.append(f"v: {dtype}[N, K]")
        head, result = "h @ v", f"{dtype}[M, K]"
    lines.append(f"y = {head}")
    results, returned = result, "y"
    if reductions and draw(_COIN):
        kind, axis = draw(_REDUCTION)
        shape = {"": "[]", ", axis=1": "[M]", ", axis=-2": f"[{result[-2]}]"}[axis]
        results, returned = f"(first: {result}, second: f32{shape})", f"y, {kind}(y{axis})"
    promises = draw(_PROMISES)
    if sizes["K"] is not None or sizes["N"] is not None:
        promises = ""  # with bound dims it might never hold
    body = "\n".join(lines)
    head = f"kernel f[{dims}]({', '.join(params)}) -> {results} {promises}"
    return f"{functions}{head}{{\n{body}\nreturn {returned}\n}}\n"


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from(UNARY), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(pair, st.sampled_from(BINARY)).map(lambda t: f"({t[0][0]} {t[1]} {t[0][1]})"),
        st.tuples(pair, st.sampled_from(("min", "max", "fmod", "atan2"))).map(
            lambda t: f"{t[1]}({t[0][0]}, {t[0][1]})"
        ),
        st.tuples(pair, pair).map(
            lambda t: f"where({t[0][0]} < {t[0][1]} or not {t[1][0]} >= 0, {t[1][0]}, {t[1][1]})"
        ),
        inner.map(lambda e: f"-{e}"),
        inner.map(lambda e: f"clamp({e}, lo=-1, hi=1)"),
        inner.map(lambda e: f"leaky_relu({e}, slope=0.2)"),
        inner.map(lambda e: f"cast({e}, bf16)"),
    )


_EPILOGUES = st.recursive(
    st.one_of(_PLACE.map(lambda n: f"{{{n}}}"), st.sampled_from(("0.5", "2", "1e-3", "3.25"))),
    _grow,
    max_leaves=8,
)
"""Pointwise expressions over numbers and places of leaves in braces."""


def _grown(draw: st.DrawFn, leaves: list[str]) -> str:
    """Draw a pointwise expression over the given leaves and numbers."""
    return re.sub(r"{(\d+)}", lambda place: leaves[int(place[1]) % len(leaves)], draw(_EPILOGUES))


# Sentences of the grammar: right in form, free of meaning


_TERMINAL = re.compile(r'"([^"]*)"|([a-z_]+)|([\[\](){}|])')
_NAMES = ("a", "b", "c", "x", "y", "gelu", "sum", "M", "N", "K", "tile", "persistent", "out")
_TOKENS: dict[str, st.SearchStrategy[str]] = {
    "name": st.one_of(
        st.sampled_from(_NAMES),
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,3}", fullmatch=True).filter(lambda n: n not in KEYWORDS),
    ),
    "integer": st.integers(0, 2**63 - 1).map(str),
    "number": st.one_of(st.integers(0, 9999).map(str), st.sampled_from(("0.5", "1e-6", "12.25E+3"))),
    "shape": st.lists(st.integers(0, 512), min_size=2, max_size=4).map(lambda v: "x".join(map(str, v))),
}


class _Sentence:
    """Draws one sentence, choosing the shortest ways out once its budget is spent."""

    def __init__(self, draw: st.DrawFn, budget: int):
        self.draw = draw
        self.budget = budget
        self.rules = {name: self._tokens(rule) for name, rule in rules().items() if name != "comment"}

    @staticmethod
    def _tokens(rule: str) -> list[str]:
        body = re.sub(r"\(\*.*?\*\)", "", rule.split("=", 1)[1])
        return [f'"{t}' if t else (n or b) for t, n, b in _TERMINAL.findall(body)]

    def rule(self, name: str) -> list[str]:
        if name in _TOKENS:
            return [self.draw(_TOKENS[name])]
        self.budget -= 1
        return self._alternatives(list(self.rules[name]), name)

    def _alternatives(self, tokens: list[str], name: str) -> list[str]:
        """Draw from alternatives in `tokens`, up to a closing bracket or the end."""
        found: list[list[str]] = [[]]
        depth = 0
        for token in tokens:
            depth += token in ("(", "[", "{")
            depth -= token in (")", "]", "}")
            if token == "|" and depth == 0:
                found.append([])
            else:
                found[-1].append(token)
        if self.budget < 0 and len(found) > 1:
            # The rules are written so that one alternative of each is short.
            choice = {"primary": 1, "value": 0, "not": 1, "unary": 1, "argument": 0}.get(name, 0)
            return self._sequence(found[choice])
        return self._sequence(found[self.draw(st.integers(0, len(found) - 1))])

    def _sequence(self, tokens: list[str]) -> list[str]:
        words: list[str] = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            position += 1
            if token in ("(", "[", "{"):
                start, depth = position, 1
                while depth:
                    depth += (tokens[position] in ("(", "[", "{")) - (tokens[position] in (")", "]", "}"))
                    position += 1
                inner = tokens[start : position - 1]
                for _ in range(self._repeats(token)):
                    words += self._alternatives(list(inner), "")
            elif token.startswith('"'):
                words.append(token[1:])
            elif token == "type":
                words += self._type()
            else:
                words += self.rule(token)
        return words

    def _repeats(self, bracket: str) -> int:
        if bracket == "(":
            return 1
        if self.budget < 0:
            return 0
        return self.draw(st.integers(0, 1 if bracket == "[" else 2))

    def _type(self) -> list[str]:
        return [self.draw(st.sampled_from(DTYPES)), *self.rule("type")[1:]]


@st.composite
def sentences(draw: st.DrawFn) -> str:
    """A program drawn from the EBNF grammar itself."""
    budget = draw(st.integers(5, 120))
    return " ".join(_Sentence(draw, budget).rule("program"))


_QUARTER = st.integers(0, 3)
_GAP = st.sampled_from((" ", " ", " ", "\n", "\n\n\n", "\t", "  // note\n", "\n// a line of its own\n"))


@st.composite
def untidy(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A program with its tokens spread over lines at random, and comments between them."""
    source = Source("untidy", draw(texts))
    tokens, _ = lex(source, DiagnosticSink(source))
    pieces: list[str] = []
    for n, token in enumerate(tokens):
        space = draw(_GAP) if draw(_QUARTER) == 0 else " "
        pieces += [space.replace("note", f"note {n}").replace("own", f"own {n}"), token.text]
    return "".join(pieces)
