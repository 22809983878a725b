"""Emit the host code of a program: tables of signature and promises, workspace, launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mucc.codegen.memory import Places, workspace_name
from mucc.codegen.names import Namer, comment_text, string_literal
from mucc.codegen.texts import dim_locals, used_locals
from mucc.dialects.cutlass.attributes import Bound
from mucc.dialects.cutlass.ops import ProgramOp, WorkspaceOp
from mucc.dialects.cutlass.views import source_of
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.types import Dim, Shaped, TensorType, dtype_bytes, dtype_name
from mucc.dialects.promises import constraint_text
from mucc.kernels.indices import index_uses
from mucc.kernels.registry import kind_of
from mucc.library.dims import DECLARED, IMPLIED
from mucc.library.entries import Range
from mucc.library.extents import Source, divisible, is_derived, names_of, polynomial, sources
from mucc.target import get_target


def argument_alignments(program: ProgramOp) -> tuple[int, ...]:
    """Compute the required alignment in bytes of each argument's data pointer and run-time strides.

    TMA needs 16 for operands and full matrices of contractions, other kernels the width of their accesses.
    All other arguments need the alignment of their elements only, because pointwise kernels check addresses
    at each call. Scalars have 1.
    """
    granule = get_target(program.target.data).copy_granule
    args = program.body.block.args
    result = [dtype_bytes(a.type.element_type) if isinstance(a.type, TensorType) else 1 for a in args]
    for op in program.kernels:
        for value, bytes in kind_of(op).alignments(op, granule):
            base = source_of(value)
            if base in args:
                result[args.index(base)] = max(result[args.index(base)], bytes)
    return tuple(result)


# Tables


def _dim_codes(program: ProgramOp) -> dict[str, str]:
    """Return the C++ of each dim in a function over the values `d` of all dims."""
    return {name: f"d[{i}]" for i, name in enumerate(program.dim_names)}


def _extent(program: ProgramOp, dim: Dim, functions: _ExtentFunctions) -> str:
    if isinstance(dim, int):
        return f"mucc::fixed({dim})"
    if not is_derived(dim):
        return f"mucc::dim({program.dim_names.index(dim)})"
    return f"mucc::derived({string_literal(dim)}, {functions.of(dim)})"


class _ExtentFunctions:
    """The C++ functions of extents that follow from dims, with names that the scope has not yet."""

    def __init__(self, program: ProgramOp, namer: Namer):
        self.codes = _dim_codes(program)
        self.namer = namer
        self.names: dict[str, str] = {}
        self.lines: list[str] = []

    def of(self, extent: str) -> str:
        """Return the name of the function that computes an extent from all dims."""
        if extent not in self.names:
            name = self.names[extent] = self.namer(f"extent{len(self.names)}")
            code = polynomial(extent).text(self.codes, " ")
            self.lines.append(
                f"int64_t {name}(int64_t const* d) {{ return {code}; }}  // {comment_text(extent)}"
            )
        return self.names[extent]

    def solving(self, name: str, source: Source) -> str:
        """Return the name of the function that computes a dim from an extent and other dims."""
        function = self.namer(f"solve{len(self.lines)}")
        code = source.text(self.codes, "extent")
        dims = "int64_t const* d" if "d[" in code else "int64_t const*"
        self.lines.append(
            f"int64_t {function}({dims}, int64_t extent) {{ return {code}; }}  // {comment_text(name)}"
        )
        return function


def _dims(program: ProgramOp, bound: Mapping[str, int], functions: _ExtentFunctions) -> list[str]:
    """Return the table of dims; one that is no extent of a parameter says how it follows from one."""
    names = program.dim_names
    types = [a.type for a in program.body.block.args[: program.num_inputs.value.data]]
    shapes = [Shaped.of(t).dims for t in types]
    found = sources(shapes, [name for name in names if name not in bound])
    steps = [n for n, source in found.items() if is_derived(shapes[source.array][source.axis])]
    lines: list[str] = []
    for name in names:
        given = f"{string_literal(name)}, {bound.get(name, -1)}"
        if name in steps:
            source = found[name]
            solve = functions.solving(name, source)
            given += f", {steps.index(name) + 1}, {source.array}, {source.axis}, {solve}"
        lines.append(f"    {{{given}}},")
    return lines


def _layout(type: TensorType) -> str:
    if type.layout.kind.data != "strides":
        return f"mucc::{type.layout.kind.data}()"
    return (
        "mucc::strides({" + ", ".join("-1" if s is None else str(s) for s in type.layout.stride_values) + "})"
    )


def _dtype(name: str) -> str:
    return f"mucc::k{name.upper()}"


def _argument(program: ProgramOp, index: int, align: int, functions: _ExtentFunctions) -> str:
    arg = program.body.block.args[index]
    name = string_literal(program.arg_names.data[index].data)
    if not isinstance(arg.type, TensorType):
        return f"    mucc::scalar_in({name}, {_dtype(dtype_name(arg.type))}),"
    kind = "in" if index < program.num_inputs.value.data else "out"
    extents = ", ".join(_extent(program, d, functions) for d in arg.type.dims)
    given = f"{name}, {_dtype(arg.type.dtype)}, {{{extents}}}, {_layout(arg.type)}, {align}"
    return f"    mucc::tensor_{kind}({given}),"


def derived_conditions(program: EntryOp) -> Iterator[tuple[str, str]]:
    """Yield the conditions on dims that no source declares, with their reasons."""
    yield from ((text.data, IMPLIED) for text in program.implied or ())
    requirements = (program.requirements or ()) if isinstance(program, ProgramOp) else ()
    for r in requirements:
        is_multiple = r.bound.data == Bound.MULTIPLE_OF
        text = divisible(r.dim.data, r.number.data) if is_multiple else r.condition(r.dim.data)
        if text is not None:
            yield text, r.reason.data


def _conditions(program: ProgramOp, names: Sequence[str]) -> list[_Condition]:
    """List the conditions on dims: text, C++ expression over `d`, and reason."""
    codes = _dim_codes(program)
    by_index = list(codes.values())
    conditions: list[_Condition] = []
    if program.promises is not None:
        for c in program.promises.data.constraints:
            conditions.append(_Condition(constraint_text(c, names), constraint_text(c, by_index), DECLARED))
    conditions += [_Condition(text, _code(text, codes), why) for text, why in derived_conditions(program)]
    return conditions


def workspace_struct(program: ProgramOp, places: Places) -> list[str]:
    """Return the struct of places of the tensors between kernels; empty if there are none."""
    slots = [list(slot) for slot in program.slots or ()]
    if not slots:
        return []
    held: list[list[str]] = [[] for _ in slots]
    for op in program.body.block.ops:
        if isinstance(op, WorkspaceOp) and op.slot is not None:
            held[op.slot.value.data].append(f"{workspace_name(op)}: {op.result.type}")
    lines: list[str] = []
    previous = "0"
    for i, types in enumerate(slots):
        sizes = list(dict.fromkeys(str(places.bytes(t)) for t in types))
        bytes = sizes[0] if len(sizes) == 1 else f"mucc::largest({{{', '.join(sizes)}}})"
        lines.append(f"    slot{i} = {previous};  // {comment_text(', '.join(held[i]))}")
        previous = f"slot{i} + mucc::aligned({bytes})"
    used = names_of(d for slot in slots for t in slot for d in t.dims)
    return [
        "// Where the tensors between the kernels lie in the workspace, in bytes from its start.",
        "struct Workspace {",
        f"  int64_t {', '.join(f'slot{i}' for i in range(len(slots)))}, end;",
        "  explicit Workspace(mucc::Call const& c) {",
        *(f"  {line}" for line in dim_locals(places, used)),
        *lines,
        f"    end = {previous};",
        "  }",
        "};",
    ]


def host_side(program: ProgramOp, places: Places, stages: Sequence[str], namer: Namer) -> list[str]:
    """Emit the program's namespace after its kernels; `stages` are the namespaces of the kernels in order.

    `namer` knows the names that the program's namespace has.
    """
    conditions = _conditions(program, program.dim_names)
    tables = _tables(program, argument_alignments(program), conditions, namer)
    return [*tables, "", *functions(program, places, stages)]


def functions(program: ProgramOp, places: Places, stages: Sequence[str]) -> list[str]:
    """Emit the functions that launch a program's kernels and count its workspace."""
    lines = _launch(program, places, stages)
    if launches_lists(program):
        lines += ["", "int launch_each(mucc::Call const* calls, int count) {"]
        lines += [f"  return {stages[0]}::run_list(calls, count);", "}"]
    return [*lines, "", *_workspace(program, stages)]


