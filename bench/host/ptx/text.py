"""Translate modules of PTX to the code that ptx_host.cpp runs.

A line of it is `variable` with bytes, `kernel` with a name and sizes, `param` with size and place, `constant`
with a kind and a value, or an instruction: its name, the register that guards it, whether the guard is
negated, and operands. Operands are numbers of registers; constants have negative ones.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from mucc.build.toolchain.body_ptx import closing

NUMBER, LOCAL, PARAM, VARIABLE, SPECIAL = range(5)
NO_GUARD = 1 << 30

_SPECIAL = {
    **{f"%{name}.{axis}": start + i for name, start in (("tid", 0), ("ntid", 3), ("ctaid", 6), ("nctaid", 9))
       for i, axis in enumerate("xyz")},
    "%laneid": 12,
    "%warpid": 13,
    "%cluster_ctarank": 14,
    "%cluster_nctarank": 15,
    "%clusterid.x": 16,
}  # fmt: skip

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
_IGNORED = ("membar", "fence", "prefetch", "pragma", "griddepcontrol")
_ATOMICS = ("add", "inc", "min", "max", "exch", "cas", "and", "or")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_ENTRY = re.compile(r"\.(entry|func)\s+([\w$]+)\s*\(([^)]*)\)[^{;]*\{")
_PARAM = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.\w(\d+)\s+([\w$]+)(?:\[(\d+)\])?")
_VARIABLE = re.compile(
    r"\.(global|const|shared|local)\s+(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(\d+)\s+)?\.\w(\d+)\s+([\w$]+)"
    r"(\s*\[\s*(\d*)\s*\])?\s*(?:=\s*(?:\{([^}]*)\}|([^;{]+)))?\s*$"
)
_STATEMENT = re.compile(r"\s*(?:([{}])(?!\s*,)|([$\w]+):|([^;]*);)")
_REGISTER = re.compile(r"(%[\w$]+?)(?:<(\d+)>)?")
_ADDRESS = re.compile(r"\[\s*([^+\]\s-]+)\s*(?:(\+-?|-)\s*(\w+))?\s*\]")
_OPERAND = re.compile(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,]+)\s*(?:,|$)")


class PtxError(Exception):
    """The PTX has something that the machine does not know."""


@dataclass
class _Module:
    """The variables of a PTX module: what a name means, and the bytes of those in global memory."""

    symbols: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    variables: list[bytes] = field(default_factory=list[bytes])
    shared: int = 0
    dynamic: list[str] = field(default_factory=list[str])

    def declare(self, statement: str) -> None:
        """Add a variable in global, constant or shared memory."""
        if not (match := _VARIABLE.search(statement)):
            raise PtxError(f"declaration: {statement}")
        space, align, bits, name, array, count, values, value = match.groups()
        size = _SIZES[bits] * int(count or 1)
        if space == "shared" and array and not count:
            self.dynamic.append(name)
        elif space == "shared":
            at = -(-self.shared // int(align or 1)) * int(align or 1)
            self.symbols[name] = NUMBER, at
            self.shared = at + size
        else:
            given = [_immediate(v.strip()) for v in (values or value or "").split(",") if v.strip()]
            data = b"".join((v % (1 << int(bits))).to_bytes(_SIZES[bits], "little") for v in given)
            self.symbols[name] = VARIABLE, len(self.variables) << 32
            self.variables.append(data.ljust(size, b"\0"))


@dataclass
class _Scope:
    """A block: the registers that it declares, and its labels."""

    outer: _Scope | None
    registers: dict[str, int] = field(default_factory=dict[str, int])
    labels: dict[str, int] = field(default_factory=dict[str, int])

    def find(self, name: str) -> int | None:
        """Return the number of a register."""
        return self.registers[name] if name in self.registers else self.outer and self.outer.find(name)

    def label(self, name: str) -> int:
        """Return the place of a label."""
        if name in self.labels:
            return self.labels[name]
        if self.outer is None:
            raise PtxError(f"there is no label {name}")
        return self.outer.label(name)


def translate(ptx: str) -> str:
    """Translate the entry functions of a module. Raises PtxError, which names what is not known."""
    text = _COMMENT.sub("", ptx)
    module = _Module()
    functions: list[tuple[str, str, str]] = []
    at = 0
    while found := _ENTRY.search(text, at):
        _declare_all(module, text[at : found.start()])
        if not (at := closing(text, found.end() - 1)):
            raise PtxError("the module ends within a function")
        if found[1] == "entry":
            functions.append((found[2], found[3], text[found.end() : at - 1]))
    _declare_all(module, text[at:])
    lines = [" ".join(["variable", *map(str, data)]) for data in module.variables]
    for name, params, body in functions:
        lines += _Function(module, name, params, body).lines()
    return "\n".join(lines)


def _declare_all(module: _Module, text: str) -> None:
    for statement in text.split(";"):
        last = " ".join(statement.split())
        if re.search(r"\.(global|const|shared)\b", last) and ".func" not in last:
            module.declare(last)


class _Function:
    """An entry function: its constants and registers by number, and its instructions."""

    def __init__(self, module: _Module, name: str, params: str, body: str):
        self.module = module
        self.name = name
        self.constants: dict[tuple[int, int], int] = {}
        self.registers = 1  # that which takes what nothing reads
        self.symbols = dict(module.symbols)
        self.params: list[tuple[int, int]] = []
        self.local = 0
        self.code: list[tuple[_Scope, str, str, list[str]]] = []
        at = 0
        for align, bits, param, count in _PARAM.findall(params):
            size = _SIZES[bits] * int(count or 1)
            unit = int(align or _SIZES[bits])
            at = -(-at // unit) * unit
            self.symbols[param] = PARAM, at
            self.params.append((size, at))
            at += size
        self._parse(body)

    def _parse(self, body: str) -> None:
        scope = _Scope(None)
        at = 0
        while match := _STATEMENT.match(body, at):
            at = match.end()
            if match[1] == "{":
                scope = _Scope(scope)
            elif match[1]:
                assert scope.outer
                scope = scope.outer
            elif match[2]:
                if match[2] in scope.labels:
                    raise PtxError(f"label {match[2]} is there twice")
                scope.labels[match[2]] = len(self.code)
            elif statement := " ".join(match[3].split()):
                self._statement(scope, statement)
        if body[at:].strip():
            raise PtxError(f"statement: {body[at : at + 60]}")

    def _statement(self, scope: _Scope, statement: str) -> None:
        if statement.startswith(".reg"):
            for name in statement.split(None, 2)[2].split(","):
                register = _REGISTER.fullmatch(name.strip())
                assert register, statement
                names = (
                    [f"{register[1]}{i}" for i in range(int(register[2]))] if register[2] else [register[1]]
                )
                scope.registers |= {n: self.registers + i for i, n in enumerate(names)}
                self.registers += len(names)
        elif statement.startswith(".local"):
            self._declare_local(statement)
        elif statement.startswith(".shared"):
            self.module.declare(statement)
            self.symbols |= self.module.symbols
        elif statement.startswith(".pragma"):
            return
        else:
            guard, _, rest = statement.partition(" ") if statement.startswith("@") else ("", "", statement)
            word, _, operands = rest.partition(" ")
            if not word.startswith(_IGNORED):
                self.code.append((scope, guard[1:], word, _operands(operands)))

    def _declare_local(self, statement: str) -> None:
        if not (match := _VARIABLE.search(statement)):
            raise PtxError(f"local memory: {statement}")
        align = int(match[2] or 1)
        self.local = -(-self.local // align) * align
        self.symbols[match[4]] = LOCAL, self.local
        self.local += _SIZES[match[3]] * int(match[6] or 1)

    # Operands

    def constant(self, kind: int, value: int) -> int:
        """Return the operand of a constant."""
        return -1 - self.constants.setdefault((kind, value), len(self.constants))

    def value(self, scope: _Scope, operand: str) -> int:
        """Return the operand of a register, an immediate or the address of a symbol."""
        if operand == "_":
            return 0
        if (register := scope.find(operand)) is not None:
            return register
        if operand in _SPECIAL:
            return self.constant(SPECIAL, _SPECIAL[operand])
        if operand in self.module.dynamic:
            return self.constant(NUMBER, -(-self.module.shared // 16) * 16)
        if operand in self.symbols:
            return self.constant(*self.symbols[operand])
        return self.constant(NUMBER, _immediate(operand))

    def address(self, scope: _Scope, operand: str) -> list[int]:
        """Return the operands of an address: where it begins, and a distance."""
        if not (match := _ADDRESS.fullmatch(operand)):
            raise PtxError(f"address {operand}")
        base, sign, distance = match.groups()
        offset = int(distance or "0", 0) * (-1 if "-" in (sign or "") else 1)
        return [self.value(scope, base), self.constant(NUMBER, offset)]

    def flat(self, scope: _Scope, operands: list[str]) -> list[int]:
        """Return all operands, with those in braces one by one."""
        found: list[int] = []
        for operand in operands:
            if operand.startswith("{"):
                found += [self.value(scope, o.strip()) for o in operand[1:-1].split(",")]
            elif operand.startswith("["):
                found += self.address(scope, operand)
            else:
                found.append(self.value(scope, operand))
        return found

    # Instructions

    def lines(self) -> Iterator[str]:
        """Yield the lines of the function."""
        code = [self._line(*instruction) for instruction in self.code]
        yield f"kernel {self.name} {self.registers} {self.local} {-(-self.module.shared // 16) * 16}"
        yield from (f"param {size} {at}" for size, at in self.params)
        yield from (f"constant {kind} {value}" for kind, value in self.constants)
        yield from code

    def _line(self, scope: _Scope, guard: str, word: str, operands: list[str]) -> str:
        name, numbers = self._instruction(scope, word, operands)
        register = self.value(scope, guard.lstrip("!")) if guard else NO_GUARD
        return " ".join(["do", name, str(register), str(int(guard.startswith("!"))), *map(str, numbers)])

    def _instruction(self, scope: _Scope, word: str, operands: list[str]) -> tuple[str, list[int]]:
        """Return the name by which the machine knows an instruction, and its operands."""
        parts = word.split(".")
        match parts[0]:
            case "ld" | "ldu" | "st":
                return self._access(scope, parts, operands)
            case "atom" | "red":
                return self._atomic(scope, parts, operands)
            case "bra":
                return "bra", [scope.label(operands[0])]
            case "shfl":
                target, _, inside = operands[0].partition("|")
                return word, self.flat(scope, [target, inside or "_", *operands[1:]])
            case "bar" if parts[1:] == ["sync"]:
                return "bar.sync", self.flat(scope, operands)
            case "barrier" if parts[1] == "cluster":
                return f"barrier.cluster.{parts[2]}", []
            case "barrier" if parts[1] == "sync":
                return "bar.sync", self.flat(scope, operands)
            case "mov" if any(o.startswith("{") for o in operands):
                return self._packing(scope, parts, operands)
            case _:
                name = word.replace(".uni", "")
                if parts[0] in (
                    "add",
                    "sub",
                    "mul",
                    "fma",
                    "mov",
                    "setp",
                    "div",
                    "sqrt",
                    "rcp",
                    "neg",
                    "abs",
                ):
                    name = name.replace(".ftz", "")
                return name, self.flat(scope, operands)

    def _packing(self, scope: _Scope, parts: list[str], operands: list[str]) -> tuple[str, list[int]]:
        unpacks = operands[0].startswith("{")
        count = len(operands[0 if unpacks else 1].split(","))
        return f"{'unpack' if unpacks else 'pack'}.{parts[-1]}.{count}", self.flat(scope, operands)

    def _access(self, scope: _Scope, parts: list[str], operands: list[str]) -> tuple[str, list[int]]:
        """Translate a load or a store; those that other threads may answer give others their turn."""
        count = next((int(p[1]) for p in parts if re.fullmatch(r"v\d", p)), 1)
        yields = "yield." if {"volatile", "relaxed", "acquire", "release"} & set(parts) else ""
        numbers = self.flat(scope, operands)
        return f"{yields}{parts[0].replace('ldu', 'ld')}{_space(parts)}.{parts[-1]}", [count, *numbers]

    def _atomic(self, scope: _Scope, parts: list[str], operands: list[str]) -> tuple[str, list[int]]:
        operation = next(
            (p for p in parts if p in ("add", "inc", "min", "max", "exch", "cas", "and", "or")), "?"
        )
        given = operands if parts[0] == "atom" else ["_", *operands]
        return f"yield.atom{_space(parts)}.{operation}.{parts[-1]}", self.flat(scope, given)


def _space(parts: list[str]) -> str:
    if "shared::cluster" in parts:
        return ".cluster"
    return ".shared" if "shared" in parts or "shared::cta" in parts else ""


def _operands(text: str) -> list[str]:
    return [o.strip() for o in _OPERAND.findall(text)] if text.strip() else []


def _immediate(text: str) -> int:
    """Return the bits of an immediate. Raises PtxError for another operand."""
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return int(text[2:], 16)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return struct.unpack("<q", int(text[2:], 16).to_bytes(8, "little"))[0]
    try:
        value = int(text.removesuffix("U"), 0)
    except ValueError:
        raise PtxError(f"operand '{text}' is not known") from None
    return value - (1 << 64) if value >= 1 << 63 else value
