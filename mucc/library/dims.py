"""Parse values of dims from the command line, and check promises about them."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mucc.diagnostics.core import Diagnostic, DiagnosticError, did_you_mean

DECLARED = "declared in where"
"""The reason given for promises of the source."""

IMPLIED = "follows from the extents of its tensors"
"""The reason given for promises that extents such as `K/128` and `N-2` make."""


def fault(code: str, message: str, *helps: str) -> DiagnosticError:
    """Build an error of one diagnostic without a source location."""
    return DiagnosticError(Diagnostic(code, message, helps=helps))


def no_kernel(name: str, kernels: Collection[str]) -> DiagnosticError:
    """Build the error MU5406: no kernel of a file, of these names, has the name that was given."""
    meant = did_you_mean(name, kernels)
    help = f"did you mean '{meant}'?" if meant else f"kernels are {', '.join(kernels)}"
    return fault("MU5406", f"the file has no kernel '{name}'", help)


LARGEST = 2**31 - 1
"""The largest value of a dim."""

STEP, WIDE_STEP = 2, 4
"""The factor between neighbouring samples of a range, and where several dims have ranges."""

MOST_SIZES = 64
"""The most sizes for which one program is compiled."""


@dataclass(frozen=True, slots=True)
class Size:
    """Values of dims for which schedules are chosen. A sample stands for a range of sizes."""

    dims: Mapping[str, int]
    is_sample: bool = False


def parse_dims(words: list[str]) -> dict[str, int]:
    """Parse words such as `["M=4096,N=64", "K=8"]`. Raises MU6050."""
    dims: dict[str, int] = {}
    for name, values in (item for word in words for item in _parsed(word).items()):
        if name in dims:
            raise _twice(name)
        if isinstance(values, range):
            text = f"{values[0]}..{values[-1]}"
            raise fault(
                "MU6050", f"dim {name} must be a number here, got '{text}'", f"write {name}={values[-1]}"
            )
        dims[name] = values
    return dims


def parse_sizes(words: Sequence[str]) -> tuple[Size, ...]:
    """Parse the values of `--dims`: one size, or several where a dim is named again or has a range.

    Words whose dims no other word names hold for all sizes: `["M=16", "M=4096", "K=8"]` are two sizes. A
    range `M=1..4096` becomes samples. Raises MU6050, and MU6089 for too many sizes.
    """
    groups = [group for word in words if (group := _parsed(word))]
    common: dict[str, int | range] = {}
    others: list[dict[str, int | range]] = []
    for group in groups:
        is_shared = any(name in other for other in groups if other is not group for name in group)
        if is_shared:
            others.append(group)
        else:
            common |= group
    found: dict[tuple[tuple[str, int], ...], bool] = {}
    for group in others or [{}]:
        whole = common | group
        ranges = sum(isinstance(v, range) for v in whole.values())
        step = STEP if ranges == 1 else WIDE_STEP
        steps = [samples(v, step) if isinstance(v, range) else (v,) for v in whole.values()]
        is_sample = ranges > 0
        for values in product(*steps):
            key = tuple(zip(whole, values, strict=True))
            found[key] = found.get(key, True) and is_sample
            if len(found) > MOST_SIZES:
                raise too_many(len(found), MOST_SIZES, "sizes")
    return tuple(Size(dict(key), is_sample) for key, is_sample in found.items())


def too_many(count: int, most: int, what: str) -> DiagnosticError:
    """Build the error MU6089: more sizes than schedules are chosen for."""
    return fault("MU6089", f"--dims names {count} {what} or more, and {most} is the most", "name fewer sizes")


def _parsed(word: str) -> dict[str, int | range]:
    """Parse one word such as `M=16,N=1..64`. Raises MU6050."""
    dims: dict[str, int | range] = {}
    for text in (w.strip() for w in word.split(",") if w.strip()):
        name, equals, number = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier():
            raise fault("MU6050", f"cannot read '{text}' in --dims", "write --dims M=4096,N=4096,K=4096")
        if name in dims:
            raise _twice(name)
        low, dots, high = (part.strip() for part in number.partition(".."))
        if not dots:
            dims[name] = _number(name, number)
            continue
        if not (low and high):
            example = f"write both ends, as in {name}=1..8192"
            raise fault("MU6050", f"the range {number} of {name} lacks an end", example)
        first, last = _number(name, low), _number(name, high)
        if first > last:
            raise fault("MU6050", f"the range {number} of {name} is empty", f"write {name}={last}..{first}")
        dims[name] = range(first, last + 1)
    return dims


def _twice(name: str) -> DiagnosticError:
    return fault("MU6050", f"dim {name} comes twice in --dims")


def _number(name: str, text: str) -> int:
    digits = text.replace("_", "")
    if not (digits.isascii() and digits.isdigit()) or not 1 <= int(digits) <= LARGEST:
        raise fault("MU6050", f"dim {name} must be a number from 1 to {LARGEST}, got '{text}'")
    return int(digits)


def samples(values: range, step: int = STEP) -> list[int]:
    """Return sizes that stand for a range: both ends, and powers of `step` between them."""
    found = [values[0]]
    power = 1
    while power < values[-1]:
        if power > values[0]:
            found.append(power)
        power *= step
    return list(dict.fromkeys([*found, values[-1]]))


def broken_promise(
    kernel: str, promise: str, why: str, dims: Mapping[str, int], *helps: str
) -> DiagnosticError:
    """Build the error MU6052: a promise such as `K % 8 == 0`, its reason, and values that break it."""
    named = re.findall(r"[A-Za-z_]\w*", promise)
    values = ", ".join(f"{name} = {dims[name]}" for name in dict.fromkeys(named) if name in dims)
    note = "the kernel declares it in its `where`" if why == DECLARED else why
    message = f"{kernel} takes no {values}: {promise} must hold"
    return DiagnosticError(
        Diagnostic("MU6052", message, notes=(note,), helps=(f"choose dims for which {promise}", *helps))
    )


USUAL = (4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Extents for examples, the likeliest first."""

