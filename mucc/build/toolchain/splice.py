"""Splice the PTX of pointwise bodies into the PTX of a skeleton.

A skeleton is a module whose kernels have markers in place of pointwise bodies. A marker is a comment with
registers, outputs first: `// mucc.body 3 1: %f9, %f4, %f7` stands for `%f9 = body3(%f4, %f7)`.

The bodies are in another module: an entry function without parameters for each, such as `mucc_body_3`, with
inputs at `// mucc.in %f1, %f2` and results at `// mucc.out %f8`. There may be several `mucc.out`, on
different paths. NVVM emits such comments for inline assembly.

A spliced body is a block, because PTX scopes registers and labels to blocks. Names of the body get the prefix
`mu_` so that they shadow none of the skeleton's. Operands replace the body's registers, with a move only
where replacing would change the result. Declarations that must not be repeated are hoisted: local memory to
the top of the function, variables and functions to the top of the module.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from mucc.build.toolchain.body_ptx import (
    DEPOT,
    LABEL,
    REGISTER,
    BodyCode,
    Declaration,
    Registers,
    SpliceError,
    header,
    is_immediate,
    parts,
    read_bodies,
    short,
)

__all__ = ["BodyCode", "SpliceError", "read_bodies", "splice"]

_MARKER = re.compile(r"// mucc\.body\b([^\n]*)")
_MARKER_TEXT = re.compile(r"\s+(\d+)\s+(\d+)\s*:(.*)")
_BEFORE, _AFTER = "// begin inline asm", "// end inline asm"
_HEAD = re.compile(r"[^;{]*\{")
_HEADER_LENGTH = 2000
"""The number of characters of a skeleton that include its version and target."""


def splice(skeleton: str, bodies: Mapping[int, BodyCode]) -> str:
    """Replace every marker in the skeleton's PTX by its body.

    Raises SpliceError for a marker without a body or with operands that do not fit, and for incompatible PTX.
    """
    if any(name in skeleton for name in (REGISTER, LABEL, DEPOT)):
        raise SpliceError("the skeleton has names that are meant for bodies: was it spliced before?")
    starts = _function_starts(skeleton)
    functions: dict[int, _Function] = {}
    used: dict[int, BodyCode] = {}
    edits: list[tuple[int, int, str]] = []
    for match in _MARKER.finditer(skeleton):
        if not (marker := _MARKER_TEXT.fullmatch(match[1])):
            raise SpliceError(f"the skeleton has a marker of an unknown form: {short(match[0])}")
        index = int(marker[1])
        if (body := bodies.get(index)) is None:
            raise SpliceError(f"the skeleton has a place for body {index}, but there is no such body")
        if not (place := bisect_right(starts, match.start())):
            raise SpliceError("the skeleton has a marker outside of any function")
        start = starts[place - 1]
        if (function := functions.get(start)) is None:
            function = functions[start] = _Function(skeleton, start)
        function.depots.update(dict.fromkeys(body.depots))
        used[index] = body
        edits.append((*_extent(skeleton, match), _paste(body, int(marker[2]), parts(marker[3]), function)))
    edits += [(f.start, f.start, "".join(f"\t{d}\n" for d in f.depots)) for f in functions.values()]
    if used:
        edits.append(_hoist(skeleton, list(used.values())))
    pieces: list[str] = []
    at = 0
    for start, end, text in sorted(edits):
        pieces += skeleton[at:start], text
        at = end
    return "".join([*pieces, skeleton[at:]])


class _Function:
    """A function of the skeleton: offset of its statements, registers, local memory of bodies."""

    def __init__(self, skeleton: str, start: int):
        self.start = start
        self.registers = Registers()
        self.depots: dict[str, None] = {}
        while (line := skeleton[start : (end := skeleton.find("\n", start) + 1)].strip()).startswith("."):
            self.registers.declare(line)
            start = end


def _function_starts(skeleton: str) -> list[int]:
    """Find the offsets of the functions' statements, past the lines with the opening braces."""
    starts: list[int] = []
    for word in (".entry", ".func"):
        at = -1
        while (at := skeleton.find(word, at + 1)) >= 0:
            linkage = skeleton[skeleton.rfind("\n", 0, at) + 1 : at].strip()
            if linkage in ("", ".visible", ".weak") and (head := _HEAD.match(skeleton, at)):
                starts.append(_line_end(skeleton, head.end()))
    return sorted(starts)


