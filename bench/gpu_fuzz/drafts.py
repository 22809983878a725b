"""Programs while they are drawn: expressions that know their text and their reference, parameters, dims."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.choices import Choices
from bench.gpu_fuzz.reference import Bounded
from mucc.library.extents import value

Dim = str | int
Dims = tuple[Dim, ...]

EXTENTS = (16, 1, 2, 3, 5, 7, 8, 15, 17, 24, 32, 33, 64, 100, 127, 128, 129, 200, 256, 264, 500)
"""Sizes of dims: powers of two, their neighbours, odd and small ones."""

FEW = (2, 1, 3, 5, 7)
"""Sizes of what counts batches, groups or heads."""

Dense = "row", "turned", "columns", "pitch", "turned pitch", "rows of columns", "fixed pitch"


@dataclass
class Env:
    """What references are computed from: sizes of dims, values of parameters, and values found before.

    `wide` says that all results have 32 bits: then nothing is rounded between device kernels, but for what a
    result is computed from by way of another rounding.
    """

    dims: Mapping[str, int]
    inputs: Mapping[str, Bounded]
    wide: bool = False
    known: dict[int, Bounded] = field(default_factory=dict[int, Bounded])

    def extent(self, dim: Dim) -> int:
        return value(dim, self.dims)

    def passed(self, value: Bounded, dtype: str) -> Bounded:
        """A value that may pass from one device kernel to another."""
        return value if self.wide else ref.maybe_rounded(value, dtype)


@dataclass(frozen=True, eq=False)
class Expr:
    """An expression: text, dtype by the rules of the language, shape, and reference.

    `weak` values (numbers, scalars, `f32[]`) do not widen what they meet. `integer` values are exact.
    """

    text: str
    dtype: str
    dims: Dims
    compute: Callable[[Env], Bounded]
    weak: bool = False

    def value(self, env: Env) -> Bounded:
        """The reference, computed once for each environment."""
        if id(self) not in env.known:
            env.known[id(self)] = self.compute(env)
        return env.known[id(self)]


def before_rounding(y: Expr) -> Expr:
    """The same value, which is rounded next: what it is computed from may pass between kernels in 16 bits."""

    def compute(env: Env) -> Bounded:
        return y.value(replace(env, wide=False, known={}))

    return replace(y, compute=compute)


@dataclass(frozen=True)
class Param:
    """A parameter: its declaration, and how its values are drawn.

    `kind`: normal, positive, index (drawn as the manifest says), integer, sparse. Normal and positive values
    are multiplied by `scale`, which knows the sizes.
    """

    name: str
    declared: str
    dtype: str
    kind: str = "normal"
    scale: Callable[[Env], float] = lambda env: 1.0


@dataclass(frozen=True)
class Output:
    """A result: its name, its dtype, and what it should be."""

    name: str
    dtype: str
    expr: Expr


@dataclass(frozen=True)
class Program:
    """A random program, and the choices that generate it."""

    text: str
    target: str
    form: str
    dims: dict[str, int | None]
    few: frozenset[str]
    """Open dims that stay small."""
    hints: dict[str, int]
    params: tuple[Param, ...]
    outputs: tuple[Output, ...]
    choices: tuple[int, ...]
    each: bool = False

    def expected(self, dims: Mapping[str, int], inputs: Mapping[str, Bounded]) -> list[Bounded]:
        """The reference of each output, before it is stored at its dtype."""
        env = Env(dims, inputs, all(o.dtype in ("f32", "s32") for o in self.outputs))
        return [output.expr.value(env) for output in self.outputs]


def promoted(*exprs: Expr) -> str:
    """The dtype of arithmetic on values: bf16 or f16 where all that count have it, else f32."""
    strong = {e.dtype for e in exprs if not e.weak}
    if len(strong) == 1 and (only := next(iter(strong))) in ("bf16", "f16", "s32"):
        return only
    return "f32"


class Draft:
    """A kernel while it is drawn."""

    def __init__(self, choices: Choices, target: str):
        self.c = choices
        self.target = target
        self.dims: dict[str, int | None] = {}
        self.few: set[str] = set()
        self.params: list[Param] = []
        self.statements: list[str] = []
        self.functions: list[str] = []
        self.outputs: list[Output] = []
        self.promises: list[str] = []
        self.each = False
        self._names = 0

    # Names and dims

    def name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def dim(self, name: str, sizes: Sequence[int] = EXTENTS, *, may_be_number: bool = True) -> Dim:
        """A dim that calls bind, one that the program binds, or a number."""
        way = self.c.pick(("open", "open", "bound", "bound", "number"))
        if way == "number" and may_be_number:
            return self.c.pick(sizes)
        self.dims[name] = None if way == "open" else self.c.pick(sizes)
        if sizes is FEW and way == "open":
            self.few.add(name)
        return name

    # Parameters

    def add(self, param: Param) -> str:
        self.params.append(param)
        return param.name

    def tensor(
        self,
        dims: Dims,
        dtype: str,
        *,
        stem: str = "a",
        layout: str | None = None,
        kind: str = "normal",
        scale: Callable[[Env], float] = lambda env: 1.0,
    ) -> Expr:
        """A parameter that is read as a tensor of these dims, whatever its layout."""
        name = self.name(stem)
        turned = False
        if layout is None:
            layout = self.c.pick(Dense) if len(dims) >= 2 else self.c.pick(("row", "row", "pitch"))
        declared, suffix = list(dims), ""
        if "turned" in layout and len(dims) >= 2:
            declared[-2:] = reversed(declared[-2:])
            turned = True
        if layout == "columns" and len(dims) >= 2:
            suffix = " col_major"
        elif layout in ("pitch", "turned pitch") and dims:
            suffix = f" strides({', '.join(['_'] * (len(dims) - 1) + ['1'])})"
        elif layout == "rows of columns" and len(dims) >= 2:
            suffix = f" strides({', '.join(['_'] * (len(dims) - 2) + ['1', '_'])})"
        elif layout == "fixed pitch" and len(dims) >= 2:
            last = self.dims.get(dims[-1]) if isinstance(dims[-1], str) else dims[-1]
            if last is not None:
                pitch = last + self.c.pick((0, 1, 8, 24))
                suffix = f" strides({', '.join(['_'] * (len(dims) - 2) + [str(pitch), '1'])})"
        text = f"{name}: {dtype}[{', '.join(map(str, declared))}]{suffix}"
        self.add(Param(name, text, dtype, kind, scale))

        def compute(env: Env) -> Bounded:
            found = env.inputs[name]
            return Bounded(found.value.mT, found.error.mT) if turned else found

        # In arithmetic 8-bit numbers act as f32 (floats) or as integers.
        return Expr(f"{name}.T" if turned else name, dtype, tuple(dims), compute)

    def scalar(self) -> Expr:
        """A number that is passed by value, or a tensor of one number."""
        name = self.name("n")
        text = self.c.pick((f"{name}: f32", f"{name}: f32[]"))
        self.add(Param(name, text, "f32", "positive"))
        return Expr(name, "f32", (), lambda env: env.inputs[name], weak=True)

    def literal(self, value: float) -> Expr:
        return Expr(repr(value), "f32", (), lambda env: ref.exact(value), weak=True)

    # Statements

    def named(self, expr: Expr, *, stage: bool = False, stem: str = "v") -> Expr:
        """A statement for an expression; a pinned stage stores it at its dtype."""
        name = self.name(stem)
        self.statements.append(f"{'stage ' if stage else ''}{name} = {expr.text}")

        def compute(env: Env) -> Bounded:
            value = expr.value(env)
            return ref.rounded(value, expr.dtype) if stage else env.passed(value, expr.dtype)

        return Expr(name, expr.dtype, expr.dims, compute)

    def helper(self, body: str) -> str:
        """Define a function of the program, whose parameter is `x`, and return its name."""
        name = self.name("h")
        self.functions.append(f"fn {name}(x) {{\n    return {body}\n}}\n")
        return name

    def result(self, expr: Expr, dtype: str) -> None:
        """Return an expression, stored at a dtype."""
        self.outputs.append(Output(f"y{len(self.outputs)}", dtype, expr))

    # The whole

    def program(self, form: str, schedule: str, hints: Mapping[str, int]) -> Program:
        used = " ".join(p.declared for p in self.params)
        dims = {n: v for n, v in self.dims.items() if n in _words(used)}
        names = ", ".join(n if v is None else f"{n}={v}" for n, v in dims.items())
        types = [f"{o.dtype}[{', '.join(map(str, o.expr.dims))}]" for o in self.outputs]
        if len(types) == 1:
            results = types[0]
        else:
            results = f"({', '.join(f'{o.name}: {t}' for o, t in zip(self.outputs, types, strict=True))})"
        where = f"\n    where {', '.join(self.promises)}\n" if self.promises else " "
        body = "".join(f"    {line}\n" for line in self.statements)
        text = (
            f"kernel {'each ' * self.each}f{f'[{names}]' if names else ''}"
            f"({', '.join(p.declared for p in self.params)}) -> {results}{where}{{\n"
            f"{body}    return {', '.join(o.expr.text for o in self.outputs)}\n}}\n"
        )
        return Program(
            "\n".join([text, *self.functions, *([schedule] if schedule else [])]),
            self.target,
            form,
            dims,
            frozenset(self.few),
            {n: v for n, v in hints.items() if dims.get(n, 0) is None},
            tuple(self.params),
            tuple(self.outputs),
            tuple(self.c.made),
            self.each,
        )


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def root(extent: Dim) -> Callable[[Env], float]:
    """The scale of weights along an extent that is summed over: sums are then about as large as 1."""
    return lambda env: max(env.extent(extent), 1) ** -0.5


def shape_of(env: Env, dims: Sequence[Dim]) -> tuple[int, ...]:
    return tuple(env.extent(d) for d in dims)
