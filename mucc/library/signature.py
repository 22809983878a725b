"""Parse manifests: the kernels of a library with their signatures, as typed values.

`mucc.compiler.manifest` writes the JSON, `Manifest.parse` is the one reader. It knows nothing of the
compiler, so that loading a library does not load the compiler. docs/runtime.md lists the fields.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from mucc.library.entries import EntryInfo, Range, chosen
from mucc.library.extents import Source, names_of, sources, value, values
from mucc.library.manifest_json import ManifestJson

ABI_VERSION = 1
"""The version of the calling convention. Libraries of other versions are not loaded."""

_SINGLES = {"e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1, "s4": 1, "u4": 1}
ITEM_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8, "s32": 4, **_SINGLES}
"""Bytes of an array's element, which is one number, or two for `PACKED` dtypes."""

MOST_ARGS, MOST_DIMS, MOST_AXES = 64, 32, 8
"""Arguments and dims of a kernel, and axes of an argument, at most (mucc/spec.h)."""

PACKED = ("s4", "u4")
"""Dtypes with two elements per byte along the last axis, passed as arrays of bytes."""

Layout = Literal["row_major", "col_major", "sparse"] | tuple[int | None, ...]
"""A layout: contiguous, packed by `mucc.sparsify`, or a stride per axis (in elements, None: any)."""

Terms = tuple[tuple[int | float | str, ...], ...]
"""A sum of products of numbers and dims; packed dtypes have fractions of a byte per element."""


class ManifestError(ValueError):
    """The text is no manifest. `newer` is the library's ABI version if that is the only problem."""

    def __init__(self, message: str, newer: object = None):
        super().__init__(message)
        self.newer = newer


