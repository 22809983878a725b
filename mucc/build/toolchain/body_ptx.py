"""Parse the PTX of pointwise bodies to templates for splicing (see `splice`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

ENTRY = "mucc_body_"
"""The prefix of the names of bodies' entry functions, before the body's number."""

REGISTER, LABEL, DEPOT = "%mu_", "$mu_", "__mucc_depot"
"""The prefixes of registers, labels and local memory in spliced code."""

_END = f"{LABEL}end"


class SpliceError(Exception):
    """The PTX cannot be spliced, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A variable or function of a module, and all names in its text."""

    name: str
    text: str
    mentions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a body: its PTX type, its register, and whether the body writes to the register."""

    kind: str
    register: str
    written: bool


@dataclass(frozen=True, slots=True)
class BodyCode:
    """A body as a template for splicing.

    `outputs` are PTX types. `template` is a format string of a block: field 0 is for moves of inputs to
    registers of the body, the other fields are the operands for outputs and inputs. `depots` are declarations
    for the top of each function that uses the body, `module` those for the top of the module.
    """

    index: int
    version: tuple[int, int]
    target: str
    outputs: tuple[str, ...]
    inputs: tuple[Input, ...]
    template: str
    depots: tuple[str, ...]
    module: tuple[Declaration, ...]

    @property
    def has_branches(self) -> bool:
        """Whether there is more than one path through the body."""
        return LABEL in self.template


# ---- the text of a module --------------------------------------------------------------------------------

