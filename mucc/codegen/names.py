"""C++ names and literals."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable


def words(text: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split())


KEYWORDS = words(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl
    const constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    """
)

RESERVED = words(
    """
    mucc mu cute cutlass std fusion cuda main size_t ssize_t ptrdiff_t half half2 uint ulong ushort dim3
    threadIdx blockIdx blockDim gridDim warpSize errno
    """
)
"""Namespaces that the generated code looks into, and types and variables that it names."""

_TYPES = re.compile(
    r"u?int(_fast|_least)?(8|16|32|64|max|ptr)_t|(u?(char|short|int|long|longlong)|float|double)[1-4](_32a)?"
)
"""Types of the C and CUDA headers that the generated code names."""

_MACROS = re.compile(
    r"k[A-Z]\w*|NULL|NAN|INFINITY|W?EOF|BUFSIZ|MAXFLOAT|NZERO|CSIGNAL|SNAN\w*|linux|unix|assert\w*|alloca|offsetof"
    r"|std(in|out|err)|va_\w+|strn?dupa|toascii\w*|is\w+_l|isascii|issubnormal|[bl]e(16|32|64)toh"
    r"|hto[bl]e(16|32|64)|math_errhandling|sched_priority|pthread_\w+|cu(da)?[A-Z]\w*|E[A-Z0-9]{2,}|W[A-Z]{5,}"
    r"|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|(PRI|SCN)[A-Zdioux]\w+|Return_Status|CUDA\w+|NFDBITS|TIME\w*_\w+"
    r"|(M|L|P|LC|NV|CU|FP|FE|NL|MB|MQ|FD|DL|RE|RTLD|HUGE|SIG|SEEK|EXIT|IF|LM|STA|ADJ|MOD|ATOMIC|CLONE|CPU|SCHED"
    r"|CLOCK|PTHREAD|CUTLASS|CUTE|CUDART|MUCC|CCCL|LIBCUDACXX|RESOURCE|XATTR|RENAME|DLFO|BC|MATH|MAX|FLT|L?DBL"
    r"|U?INT\w*|CLOCKS|DECIMAL)_\w+|\w+_(MAX|MIN|WIDTH|BIT|BUF)"
)
"""Constants of kernels, macros of the C, CUDA and CUTLASS headers, and names that look like them."""


def identifier(text: str) -> str:
    """Replace all characters that C++ does not allow in names by underscores."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    name = re.sub(r"_+", "_", name).strip("_") or "value"
    return f"v_{name}" if name[0].isdigit() else name


class Namer:
    """Generator of unique C++ names."""

    def __init__(self, taken: Iterable[str] = ()):
        self._taken = {*KEYWORDS, *RESERVED, *taken}

    def __call__(self, text: str) -> str:
        """Generate a new name from `text`."""
        name = stem = identifier(text)
        is_foreign = _TYPES.fullmatch(name) or _MACROS.fullmatch(name)
        count = 1
        while name in self._taken or (is_foreign and name == stem):
            count += 1
            name = f"{stem}_{count}" if count > 2 else f"{stem}_"
        self._taken.add(name)
        return name


def integer_literal(value: int) -> str:
    """Print an int literal of C++; the least int, which has no literal, as an expression."""
    return "(-2147483647 - 1)" if value == -(2**31) else str(value)


def float_literal(value: float) -> str:
    """Print the shortest C++ literal of the f32 nearest to `value`: `0.5f`, `-INFINITY`."""
    if math.isnan(value):
        return "NAN"
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == single:
            break
    else:
        text = f"{single:.9g}"
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


def string_literal(text: str) -> str:
    """Print a C++ string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def raw_string_literal(text: str, delimiter: str) -> str:
    """Print a raw string literal, with a delimiter that the text does not contain."""
    while f'){delimiter}"' in text:
        delimiter += "_"
    return f'R"{delimiter}({text}){delimiter}"'


def comment_text(text: str) -> str:
    """Make a text safe for a `//` comment: a backslash at the end would continue it."""
    return text.rstrip().rstrip("\\").rstrip()
