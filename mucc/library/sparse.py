"""Pack matrices with the 2:4 pattern, for parameters such as `w: bf16[N, K] sparse`.

Of every 4 neighbours along a row at most 2 are not zero, of f32 1 of every 2. A packed matrix is one block
of memory: the values that are kept, as a row-major matrix [N, K/2], then from the next multiple of 128 bytes
on the metadata that says where they come from, in the order of CUTLASS's `Sm90GemmSparseConfig`. To the
outside it is an array of its own dtype and shape [N, K] whose rows begin every K/2 elements, so that it goes
wherever an array goes: shape, dtype and strides say what it is, and its pointer is where all of it lies.

Works on NumPy arrays and torch tensors alike, and imports neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mucc.library.errors import MuccTypeError, MuccValueError

Array = Any

ATOM_ROWS = 64
"""Rows of a block of metadata."""

OFFSET = 128
"""The alignment of the metadata in bytes."""

_BITS = {1: "uint8", 2: "int16", 4: "int32"}
"""Integers as wide as an element, which torch can compute with."""


@dataclass(frozen=True, slots=True)
class Form:
    """A packed matrix of `rows` by `columns` elements of `item` bytes each."""

    rows: int
    columns: int
    item: int

    @property
    def unit(self) -> int:
        """The divisor of the number of columns, so that stored rows are multiples of 16 bytes."""
        return 32 // self.item

    @property
    def chunk(self) -> int:
        """The number of neighbours of which half are kept: 4, for 32-bit elements 2."""
        return 2 if self.item == 4 else 4

    @property
    def atom_columns(self) -> int:
        """Columns of a block of metadata, which is a tile K that every kernel has a multiple of."""
        return 64 if self.item == 4 else 128

    @property
    def value_bytes(self) -> int:
        return self.rows * self.columns // 2 * self.item

    @property
    def offset(self) -> int:
        """The offset of the metadata in bytes."""
        return _up(self.value_bytes, OFFSET)

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and columns, rounded up to whole blocks of metadata."""
        return _up(self.rows, ATOM_ROWS), _up(self.columns, self.atom_columns)

    @property
    def bytes(self) -> int:
        """Bytes of a packed matrix: half of every chunk is 4 bits of metadata."""
        rows, columns = self.padded
        return self.offset + rows * columns // (2 * self.chunk)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


