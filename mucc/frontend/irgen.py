"""Generate a module of `mu` kernels and schedules from an AST, with all checks of names and types."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, ModuleOp, i1
from xdsl.ir import Attribute, Block, Region, SSAValue

from mucc.diagnostics.core import Diagnostic, DiagnosticSink, Span
from mucc.dialects.mu.ops.elementwise import CastOp, MaxOp, MinOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.rules import shape_text
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.types import (
    DTYPES,
    Dim,
    ElementType,
    LayoutAttr,
    Shaped,
    TensorType,
    dtype_name,
    is_packed,
    sparse_problem,
)
from mucc.frontend import ast, foreign
from mucc.frontend.context import Context, type_text
from mucc.frontend.definitions import Definitions, defined_twice
from mucc.frontend.exprgen import ExprGen, Scope, Value
from mucc.frontend.extents import idents, lower_extent, names_in
from mucc.frontend.inlining import MOST, Inliner
from mucc.frontend.promises import lower_promises
from mucc.frontend.schedules import lower_schedules
from mucc.library.dims import LARGEST
from mucc.library.extents import sources

RESERVED_KERNELS = ("last_error", "manifest", "on_launch")
"""Names of kernels whose symbols would clash with other symbols of a library."""


@dataclass(frozen=True)
class Checked:
    """What lowering a kernel without errors found: warnings, functions called, operations inlined."""

    warnings: tuple[Diagnostic, ...]
    calls: frozenset[str]
    inlined: int


@dataclass(frozen=True)
class Lowered:
    """A program as operations, and what was found in each kernel; None for kernels with errors."""

    kernels: Sequence[KernelOp]
    schedules: Sequence[ScheduleOp]
    checked: Sequence[Checked | None]
    inlined: int


def lower_program(program: ast.Program, sink: DiagnosticSink) -> ModuleOp:
    """Generate the module of a program, without kernels that have errors."""
    lowered = check_program(program, sink)
    return ModuleOp([*lowered.kernels, *lowered.schedules])


def check_program(
    program: ast.Program, sink: DiagnosticSink, known: Sequence[Checked | None] = ()
) -> Lowered:
    """Lower a program, but not kernels that are in `known`, which has an entry for each kernel or none.

    What is known of a kernel holds as long as its text, its schedules and the functions that it calls, also
    indirectly, are the same. Its spans are those of this program.
    """
    unsorted = DiagnosticSink(sink.source)
    lowered = _lower(program, Context(unsorted), known or [None] * len(program.kernels))
    if any(known) and lowered.inlined >= MOST:  # the error is at the operation that is one too many
        return check_program(program, sink)
    for diagnostic in sorted(unsorted.diagnostics, key=lambda d: d.span.start if d.span else 0):
        sink.emit(diagnostic)
    return lowered


def _lower(program: ast.Program, context: Context, known: Sequence[Checked | None]) -> Lowered:
    ops: list[KernelOp] = []
    checked: list[Checked | None] = []
    seen: dict[str, ast.Kernel] = {}
    if not program.kernels:
        context.error(
            "MU1048",
            "the program has no kernel",
            Span(0, 0),
            helps=("begin with `kernel name[M](x: bf16[M]) -> bf16[M] { return x }`",),
        )
    inliner = Inliner(context, program)
    inliner.check()
    for kernel, before in zip(program.kernels, known, strict=True):
        name = kernel.name.text
        if name in seen:
            defined_twice(context, "kernel", kernel.name, seen[name].name)
        elif name in RESERVED_KERNELS or _workspace_clash(name, seen):
            _symbol_clash(context, kernel)
        seen.setdefault(name, kernel)
        if before is not None:
            inliner.repeat(before.calls, before.inlined)
            for warning in before.warnings:
                context.sink.emit(warning)
            checked.append(before)
            continue
        found, inlined = len(context.sink.diagnostics), inliner.inlined
        inliner.called.clear()
        op = KernelGen(context, kernel, inliner).lower()
        ops += [op] if op else []
        warnings, calls = tuple(context.sink.diagnostics[found:]), frozenset(inliner.called)
        checked.append(Checked(warnings, calls, inliner.inlined - inlined) if op else None)
    inliner.warn_unused()
    return Lowered(ops, lower_schedules(context, program), checked, inliner.inlined)


def _workspace_clash(name: str, others: Container[str]) -> bool:
    """Whether the name of one kernel equals that of another kernel's workspace function."""
    kernel = name.removesuffix("_workspace")
    return f"{name}_workspace" in others or (kernel != name and kernel in others)