class _Condition(NamedTuple):
    """A condition on dims: its text, a C++ expression over `d`, and the reason for it."""

    text: str
    code: str
    why: str


def _tables(
    program: ProgramOp, aligns: Sequence[int], conditions: Sequence[_Condition], namer: Namer
) -> list[str]:
    """Emit the tables of arguments, dims and promises."""
    functions = _ExtentFunctions(program, namer)
    checks = [namer(f"holds{i}") for i in range(len(conditions))]
    arguments = [_argument(program, i, align, functions) for i, align in enumerate(aligns)]
    dims = _dims(program, program.bound_dims, functions)
    lines = [*functions.lines, "constexpr mucc::ArgSpec args[] = {", *arguments, "};"]
    if program.dim_names:
        lines += ["constexpr mucc::DimSpec dims[] = {", *dims, "};"]
    for check, (text, condition, _) in zip(checks, conditions, strict=True):
        lines.append(f"bool {check}(int64_t const* d) {{ return {condition}; }}  // {comment_text(text)}")
    if conditions:
        lines.append("constexpr mucc::Promise promises[] = {")
        lines += [
            f"    {{{string_literal(text)}, {check}, {string_literal(why)}}},"
            for check, (text, _, why) in zip(checks, conditions, strict=True)
        ]
        lines.append("};")
    return lines