_MARK = re.compile(r"//[ \t]*(mucc\.(?:in|out))\b([^\n;{}]*)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_HEADER = re.compile(r"\.(version|target|address_size)[ \t]+([^\n]+)")
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_ITEM = re.compile(r"\s*([^;{]+)")
_BRACE = re.compile(r"[{}]")
_FUNCTION = re.compile(r"\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?")
_VARIABLE = re.compile(r"([A-Za-z_$%][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=|;|$)")
_REG = re.compile(r"\.reg\s+\.(\w+)\s+([^;]*)")
_REGISTERS = re.compile(r"(%[A-Za-z_$][\w$]*)(<\d+>)?")
_IMMEDIATE = re.compile(r"0[fF][0-9A-Fa-f]{8}")


def header(text: str) -> tuple[tuple[int, int], str]:
    """Parse the version and the target of a module. Raises SpliceError if they are missing."""
    words = {str(word): str(value).strip() for word, value in _HEADER.findall(text)}
    version = re.fullmatch(r"(\d+)\.(\d+)", words.get("version", ""))
    target = words.get("target", "")
    if version is None or not re.fullmatch(r"sm_\d+[af]?", target) or words.get("address_size") != "64":
        raise SpliceError("the PTX does not state version, target and address size as nvcc does")
    return (int(version[1]), int(version[2])), target


def short(text: str) -> str:
    """Join a text to one line, and shorten it."""
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def parts(text: str) -> list[str]:
    """Split a comma-separated list of operands, which may be empty."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


def is_immediate(operand: str) -> bool:
    """Whether an operand is a float literal of PTX, such as `0f3F800000`."""
    return _IMMEDIATE.fullmatch(operand) is not None


class Registers:
    """Declared registers, such as `.reg .f32 %f<9>;`, with their types."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}  # by name; of a range, by its name with a '<'

    def declare(self, statement: str) -> list[tuple[str, str]] | None:
        """Parse and record a declaration; returns its types and names, None for other statements."""
        if not (match := _REG.fullmatch(statement.rstrip(" \t;"))):
            return None
        found = [_REGISTERS.fullmatch(name) for name in parts(match[2])]
        names = [(register[1], register[2]) for register in found if register]
        if len(names) < len(found):
            return None
        self._kinds |= {f"{name}<" if count else name: match[1] for name, count in names}
        return [(match[1], name + (count or "")) for name, count in names]

    def kind(self, name: str) -> str | None:
        """Return the type of a register; None for an undeclared name."""
        return self._kinds.get(name) or self._kinds.get(f"{name.rstrip('0123456789')}<")


def read_bodies(ptx: str) -> dict[int, BodyCode]:
    """Parse the bodies of a module, by number. Raises SpliceError for a body that cannot be spliced."""
    text = _COMMENT.sub("", _MARK.sub(r"\1\2;", ptx))
    version, target = header(text)
    declarations: dict[str, Declaration] = {}
    entries: dict[int, str] = {}
    for kind, name, item in _items(_HEADER.sub("", text)):
        if kind == "entry":
            if not (number := re.fullmatch(rf"{ENTRY}(\d+)", name)):
                raise SpliceError(f"there is an entry function '{name}' among the bodies")
            entries[int(number[1])] = item[item.index("{") + 1 : item.rindex("}")]
            continue
        mentions = frozenset(_NAME.findall(item))
        if (before := declarations.get(name)) is not None:  # a function's declaration, before its definition
            item, mentions = f"{before.text}\n{item}", mentions | before.mentions
        declarations[name] = Declaration(name, item, mentions)
    return {i: _Reader(i, body, declarations).read(version, target) for i, body in entries.items()}


def _items(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the declarations of a module: kind (`entry`, `func`, `variable`), name and text."""
    at = 0
    while (match := _ITEM.match(text, at)) and match[1].strip():
        function = _FUNCTION.search(match[1])
        if function and text.startswith("{", match.end()):
            end = closing(text, match.end())
        else:
            end = text.find(";", match.end()) + 1
        if not end:
            raise SpliceError("the PTX ends in the middle of a declaration")
        item = text[match.start(1) : end]
        if function:
            if function[1] == "entry" and (function[3] or "").strip():
                raise SpliceError(f"the entry function '{function[2]}' has parameters")
            yield function[1], function[2], item
        elif variable := _VARIABLE.search(match[1]):
            yield "variable", variable[1], item
        else:
            raise SpliceError(f"the PTX has a declaration of an unknown form: {short(item)}")
        at = end


def closing(text: str, opening: int) -> int:
    """Return the offset past the brace that closes the first one from `opening` on; 0 without one."""
    depth = 0
    for brace in _BRACE.finditer(text, opening):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return 0


# ---- one body --------------------------------------------------------------------------------------------

_IN, _OUT = "mucc.in", "mucc.out"
_STATEMENT = re.compile(r"\s*(?:([{}])|([A-Za-z_$%][\w$]*)\s*:|([^;]*);)")
_BRANCH = re.compile(r"(@!?%[\w$]+ )?(bra|ret)(?:\.uni)?(?: ([\w$]+))?")
_NOT_FIRST = re.compile(r"[{}@]|(?:bra|brx|ret|exit|call)\b|mucc|.*:$")

# Directives that may be among instructions. Others might change their meaning when spliced.
_DIRECTIVES = frozenset((".reg", ".local", ".param", ".pragma", ".branchtargets", ".callprototype"))


class _Reader:
    """Builder of the template of one body.

    `code` has instructions without semicolon, labels with colon, and braces, one string each.
    """

    def __init__(self, index: int, text: str, declarations: Mapping[str, Declaration]):
        self.index = index
        self.declarations = declarations
        self.registers = Registers()
        self.register_lines: list[str] = []
        self.inner: set[str] = set()  # registers of blocks within the body
        self.depots: dict[str, str] = {}  # new names by old ones
        self.depot_lines: list[str] = []
        self.code = list(self._statements(text))
        self.labels = {s[:-1]: i for i, s in enumerate(self.code) if s.endswith(":")}

    def error(self, reason: str) -> SpliceError:
        return SpliceError(f"body {self.index} {reason}")

    def read(self, version: tuple[int, int], target: str) -> BodyCode:
        """Build the template. Raises SpliceError."""
        end = _BRANCH.fullmatch(self.code[-1]) if self.code else None
        if end is None or end[1]:
            raise self.error("does not end in a return")
        sites = [i for i, s in enumerate(self.code) if s.startswith(_OUT)]
        outputs = [parts(self.code[i].removeprefix(_OUT)) for i in sites]
        if not outputs or not outputs[0]:
            raise self.error("has no output")
        if len({len(o) for o in outputs}) > 1:
            raise self.error("has a different number of outputs on different paths")
        kinds = {tuple(self._kind(operand) for operand in o) for o in outputs}
        if len(kinds) > 1:
            raise self.error("has outputs of different types on different paths")
        registers = self._inputs()
        written = self._written()
        direct = self._direct(registers, sites, outputs)
        fields = {r: k for k, r in enumerate(outputs[0]) if r in direct}
        fields |= {r: len(outputs[0]) + i for i, r in enumerate(registers) if r not in written}
        return BodyCode(
            index=self.index,
            version=version,
            target=target,
            outputs=kinds.pop(),
            inputs=tuple(Input(self._kind(r), _own(r), r in written) for r in registers),
            template=self._template({r: f"{{{1 + k}}}" for r, k in fields.items()}, direct),
            depots=tuple(self.depot_lines),
            module=self._module(),
        )

    def _statements(self, text: str) -> Iterator[str]:
        """Yield the statements; declarations of the outermost block are recorded instead."""
        depth = at = 0
        while match := _STATEMENT.match(text, at):
            at = match.end()
            if match[1]:
                depth += 1 if match[1] == "{" else -1
                yield match[1]
            elif match[2]:
                yield f"{match[2]}:"
            elif statement := " ".join(match[3].split()):
                word = statement.partition(" ")[0]
                if word.startswith(".") and word not in _DIRECTIVES:
                    raise self.error(f"has a directive that cannot be pasted: {short(statement)}")
                if word == ".reg" and depth == 0:
                    self._declare_registers(statement)
                elif word == ".local":
                    self._declare_depot(statement, depth)
                else:
                    if word == ".reg":
                        self._note_inner(statement)
                    yield statement
        if text[at:].strip():
            raise self.error(f"ends in the middle of a statement: {short(text[at:])}")

    def _declare_registers(self, statement: str) -> None:
        if (found := self.registers.declare(statement)) is None:
            raise self.error(f"has registers of an unknown form: {short(statement)}")
        self.register_lines += [f".reg .{kind} {_own(name)};" for kind, name in found]

    def _declare_depot(self, statement: str, depth: int) -> None:
        variable = _VARIABLE.search(statement)
        if variable is None or "=" in statement or depth:
            raise self.error(f"has local memory of an unknown form: {short(statement)}")
        new = f"{DEPOT}{self.index}_{len(self.depots)}"
        self.depots[variable[1]] = new
        self.depot_lines.append(f"{statement[: variable.start(1)]}{new}{statement[variable.end(1) :]};")

    def _note_inner(self, statement: str) -> None:
        """Record the registers of an inner block, whose declarations stay in place."""
        names = {name for name in _NAME.findall(statement) if name.startswith("%")}
        if "<" in statement or any(self.registers.kind(name) for name in names):
            raise self.error(f"has registers of an unknown form: {short(statement)}")
        self.inner |= names

    def _kind(self, operand: str) -> str:
        """Return the type of an input or output: `f32`, or `b32` for floats in untyped registers."""
        kind = "f32" if is_immediate(operand) else self.registers.kind(operand)
        if kind not in ("f32", "b32"):
            raise self.error(f"has an input or output that is not a 32-bit float: {operand}")
        return kind

    def _inputs(self) -> list[str]:
        """Find the input registers, which must be read once, on every path, before other uses."""
        places = [i for i, s in enumerate(self.code) if s.startswith(_IN)]
        if len(places) != 1:
            raise self.error("takes its inputs more than once" if places else "does not take its inputs")
        registers = parts(self.code[places[0]].removeprefix(_IN))
        if len(set(registers)) < len(registers) or not all(self.registers.kind(r) for r in registers):
            raise self.error("takes its inputs in an unknown way")
        for statement in self.code[: places[0]]:
            if _NOT_FIRST.match(statement) or not set(registers).isdisjoint(_NAME.findall(statement)):
                raise self.error("does not take its inputs first")
        return registers

    def _written(self) -> set[str]:
        """Collect the registers that the body may write: all in the first operand of a statement."""
        written: set[str] = set()
        for statement in self.code:
            if not statement.startswith((_IN, _OUT)):
                written.update(_NAME.findall(_first_operand(statement)))
        return written

    def _direct(
        self, inputs: Collection[str], sites: Sequence[int], outputs: Sequence[Sequence[str]]
    ) -> set[str]:
        """Find the registers that can be replaced by an output's operand, without a move.

        Such a register is the same output on every path, and no code follows the output.
        """
        first = outputs[0]
        if any(o != first for o in outputs) or not all(self._leaves(site) for site in sites):
            return set()
        return {o for o in first if o.startswith("%") and o not in inputs and first.count(o) == 1}

    def _leaves(self, site: int) -> bool:
        """Whether no code but jumps to the end follows the statement at `site`."""
        seen: set[int] = set()
        at = site + 1
        while at < len(self.code) and at not in seen:
            seen.add(at)
            statement = self.code[at]
            if statement.endswith(":"):
                at += 1
            elif (branch := _BRANCH.fullmatch(statement)) and not branch[1]:
                if branch[2] == "ret":
                    return True
                if self.code.count(f"{branch[3]}:") != 1:  # a label of several blocks
                    return False
                at = self.labels[branch[3]]
            else:
                return False
        return False

    def _template(self, fields: Mapping[str, str], direct: Collection[str]) -> str:
        names = {**self.depots, **fields, **{label: LABEL + label.lstrip("$") for label in self.labels}}

        def rename(match: re.Match[str]) -> str:
            name = match[0]
            if (new := names.get(name)) is None and (name in self.inner or self.registers.kind(name)):
                return _own(name)
            return new or name

        lines = ["{{", *self.register_lines, "{0}"]
        last = len(self.code) - 1
        returns = False
        for i, statement in enumerate(self.code):
            if statement.startswith(_IN):
                continue
            if statement.startswith(_OUT):
                for k, operand in enumerate(parts(statement.removeprefix(_OUT))):
                    if operand not in direct:
                        source = _NAME.sub(rename, operand)
                        lines.append(f"mov.{self._kind(operand)} {{{1 + k}}}, {source};")
            elif statement in "{}":
                lines.append(statement * 2)
            elif statement.endswith(":"):
                lines.append(f"{names[statement[:-1]]}:")
            elif (branch := _BRANCH.fullmatch(statement)) and branch[2] == "ret":
                if i < last:
                    guard = _NAME.sub(rename, branch[1] or "")
                    lines.append(f"{guard}bra{'' if guard else '.uni'} {_END};")
                    returns = True
            else:
                lines.append(f"{_NAME.sub(rename, statement.replace('{', '{{').replace('}', '}}'))};")
        if returns:
            lines.append(f"{_END}:")
        lines.append("}}\n")
        return "\n".join(lines).replace("{0}\n", "{0}")

    def _module(self) -> tuple[Declaration, ...]:
        """Collect the declarations of the module that the body uses, in the module's order."""
        wanted: set[str] = set()
        new = {name for statement in self.code for name in _NAME.findall(statement)}
        while new := (new & self.declarations.keys()) - wanted:
            wanted |= new
            new = {mention for name in new for mention in self.declarations[name].mentions}
        return tuple(d for name, d in self.declarations.items() if name in wanted)


def _own(register: str) -> str:
    """Rename a register of a body for splicing."""
    return REGISTER + register[1:]


def _first_operand(statement: str) -> str:
    """Return a statement up to its first comma outside brackets, which includes the registers it writes."""
    head = statement.partition(",")[0]
    if not any(c in head for c in "{(["):
        return head
    depth = 0
    for end, c in enumerate(statement):
        depth += (c in "{([") - (c in "})]")
        if c == "," and depth == 0:
            return statement[:end]
    return statement