def _symbol_clash(context: Context, kernel: ast.Kernel) -> None:
    context.error(
        "MU1050",
        f"the symbol of the kernel '{kernel.name.text}' would clash with another one in the library",
        kernel.name.span,
        notes=(
            "a library exports mucc_NAME, mucc_NAME_workspace, "
            + ", ".join(f"mucc_{n}" for n in RESERVED_KERNELS),
        ),
        helps=("rename the kernel",),
    )


class KernelGen:
    """Generator of one kernel: dims, signature, body and returns."""

    def __init__(self, context: Context, kernel: ast.Kernel, inliner: Inliner):
        self.context = context
        self.inliner = inliner
        self.kernel = kernel
        self.scope = Scope({})
        self.definitions = Definitions(context)
        self.undeclared: set[str] = set()
        """Names of dims that were reported as undeclared: each is reported once."""

    def lower(self) -> KernelOp | None:
        """Generate the kernel; None if it has errors."""
        errors = self.context.errors
        kernel = self.kernel
        self._dims()
        params = [(p, self._param_type(p)) for p in kernel.params]
        results = self._results()
        self._check_dims_bound([type for _, type in params])
        promises = lower_promises(self.context, kernel, self.scope.dims)

        known = [(p.name.text, t) for p, t in params if t is not None]
        block = Block(arg_types=[t for _, t in known])
        for (name, _), arg in zip(known, block.args, strict=True):
            arg.name_hint = name
            self.scope.values[name] = arg
        for param, type_ in params:
            if type_ is None:
                self.scope.values[param.name.text] = None

        gen = ExprGen(self.context, self.scope, block, self.inliner)
        for statement in kernel.body:
            self._statement(gen, statement)
        returned = self._returns(gen, results)
        if self.context.errors != errors:
            return None
        params, values = {p.name.text for p in kernel.params}, {s.name.text for s in kernel.body}
        self.definitions.warn_unused(self.scope.used, params, values)
        end = ReturnOp(returned)
        end.location = self.context.location(kernel.return_span)
        block.add_op(end)
        bound = {name: value for name, value in self.scope.dims.items() if value is not None}
        op = KernelOp(
            kernel.name.text,
            known,
            [(name, type_) for name, type_, _ in results if type_ is not None],
            list(self.scope.dims),
            bound,
            promises,
            Region(block),
            each=kernel.each,
        )
        op.location = self.context.location(kernel.span)
        return op

    # Signature

    def _dims(self) -> None:
        for dim in self.kernel.dims:
            self.definitions.add("dim", dim.name)
            if dim.value:
                self._check_extent(dim.value.value, dim.value.span)
            value = min(max(dim.value.value, 1), LARGEST) if dim.value else None
            self.scope.dims.setdefault(dim.name.text, value)

    def _check_extent(self, extent: Dim, span: Span) -> bool:
        """Whether an extent of a tensor in memory is not out of range; report one that is."""
        if not isinstance(extent, int) or 1 <= extent <= LARGEST:
            return True
        bound = "at least 1" if extent < 1 else f"at most {LARGEST}"
        self.context.error("MU1049", f"an extent must be {bound}", span)
        return False

    def _param_type(self, param: ast.Param) -> Attribute | None:
        self.definitions.add("parameter", param.name)
        type_ = self._type(param.type, is_parameter=True)
        if type_ is None or isinstance(type_, TensorType | Float32Type):
            return type_
        dtype = param.type.dtype.text
        self.context.error(
            "MU1015",
            "a scalar that is passed by value has the type f32",
            param.type.span,
            helps=(f"write `f32`, or `{dtype}[]` for a tensor that holds one {dtype}",),
        )
        return None

    def _results(self) -> list[tuple[str, TensorType | None, Span]]:
        """Return name, type and span of each result; the type is None after an error."""
        results = self.kernel.results
        if isinstance(results, ast.Type):
            return [(self.kernel.result_names[0], self._result_type(results), results.span)]
        first: dict[str, ast.Ident] = {p.name.text: p.name for p in self.kernel.params}
        checked: list[tuple[str, TensorType | None, Span]] = []
        for result in results:
            if first.setdefault(result.name.text, result.name) is not result.name:
                defined_twice(self.context, "result", result.name, first[result.name.text])
            checked.append((result.name.text, self._result_type(result.type), result.span))
        return checked

    def _result_type(self, type_: ast.Type) -> TensorType | None:
        result = self._type(type_)
        if result is None:
            return None
        if not isinstance(result, TensorType):
            dtype = type_.dtype.text
            self.context.error(
                "MU1015",
                "a result is a tensor",
                type_.span,
                helps=(f"write `{dtype}[]` for a tensor that holds one number",),
            )
            return None
        if not result.layout.is_row_major:
            self.context.error(
                "MU1016",
                "a result is stored row-major",
                type_.layout.span if type_.layout else type_.span,
                helps=("leave the layout out; return the transpose (`.T`) for the other order",),
            )
            return None
        return result

    def _type(self, type_: ast.Type, *, is_parameter: bool = False) -> Attribute | None:
        """Convert a type of the AST to a type of the dialect; None after an error."""
        element = DTYPES[type_.dtype.text]
        if type_.shape is None:
            if type_.layout:
                self.context.error("MU1016", "a scalar has no layout", type_.layout.span)
                return None
            return element
        extents = [self._extent(e) for e in type_.shape]
        layout = self._layout(type_.layout, len(extents))
        dims = [d for d in extents if d is not None]
        if len(dims) != len(extents) or (type_.layout and layout is None):
            return None
        if layout and layout.is_sparse and (problem := sparse_problem(tuple(dims), element)):
            self.context.error("MU1082", problem, type_.span)
            return None
        tensor = TensorType.of(dims, element, layout)
        return None if is_packed(element) and self._is_unpackable(tensor, type_, is_parameter) else tensor

    def _is_unpackable(self, tensor: TensorType, type_: ast.Type, is_parameter: bool) -> bool:
        """Report a type whose elements cannot be packed two to a byte; returns whether there was an error."""
        helps: tuple[str, ...] = ()
        if not is_parameter:
            problem = f"only parameters are {tensor.dtype}"
            helps = ("store it as s8",)
        elif not tensor.rank or not tensor.layout.is_row_major:
            problem = f"two {tensor.dtype} share a byte along the last axis, which is contiguous"
        elif isinstance(last := tensor.dims[-1], int) and last % 2:
            problem = f"a last extent of {last} is odd, but two {tensor.dtype} share a byte along it"
            helps = (f"pad it to {last + 1}",)
        else:
            return False
        self.context.error("MU1066", problem, type_.span, helps=helps)
        return True

    def _extent(self, extent: ast.DimExpr) -> Dim | None:
        """Convert an extent; None after an error."""
        unknown = [ident for ident in idents(extent) if ident.text not in self.scope.dims]
        self.scope.used |= names_in(extent) & self.scope.dims.keys()
        for ident in unknown:
            if ident.text in self.undeclared:
                continue
            self.undeclared.add(ident.text)
            dims = ", ".join([*self.scope.dims, ident.text])
            self.context.unknown(
                "MU1005",
                f"undeclared dim '{ident.text}'",
                ident.span,
                ident.text,
                self.scope.dims,
                helps=(f"declare it: `kernel {self.kernel.name.text}[{dims}](...)`",),
            )
        lowered = None if unknown else lower_extent(self.context, extent, self.scope.dims)
        is_legal = lowered is not None and self._check_extent(lowered, extent.span)
        return lowered if is_legal else None

    def _layout(self, layout: ast.Layout | None, rank: int) -> LayoutAttr | None:
        if layout is None:
            return None
        problem = ""
        if layout.kind == "col_major" and rank < 2:
            problem = f"col_major needs at least two axes, got {rank}"
        elif layout.kind == "strides" and len(layout.strides) != rank:
            problem = f"{len(layout.strides)} strides for {rank} axes"
        elif 0 in layout.strides:
            problem = "a stride must be at least 1"
        if problem:
            self.context.error("MU1016", problem, layout.span)
            return None
        if layout.kind == "strides":
            return LayoutAttr.strided(layout.strides)
        if layout.kind == "sparse":
            return LayoutAttr.sparse()
        return LayoutAttr.col_major() if layout.kind == "col_major" else LayoutAttr.row_major()

    def _check_dims_bound(self, types: Sequence[Attribute | None]) -> None:
        """Report run-time dims that follow from no parameter's extents."""
        shapes = [() if type is None else Shaped.of(type).dims for type in types]
        wanted = [name for name, value in self.scope.dims.items() if value is None]
        known = sources(shapes, wanted)
        mentioned = {
            name
            for param in self.kernel.params
            for extent in param.type.shape or ()
            for name in names_in(extent)
        }
        for dim in self.kernel.dims:
            name = dim.name.text
            if name in known or name not in wanted or self.definitions.names[name] is not dim.name:
                continue
            if None in types and name in mentioned:
                continue  # the type that has it is reported
            if name in mentioned:
                problem = f"the value of the dim '{name}' does not follow from the extents that have it"
                helps = (f"bind it (`{name}=4096`), or give a parameter the extent `{name}`",)
            else:
                problem = f"no parameter has the dim '{name}', so its value is not known"
                helps = (f"bind it (`{name}=4096`), use it in a parameter's type, or remove it",)
            self.context.error("MU1006", problem, dim.name.span, helps=helps)

    # Body

    def _statement(self, gen: ExprGen, statement: ast.Statement) -> None:
        value = gen.lower(statement.value)
        if statement.type is not None:
            value = self._annotated(gen, statement, statement.type, value)
        if statement.is_stage and value is not None:
            value = self._pin(gen, statement, value)
        self.definitions.add("value", statement.name)
        name = statement.name.text
        if value is not None and not value.name_hint:
            value.name_hint = name
        self.scope.values[name] = value

    def _annotated(self, gen: ExprGen, statement: ast.Statement, type_: ast.Type, value: Value) -> Value:
        wanted = self._type(type_)
        if type_.layout is not None and wanted is not None:
            self.context.error(
                "MU1016",
                "the layout of a value within a kernel is the compiler's choice",
                type_.layout.span,
                helps=("leave the layout out",),
            )
            return None
        if wanted is None or value is None:
            return None
        span = statement.value.span
        if not self._same_shape(wanted, value, span, type_.span, "value"):
            return None
        return self._converted(gen, value, wanted, span)

    def _pin(self, gen: ExprGen, statement: ast.Statement, value: SSAValue) -> Value:
        span, name = statement.value.span, statement.name.text
        type_ = value.type
        if not isinstance(type_, TensorType):
            self.context.error(
                "MU1015", f"a stage stores a tensor, and '{name}' is a scalar", span, helps=("drop `stage`",)
            )
            return None
        if self._is_bool(value, span, "stored"):
            return None
        stored = self._converted(gen, value, TensorType.of(type_.dims, type_.element_type), span)
        return None if stored is None else gen.add(statement.span, lambda: PinOp(name, stored))

    def _returns(self, gen: ExprGen, results: list[tuple[str, TensorType | None, Span]]) -> list[SSAValue]:
        values = [(expr.span, gen.lower(expr)) for expr in self.kernel.returns]
        if len(values) != len(results):
            self.context.error(
                "MU1011",
                f"{_count(len(values), 'value')} returned for {_count(len(results), 'result')}",
                self.kernel.return_span,
                labels=((self.kernel.results_span, f"{_count(len(results), 'result')} declared here"),),
            )
            return []
        returned: list[SSAValue] = []
        for (span, value), (_, wanted, place) in zip(values, results, strict=True):
            if value is None or wanted is None:
                continue
            if self._same_shape(wanted, value, span, place, "returned value") and not self._is_bool(
                value, span, "returned"
            ):
                result = self._converted(gen, value, wanted, span)
                returned += [] if result is None else [result]
        return returned

    def _is_bool(self, value: SSAValue, span: Span, verb: str) -> bool:
        if Shaped.of(value.type).element_type != i1:
            return False
        self.context.error(
            "MU1017",
            f"a bool cannot be {verb}",
            span,
            helps=("make a number of it: `where(condition, 1, 0)` or `cast(condition, f32)`",),
        )
        return True

    def _same_shape(self, wanted: Attribute, value: SSAValue, span: Span, place: Span, what: str) -> bool:
        """Check that a value has the shape of a declared type; reports an error and returns False if not."""
        got, want = _shape(value.type), _shape(wanted)
        if got != want:
            self.context.error(
                "MU1012",
                f"the {what} {got}, but the declared type {want}",
                span,
                labels=((place, f"declared as {type_text(wanted)}"),),
                helps=foreign.call_help("max")
                if isinstance(value.owner, MaxOp | MinOp)
                else _axes_help(value.type, wanted),
            )
        return got == want

    def _converted(self, gen: ExprGen, value: SSAValue, wanted: Attribute, span: Span) -> Value:
        """Cast a value to the dtype of `wanted`, which has the same shape."""
        if value.type == wanted:
            return value
        return gen.add(span, lambda: CastOp(value, _element(wanted)))


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _shape(type_: Attribute) -> str:
    if not isinstance(type_, TensorType):
        return "is a scalar"
    return f"has the shape {shape_text(type_.dims)}"


def _axes_help(got: Attribute, want: Attribute) -> tuple[str, ...]:
    """Advise on a value whose shape is that of a declared type but for the order or axes of extent 1."""
    if not isinstance(got, TensorType) or not isinstance(want, TensorType):
        return ()
    if len(got.dims) > 1 and (*got.dims[:-2], *reversed(got.dims[-2:])) == want.dims:
        return ("the last two axes are exchanged: `.T` exchanges them",)
    if [d for d in got.dims if d != 1] == [d for d in want.dims if d != 1]:
        return ("axes of extent 1 are added by `x[:, None]`, and left out by `x[:, 0]`",)
    return ()


def _element(type_: Attribute) -> ElementType:
    """Return the dtype of a tensor's elements, or of a scalar."""
    return DTYPES[dtype_name(Shaped.of(type_).element_type)]