# Kernels with several entries


def shared_alignments(entries: Sequence[ProgramOp]) -> tuple[int, ...]:
    """Compute the alignment in bytes that each argument of a kernel with these entries must have."""
    return tuple(max(each) for each in zip(*map(argument_alignments, entries), strict=True))


def shared_conditions(entries: Sequence[ProgramOp]) -> list[tuple[str, str]]:
    """List the conditions on dims that no source declares and all entries need, with their reasons."""
    needed = [{text for text, _ in derived_conditions(entry)} for entry in entries]
    return [one for one in derived_conditions(entries[-1]) if all(one[0] in texts for texts in needed)]


def own_conditions(entry: ProgramOp, entries: Sequence[ProgramOp]) -> list[tuple[str, str]]:
    """List the conditions on dims that an entry needs and not all entries need."""
    shared = {text for text, _ in shared_conditions(entries)}
    return [one for one in derived_conditions(entry) if one[0] not in shared]


def shared_promises(entries: Sequence[ProgramOp]) -> list[_Condition]:
    """List the conditions that every call of a kernel with these entries is checked for.

    Where no entry can compute all calls, a call that none can compute is refused for what the last one needs.
    """
    last = entries[-1]
    codes = _dim_codes(last)
    own = [own_conditions(entry, entries) for entry in entries]
    conditions = [c for c in _conditions(last, last.dim_names) if (c.text, c.why) not in own[-1]]
    if all(own):
        others = " || ".join(f"fits{number}(d)" for number in range(len(entries) - 1))
        conditions += [_Condition(text, f"{_code(text, codes)} || {others}", why) for text, why in own[-1]]
    return conditions