MOST_TRIED = 20_000
"""The most combinations of extents tried for an example."""


def example(
    missing: Sequence[str], given: Mapping[str, int], keeps: Callable[[Mapping[str, int]], bool]
) -> str:
    """Suggest `add --dims M=4096,...` with values that, together with those `given`, satisfy `keeps`.

    `keeps` is asked about some of the dims too, and is true of them where it may still hold of all.
    """
    tried = 0

    def extended(values: dict[str, int], rest: Sequence[str]) -> dict[str, int] | None:
        nonlocal tried
        if not rest:
            return values
        numbers = (*USUAL, *dict.fromkeys(n for n in values.values() if n not in USUAL))
        for number in (*numbers, *(n * 3 for n in USUAL), *range(5, 200, 2)):
            tried += 1
            if tried > MOST_TRIED:
                return None
            more = {**values, rest[0]: number}
            if keeps(more) and (found := extended(more, rest[1:])):
                return found
        return None

    found = extended(dict(given), missing)
    if found is None:
        return f"give values for {', '.join(missing)} that keep the kernel's promises"
    return "add --dims " + ",".join(f"{name}={found[name]}" for name in found)


def holds(text: str, dims: Mapping[str, int]) -> bool:
    """Evaluate a promise such as `K % 8 == 0`; promises of other forms count as kept.

    This is for an early and friendly message: the library checks all its promises at every call.
    """
    try:
        tree = ast.parse(text, mode="eval").body
        if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
            return True
        left, right = _value(tree.left, dims), _value(tree.comparators[0], dims)
        return _RELATIONS[type(tree.ops[0])](left, right)
    except (SyntaxError, KeyError, ZeroDivisionError):
        return True


def _quotient(a: int, b: int) -> int:
    """Compute a / b rounded towards zero, as in C++."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_RELATIONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda a, b: a - b * _quotient(a, b),
}


def _value(node: ast.expr, dims: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return dims[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_value(left, dims), _value(right, dims))
        case _:
            raise KeyError(type(node).__name__)