class _Library:
    """Functions that differ between NumPy and torch."""

    def __init__(self, array: Array):
        name = type(array).__module__.partition(".")[0]
        self.is_torch = name == "torch"
        self.xp: Any = import_module("torch" if self.is_torch else "numpy")

    def view(self, array: Array, dtype: Any) -> Array:
        return array.view(getattr(self.xp, dtype) if isinstance(dtype, str) else dtype)

    def wide(self, array: Array) -> Array:
        """Convert to 64-bit integers."""
        return array.to(self.xp.int64) if self.is_torch else array.astype(self.xp.int64)

    def like(self, array: Array, dtype: str) -> Array:
        kind = getattr(self.xp, dtype)
        return array.to(kind) if self.is_torch else array.astype(kind)

    def contiguous(self, array: Array) -> Array:
        return array.contiguous() if self.is_torch else self.xp.ascontiguousarray(array)

    def zeros(self, count: int, like: Array) -> Array:
        """Allocate zero bytes on the device of another array."""
        if self.is_torch:
            return self.xp.zeros(count, dtype=self.xp.uint8, device=like.device)
        return self.xp.zeros(count, dtype=self.xp.uint8)

    def strided(self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """Make a view with strides in elements, from the start of the array."""
        if self.is_torch:
            return array.as_strided(shape, strides)
        item = array.dtype.itemsize
        lib: Any = import_module("numpy.lib.stride_tricks")
        return lib.as_strided(array, shape, [s * item for s in strides])


def _item(array: Array) -> int:
    return array.element_size() if hasattr(array, "element_size") else array.dtype.itemsize


def _strides(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    if callable(array.stride if hasattr(array, "stride") else None):
        return tuple(array.stride())
    return tuple(s // array.dtype.itemsize for s in array.strides)


def _form(array: Array) -> Form:
    """Compute the form of a dense or packed matrix. Raises MU6081 for unsupported arrays."""
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise MuccTypeError("MU6081", f"a sparse matrix is made of an array, not {type(array).__name__}")
    shape, item = tuple(int(n) for n in array.shape), _item(array)
    text = f"an array of {array.dtype} and shape {list(shape)}"
    if len(shape) != 2 or item not in _BITS or str(array.dtype).endswith(("bool", "bool_")):
        raise MuccValueError("MU6081", f"{text} is no matrix of numbers of 8, 16 or 32 bits")
    form = Form(*shape, item)
    if form.columns % form.unit or form.rows < 2 or not form.columns:
        raise MuccValueError(
            "MU6081",
            f"{text} cannot be packed: it needs 2 rows or more, and columns in a multiple of {form.unit}",
        )
    return form


def _magnitudes(lib: _Library, bits: Array, array: Array) -> Array:
    """Numbers that are ordered as the absolute values of elements are; 0 for both zeros of floats."""
    wide = lib.wide(bits)
    name = str(array.dtype).rpartition(".")[2]
    if name == "uint8":
        return wide
    if name == "int8":
        return abs(lib.wide(array))
    return wide & ((1 << (8 * _item(array) - 1)) - 1)


def _chunks(array: Array, form: Form) -> list[Array]:
    """Return the elements of all chunks by their place in them, [N, K/chunk] each."""
    parts = array.reshape(form.rows, form.columns // form.chunk, form.chunk)
    return [parts[:, :, i] for i in range(form.chunk)]


def _kept(form: Form, sizes: list[Array]) -> list[Array]:
    """Which elements of each chunk are its largest: one of two, or two of four; the first of equal ones."""
    kept: list[Array] = []
    for i, mine in enumerate(sizes):
        beaten = sum(
            (other >= mine) * 1 if j < i else (other > mine) * 1 for j, other in enumerate(sizes) if j != i
        )
        kept.append(beaten < form.chunk // 2)
    return kept


def prune(weights: Array) -> Array:
    """Return the matrix with the 2:4 pattern: the smaller half of every chunk is set to zero.

    Of every 4 neighbours along a row the 2 of largest magnitude stay, of 32-bit numbers 1 of every 2. Raises
    MU6081 where the matrix cannot be packed.
    """
    form, lib = _form(weights), _Library(weights)
    bits = lib.view(lib.contiguous(weights), _BITS[form.item])
    kept = _kept(form, _chunks(_magnitudes(lib, bits, weights), form))
    mask = lib.xp.stack(kept, -1).reshape(form.rows, form.columns)
    return lib.view(lib.xp.where(mask, bits, lib.xp.zeros_like(bits)), weights.dtype)


def sparsify(weights: Array, *, prune: bool = False) -> Array:
    """Pack a matrix [N, K] for a parameter `w: bf16[N, K] sparse`.

    `weights` is a torch tensor (of any device, where the result is too) or a NumPy array of 8-, 16- or 32-bit
    numbers; bf16 of NumPy may be given as uint16. With `prune` the smaller two of every four are dropped,
    else a matrix without the pattern is an error, MU6080, which names the first place. The result says
    [N, K] too, but has memory for half of the values and metadata: pass it to kernels and to `densify`, keep
    it as it is (copies such as `.clone()` lose the metadata, and kernels refuse them).
    """
    if prune:
        weights = _PRUNE(weights)
    form, lib = _form(weights), _Library(weights)
    bits = lib.view(lib.contiguous(weights), _BITS[form.item])
    used = [size != 0 for size in _chunks(_magnitudes(lib, bits, weights), form)]
    _check_pattern(form, used)
    first, second, nibbles = _places(lib, form, used)
    chunks = [
        lib.xp.where(u, c, lib.xp.zeros_like(c)) for u, c in zip(used, _chunks(bits, form), strict=True)
    ]
    values = [_pick(lib, chunks, place) for place in ([first] if form.chunk == 2 else [first, second])]
    packed = lib.zeros(form.bytes, weights)
    stored = lib.xp.stack(values, -1).reshape(form.rows, form.columns // 2)
    packed[: form.value_bytes] = lib.view(lib.contiguous(stored).reshape(-1), "uint8")
    packed[form.offset :] = _ordered(lib, form, nibbles)
    return lib.strided(lib.view(packed, weights.dtype), (form.rows, form.columns), (form.columns // 2, 1))


_PRUNE: Callable[[Array], Array] = prune


def _check_pattern(form: Form, used: list[Array]) -> None:
    count: Array = sum(u * 1 for u in used)
    most = form.chunk // 2
    wrong: Array = count > most
    if not bool(wrong.any()):
        return
    first = int((wrong.reshape(-1) * 1).argmax())
    row, chunk = divmod(first, form.columns // form.chunk)
    column = chunk * form.chunk
    raise MuccValueError(
        "MU6080",
        f"row {row}, columns {column} to {column + form.chunk - 1} have {int(count[row, chunk])} values that "
        f"are not zero, but the pattern keeps {most} of {form.chunk}; prune=True drops the smallest",
    )


def _places(lib: _Library, form: Form, used: list[Array]) -> tuple[Array, Array, Array]:
    """Choose the two stored elements of each chunk, and compute the chunk's 4 bits of metadata.

    As CUTLASS's compressor has it: one value alone stands first with the last place beside it, and second
    where it is in the last place itself; of no values both places are the first.
    """
    where = lib.xp.where
    if form.chunk == 2:
        first = lib.wide(used[1] & ~used[0])
        return first, first, first * 10 + 4  # 0100 or 1110
    place = lib.wide(used[0]) * 0
    first = where(used[0], place, where(used[1], place + 1, where(used[2], place + 2, place + 3)))
    last = where(used[3], place + 3, where(used[2], place + 2, where(used[1], place + 1, place)))
    some = used[0] | used[1] | used[2] | used[3]
    alone = some & (first == last)
    second = where(alone, place + 3, last)
    first = where(some & ~(alone & used[3]), first, place)
    return first, second, first + 4 * second


def _pick(lib: _Library, chunks: list[Array], place: Array) -> Array:
    picked = chunks[0]
    for i, chunk in enumerate(chunks[1:], 1):
        picked = lib.xp.where(place == i, chunk, picked)
    return picked


def _split(form: Form) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape that splits bytes of metadata [rows, columns], and the order of its axes in memory.

    A block is `TensorEAtom` of `Sm90GemmSparseConfig`. Of 8-bit elements it is row-major; else 16 rows are
    (2, 8) and each step of a wgmma instruction, 4 bytes of a row, is 2 by 2, so that a thread loads at once
    what it needs.
    """
    rows, columns = form.padded
    count = columns // (2 * form.chunk)  # bytes of a row: two chunks in each
    blocks = columns // form.atom_columns
    if form.item == 1:
        return (rows // ATOM_ROWS, ATOM_ROWS, blocks, count // blocks), (2, 0, 1, 3)
    return (rows // ATOM_ROWS, 4, 2, 8, blocks, 4, 2, 2), (4, 0, 1, 6, 3, 5, 2, 7)


def _ordered(lib: _Library, form: Form, nibbles: Array) -> Array:
    """Arrange the metadata of chunks [N, K/chunk] as bytes in memory order, padded with zeros."""
    rows, columns = form.padded
    whole = lib.zeros(rows * (columns // form.chunk), nibbles).reshape(rows, -1)
    whole[: form.rows, : form.columns // form.chunk] = lib.like(nibbles, "uint8")
    joined = whole[:, 0::2] | (whole[:, 1::2] << 4)
    shape, order = _split(form)
    return lib.contiguous(_permuted(lib, joined.reshape(shape), order)).reshape(-1)


def _permuted(lib: _Library, array: Array, order: tuple[int, ...]) -> Array:
    return array.permute(order) if lib.is_torch else array.transpose(order)


def is_packed(array: Array) -> bool:
    """Whether an array is a result of `sparsify`, by its strides."""
    if len(getattr(array, "shape", ())) != 2 or not hasattr(array, "dtype"):
        return False
    return array.shape[1] > 1 and _strides(array) == (array.shape[1] // 2, 1)


def densify(packed: Array) -> Array:
    """Unpack a result of `sparsify` to a dense matrix [N, K]. Raises MU6081 for other arrays."""
    form, lib = _form(packed), _Library(packed)
    if not is_packed(packed):
        raise MuccValueError(
            "MU6081", f"an array of strides {list(_strides(packed))} is not packed by sparsify"
        )
    memory = lib.view(lib.strided(packed, (form.bytes // form.item,), (1,)), "uint8")
    values = lib.view(memory[: form.value_bytes], _BITS[form.item]).reshape(form.rows, form.columns // 2)
    shape, order = _split(form)
    ordered = memory[form.offset :].reshape([shape[i] for i in order])
    back = tuple(order.index(i) for i in range(len(order)))
    joined = lib.contiguous(_permuted(lib, ordered, back)).reshape(form.padded[0], -1)
    nibbles = lib.wide(lib.xp.stack([joined & 15, joined >> 4], -1).reshape(form.padded[0], -1))
    nibbles = nibbles[: form.rows, : form.columns // form.chunk]
    if form.chunk == 2:
        places, stored = [nibbles // 14], [values]
    else:
        places, stored = [nibbles & 3, nibbles >> 2], [values[:, 0::2], values[:, 1::2]]
    chunks: list[Array] = []
    for i in range(form.chunk):
        value = lib.xp.zeros_like(stored[0])
        for place, kept in zip(places, stored, strict=True):
            value = lib.xp.where((place == i) & (kept != 0), kept, value)
        chunks.append(value)
    dense = lib.xp.stack(chunks, -1).reshape(form.rows, form.columns)
    return lib.view(dense, packed.dtype)