@dataclass(frozen=True, slots=True)
class Index:
    """Requirements on index values: the ends of groups of `rows` rows, or row indices, unique with `once`."""

    kind: Literal["ends", "rows"]
    rows: str | int
    once: bool


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a kernel, in calling order. `shape` mixes dim names and numbers."""

    name: str
    role: Literal["input", "scalar", "output"]
    dtype: str
    shape: tuple[str | int, ...]
    layout: Layout
    align: int
    indices: tuple[Index, ...] = ()
    """What its values must be, of integers that name rows."""

    @property
    def signature(self) -> str:
        """The declaration in the source's syntax, such as `x: bf16[M, K] col_major`."""
        if self.role == "scalar":
            return f"{self.name}: {self.dtype}"
        text = f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
        if self.layout == "row_major":
            return text
        if isinstance(self.layout, str):
            return f"{text} {self.layout}"
        return f"{text} strides({', '.join('_' if s is None else str(s) for s in self.layout)})"

    def extents(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Compute the shape for given dims."""
        return values(self.shape, dims)

    def stored(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Compute the shape of the array to pass; the last axis counts bytes for packed dtypes."""
        *outer, last = self.extents(dims) or (1,)
        if self.dtype in PACKED:
            return (*outer, last // 2)
        return self.extents(dims)


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """One kernel: its signature, its symbols and its counts of work."""

    name: str
    symbol: str
    ffi: str
    dims: dict[str, int | None]
    """All dims in order; None for dims that calls bind."""
    args: tuple[Arg, ...]
    promises: tuple[tuple[str, str], ...]
    """(condition, who asks for it)."""
    workspace: bool
    flops: dict[str, Terms]
    """Operations by unit."""
    bytes: Terms
    """Compulsory bytes of device memory."""
    each: bool = False
    """Whether calls may give lists of problems."""
    entries: tuple[EntryInfo, ...] = ()
    """The entries of a kernel with several schedules, the last for what no guard takes."""

    def bind(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """Compute all dims from the shapes of the inputs; scalars have none."""
        dims = {name: number for name, number in self.dims.items() if number is not None}
        for name, source in self.sources.items():
            dims[name] = source.at(dims, shapes[source.array][source.axis])
        return dims

    def entry(self, dims: Mapping[str, int]) -> int:
        """Return the number of the entry that computes a call; 0 of a kernel with one schedule."""
        return chosen(self.entries, dims) if self.entries else 0

    @property
    def inputs(self) -> tuple[Arg, ...]:
        """Parameters in order: tensors and by-value scalars."""
        return tuple(a for a in self.args if a.role != "output")

    @property
    def outputs(self) -> tuple[Arg, ...]:
        """The results, which calls take behind the parameters."""
        return tuple(a for a in self.args if a.role == "output")

    @property
    def sources(self) -> dict[str, Source]:
        """Where each open dim is read off the inputs, in an order in which they can be computed."""
        return sources([a.shape for a in self.inputs], [d for d, v in self.dims.items() if v is None])

    @property
    def signature(self) -> str:
        """The signature on one line, in the source's syntax."""
        dims = ", ".join(n if v is None else f"{n}={v}" for n, v in self.dims.items())
        inputs = ", ".join(a.signature for a in self.inputs)
        outputs = [a.signature for a in self.outputs]
        result = outputs[0].split(": ", 1)[1] if len(outputs) == 1 else f"({', '.join(outputs)})"
        name = f"{'each ' * self.each}{self.name}"
        return f"{name}{f'[{dims}]' if dims else ''}({inputs}) -> {result}"


def evaluate(terms: Iterable[Sequence[int | float | str]], dims: Mapping[str, int]) -> int:
    """Evaluate a sum of products for given dims."""
    return round(sum(math.prod(value(f, dims) if isinstance(f, str) else f for f in term) for term in terms))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a library. `digest` identifies the program."""

    abi: int
    version: str
    target: str
    digest: str
    kernels: tuple[KernelInfo, ...]
    json: ManifestJson
    """The manifest as JSON, including unknown fields."""

    @staticmethod
    def parse(text: str | bytes | Mapping[str, Any]) -> Manifest:
        """Parse a manifest. Raises `ManifestError`."""
        data = _object(text)
        if "abi" not in data:
            raise ManifestError("it has no field 'abi'")
        if data["abi"] != ABI_VERSION:
            message = (
                f"it is of ABI {data['abi']!r} (mucc {data.get('mucc', '?')}), this mucc knows {ABI_VERSION}"
            )
            raise ManifestError(message, data["abi"])
        try:
            kernels = tuple(_kernel(k) for k in data["kernels"])
            return Manifest(
                data["abi"],
                _str(data["mucc"]),
                _str(data["target"]),
                _str(data["program_hash"]),
                kernels,
                cast("ManifestJson", data),
            )
        except KeyError as error:
            raise ManifestError(f"a field {error} is missing") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise ManifestError(f"a field has the wrong form: {error}") from None


def _object(text: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(text if isinstance(text, Mapping) else json.loads(text))
    except TypeError:
        raise ManifestError("it is not a JSON object") from None
    except ValueError as error:
        raise ManifestError(f"it is not JSON: {error}") from None


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r}")
    return value


def _terms(value: Any) -> Terms:
    return tuple(tuple(f if isinstance(f, str | float) else int(f) for f in term) for term in value)


def _kernel(data: Any) -> KernelInfo:
    sol: dict[str, Any] = data["sol"]
    kernel = KernelInfo(
        _str(data["name"]),
        _str(data["symbol"]),
        _str(data["ffi"]),
        {_str(d["name"]): None if d["value"] is None else int(d["value"]) for d in data["dims"]},
        tuple(_arg(a) for a in data["args"]),
        tuple((_str(p["text"]), _str(p["why"])) for p in data["promises"]),
        bool(data["workspace"]),
        {_str(unit): _terms(terms) for unit, terms in sol["flops"].items()},
        _terms(sol["bytes"]),
        bool(data.get("each")),
        tuple(_entry(e) for e in data.get("entries", ())),
    )
    counted = [f for terms in (*kernel.flops.values(), kernel.bytes) for t in terms for f in t]
    used = names_of([*(e for a in kernel.args for e in a.shape), *(f for f in counted if isinstance(f, str))])
    if unknown := used - kernel.dims.keys():
        raise ValueError(
            f"kernel {kernel.name} uses dims that it does not declare: {', '.join(sorted(unknown))}"
        )
    if free := [d for d, v in kernel.dims.items() if v is None and d not in kernel.sources]:
        raise ValueError(f"kernel {kernel.name} has dims that no input binds: {', '.join(free)}")
    if not kernel.outputs or kernel.args[len(kernel.inputs) :] != kernel.outputs:
        raise ValueError(f"kernel {kernel.name} does not list its outputs last")
    return kernel


def _entry(data: Any) -> EntryInfo:
    return EntryInfo(
        tuple(tuple(_range(dim, *ends) for dim, ends in guard.items()) for guard in data["guards"]),
        tuple((_str(p["text"]), _str(p["why"])) for p in data["promises"]),
        tuple({_str(n): int(v) for n, v in size.items()} for size in data["sizes"]),
    )


def _range(dim: Any, lower: Any, upper: Any) -> Range:
    return Range(_str(dim), int(lower), None if upper is None else int(upper))


def _arg(data: Any) -> Arg:
    role, dtype = data["role"], data["dtype"]
    if dtype not in ITEM_BYTES:
        raise ValueError(f"unknown dtype {dtype!r}")
    if role == "scalar":
        return Arg(_str(data["name"]), role, dtype, (), "row_major", ITEM_BYTES[dtype])
    if role not in ("input", "output"):
        raise ValueError(f"unknown role {role!r}")
    shape = tuple(e if isinstance(e, str) else int(e) for e in data["shape"])
    return Arg(
        _str(data["name"]),
        role,
        dtype,
        shape,
        _layout(data["layout"], shape),
        int(data["align"]),
        _indices(data),
    )


def _indices(data: Any) -> tuple[Index, ...]:
    found: list[Index] = []
    for entry in data.get("indices", ()):
        if entry["kind"] not in ("ends", "rows"):
            raise ValueError(f"unknown kind of index {entry['kind']!r}")
        rows = entry["rows"]
        found.append(Index(entry["kind"], rows if isinstance(rows, str) else int(rows), bool(entry["once"])))
    return tuple(found)


def _layout(value: Any, shape: tuple[str | int, ...]) -> Layout:
    if value == "row_major" or value == "col_major" or value == "sparse":
        return value
    if isinstance(value, str) or len(value) != len(shape):
        raise ValueError(f"layout {value!r} for a tensor of rank {len(shape)}")
    return tuple(None if s is None else int(s) for s in value)