def dispatcher(entries: Sequence[ProgramOp], scopes: Sequence[str]) -> list[str]:
    """Emit the namespace of a kernel with several entries: its tables, and the choice of an entry by dims.

    `scopes` are the namespaces of the entries. `mucc.library.entries.chosen` is the same choice.
    """
    last = entries[-1]
    codes = _dim_codes(last)
    lines: list[str] = []
    fits: list[str] = []
    for number, entry in enumerate(entries):
        own = own_conditions(entry, entries)
        fits.append(f"fits{number}(d)" if own else "")
        if own:
            code = " && ".join(_code(text, codes) for text, _ in own)
            note = comment_text(", ".join(text for text, _ in own))
            lines.append(f"bool fits{number}(int64_t const* d) {{ return {code}; }}  // {note}")
    lines += _tables(last, shared_alignments(entries), shared_promises(entries), Namer())
    lines += ["", "// Which entry computes a call.", "int entry(int64_t const* d) {"]
    for number, entry in enumerate(entries[:-1]):
        for guard in entry.boxes:
            tests = [_in_range(r, codes) for r in guard] + [fits[number]] * bool(fits[number])
            note = comment_text(", ".join(r.text for r in guard))
            lines.append(f"  if ({' && '.join(tests) or 'true'}) return {number};  // {note}")
    number = len(entries) - 1
    if fits[-1]:
        lines.append(f"  if ({fits[-1]}) return {number};")
        always = next((i for i, fit in enumerate(fits) if not fit), None)
        lines += [f"  if ({fit}) return {i};" for i, fit in enumerate(fits[:-1][:always])]
        number = number if always is None else always
    lines += [f"  return {number};", "}", ""]
    for function, result in (("launch", "int"), ("workspace", "int64_t")):
        lines += [f"{result} {function}(mucc::Call const& c) {{", "  switch (entry(c.dims)) {"]
        lines += [f"    case {i}: return {scope}::{function}(c);" for i, scope in enumerate(scopes[:-1])]
        lines += [f"    default: return {scopes[-1]}::{function}(c);", "  }", "}", ""]
    return lines[:-1]


def _code(text: str, codes: Mapping[str, str]) -> str:
    """Return a condition with the C++ of its dims."""
    return re.sub(r"[A-Za-z_]\w*", lambda name: codes[name.group()], text)


def _in_range(r: Range, codes: Mapping[str, str]) -> str:
    tests = [f"{codes[r.dim]} >= {r.lower}"] if r.lower > 1 else []
    tests += [f"{codes[r.dim]} <= {r.upper}"] if r.upper is not None else []
    return " && ".join(tests) or "true"


def launches_lists(program: ProgramOp) -> bool:
    """Whether one kernel launch computes all problems of a call."""
    return any(kind_of(op).launches_lists(op) for op in program.kernels)


def _scratch_stages(program: ProgramOp, stages: Sequence[str]) -> list[str]:
    return [s for s, op in zip(stages, program.kernels, strict=True) if kind_of(op).needs_scratch(op)]


def _index_checks(program: ProgramOp, places: Places) -> list[str]:
    """Emit the calls that check index arguments, which an environment variable enables."""
    checks: list[str] = []
    for use in index_uses(program):
        if use.part:
            continue  # what lies beside the part may be any number
        once = f", {str(use.once).lower()}" if use.kind == "rows" else ""
        checks.append(f"mucc::check_{use.kind}(c, {use.argument}, {places.extent(use.rows)}{once})")
    return checks


def _launch(program: ProgramOp, places: Places, stages: Sequence[str]) -> list[str]:
    scratched = _scratch_stages(program, stages)
    lines = ["int launch(mucc::Call const& c) {"]
    if checks := _index_checks(program, places):
        lines += used_locals(places, *checks)
        lines.append("  if (" + " ||\n      ".join(checks) + ")\n    return 1;")
    if scratched:
        start = "Workspace(c).end" if program.slots else "0"
        lines.append(
            f"  void* const scratch = mucc::at(c, {start});  // the kernels use it one after the other"
        )
    for stage, op in zip(stages, program.kernels, strict=True):
        scratch = ", scratch" if stage in scratched else ", nullptr" if kind_of(op).takes_scratch(op) else ""
        lines.append(f"  if (int failed = {stage}::run(c{scratch})) return failed;")
    return [*lines, "  return 0;", "}"]


def _workspace(program: ProgramOp, stages: Sequence[str]) -> list[str]:
    scratched = _scratch_stages(program, stages)
    start = "Workspace(c).end" if program.slots else "0"
    if not scratched:
        parameter = "c" if program.slots else ""
        return [
            f"int64_t workspace(mucc::Call const& {parameter}) {{ return {start}; }}".replace("& )", "&)")
        ]
    return [
        "int64_t workspace(mucc::Call const& c) {",
        "  int64_t scratch = 0;",
        f"  for (int64_t need : {{{', '.join(f'{s}::scratch_bytes(c)' for s in scratched)}}}) {{",
        "    if (need < 0) return need;",
        "    scratch = mucc::at_least(scratch, need);",
        "  }",
        f"  return {start} + scratch;" if program.slots else "  return scratch;",
        "}",
    ]