def _line_end(text: str, at: int) -> int:
    """Return the offset past the line that contains `at`."""
    return text.find("\n", at) + 1 or len(text)


def _extent(skeleton: str, marker: re.Match[str]) -> tuple[int, int]:
    """Return the range of lines to replace: the marker's, and NVVM's comments around it."""
    start = skeleton.rfind("\n", 0, marker.start()) + 1
    end = _line_end(skeleton, marker.end())
    if skeleton[start : marker.start()].strip():
        raise SpliceError(f"the skeleton has a marker beside other code: {short(skeleton[start:end])}")
    before = skeleton.rfind("\n", 0, start - 1) + 1
    after = _line_end(skeleton, end)
    if skeleton[before:start].strip() == _BEFORE and skeleton[end:after].strip() == _AFTER:
        return before, after
    return start, end


def _paste(body: BodyCode, count: int, operands: Sequence[str], function: _Function) -> str:
    """Instantiate a body as a block that computes the first `count` operands from the others."""
    if count != len(body.outputs) or len(operands) != count + len(body.inputs):
        raise SpliceError(
            f"body {body.index} has {len(body.inputs)} inputs and {len(body.outputs)} outputs, "
            f"but its place in the skeleton has {len(operands) - count} and {count}"
        )
    fields = list(operands)
    outputs = operands[:count]
    if len(set(outputs)) < count:
        raise SpliceError(f"the skeleton wants two outputs of body {body.index} in one register")
    for operand, kind in zip(outputs, body.outputs, strict=True):
        _check(body, operand, kind, function)
    moves = ""
    for i, wanted in enumerate(body.inputs, count):
        operand = operands[i]
        if not (immediate := is_immediate(operand)):
            _check(body, operand, wanted.kind, function)
        # An output may be the same register as an input, and be written before the input is read.
        if immediate or wanted.written or operand in outputs:
            moves += f"mov.{wanted.kind} {wanted.register}, {operand};\n"
            fields[i] = wanted.register
    return body.template.format(moves, *fields)


def _check(body: BodyCode, operand: str, wanted: str, function: _Function) -> None:
    """Raise SpliceError for an operand that is not a register of the type `wanted`."""
    if (kind := function.registers.kind(operand)) != wanted:
        found = f"a {kind} register" if kind else "no register"
        raise SpliceError(f"the skeleton gives body {body.index} '{operand}', {found}, as {wanted}")


def _hoist(skeleton: str, bodies: Sequence[BodyCode]) -> tuple[int, int, str]:
    """Return an edit that adds declarations at the top of the module. Raises SpliceError for conflicts."""
    head = skeleton[:_HEADER_LENGTH]
    version, target = header(head)
    for body in bodies:
        if body.version > version or not _runs_on(body.target, target):
            raise SpliceError(
                f"body {body.index} is PTX {body.version[0]}.{body.version[1]} for {body.target}, "
                f"but the skeleton is PTX {version[0]}.{version[1]} for {target}"
            )
    declarations: dict[str, Declaration] = {}
    for declaration in (d for body in bodies for d in body.module):
        if declarations.setdefault(declaration.name, declaration).text != declaration.text:
            raise SpliceError(f"two bodies differ in what '{declaration.name}' is")
    new = [d.text for d in declarations.values() if not _has(skeleton, d)]
    at = _line_end(skeleton, head.index(".address_size"))
    return at, at, "".join(f"{text}\n" for text in new)


def _runs_on(target: str, skeleton: str) -> bool:
    """Whether a module for `skeleton` may have code for `target`; `sm_90a` needs exactly `sm_90a`."""
    if not target[-1].isdigit():
        return target == skeleton
    return int(target[3:]) <= int(skeleton[3:].rstrip("af"))


def _has(skeleton: str, declaration: Declaration) -> bool:
    """Whether the skeleton has the same declaration. Raises SpliceError if the name has another meaning."""
    if declaration.text in skeleton:
        return True
    name = re.escape(declaration.name)
    if declaration.name in skeleton and re.search(rf"(?<![\w$%]){name}(?![\w$])", skeleton):
        raise SpliceError(f"the skeleton and a body differ in what '{declaration.name}' is")
    return False
