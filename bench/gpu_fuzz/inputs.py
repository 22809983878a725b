"""Tensors to call a kernel with: fresh random values, in every place in memory that the signature allows."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.gpu_fuzz.drafts import EXTENTS, FEW, Env, Param, Program
from bench.gpu_fuzz.reference import Bounded, exact
from mucc.library.dims import holds
from mucc.library.extents import is_derived, names, polynomial
from mucc.library.packing import pack_s4, pack_u4
from mucc.library.signature import ITEM_BYTES, PACKED, Arg, KernelInfo
from mucc.library.sparse import densify, sparsify
from mucc.measure.indices import draw_indices
from mucc.runtime.torch_glue import DTYPES

torch: Any = importlib.import_module("torch")

SPREAD = {"s4": (-8, 7), "u4": (0, 15), "s8": (-9, 9), "u8": (0, 9), "s32": (-1000, 1000)}
"""The smallest and the largest random integer of each dtype."""


FACTORS, OFFSETS = (1.0, 1.0, 3.0, 0.01, -1.0), (0.0, 0.0, 0.0, 1e4)
"""By what normal numbers are multiplied, and what is added to them in f32."""

SHIFTED = ("norms", "pools", "reductions", "rows", "measures", "grouped norms", "losses")
"""Forms whose inputs have other scales and offsets: a variance and a softmax must not cancel."""

SCALED = ("convolutions",)
"""Forms whose inputs have other scales."""

SHARED, FAR_APART, OVERLAPPING = 0.1, 0.05, 0.1
"""How often an argument is the same tensor as one before, has rows far apart, or rows that share elements."""

NOT_A_NUMBER, INFINITE = (math.nan,), (math.nan, math.inf, -math.inf)
"""Values that are put into some inputs of `SHIFTED` forms."""

PRIMES = (2, 3, 11, 13, 31, 61, 131, 251, 509)
"""Extents of some open dims, which no vector of elements divides."""


def draw_dims(
    program: Program, info: KernelInfo, rng: random.Random, most: int | None = None
) -> dict[str, int] | None:
    """Sizes of open dims that keep all promises, None where there seem to be none.

    All tensors together have `most` elements at most.
    """
    for attempt in range(4000):
        dims: dict[str, int] = {}
        for name, value in info.dims.items():
            small = name in program.few
            sizes = FEW if small else (*EXTENTS, *PRIMES) if attempt < 2000 else range(1, 1025)
            dims[name] = rng.choice(sizes) if value is None else value
        for dim in {e for a in info.inputs for e in a.shape if is_derived(e)}:
            divisor = polynomial(dim).divisor
            for name in names(dim):
                if info.dims[name] is None and dims[name] % divisor:
                    dims[name] = rng.choice((1, 2, 3, 5)) * divisor
        if most is not None and _elements(info, dims) > most:
            continue
        if all(holds(text, dims) for text, _ in info.promises):
            return dims
    return None


def _elements(info: KernelInfo, dims: Mapping[str, int]) -> int:
    return sum(math.prod(a.extents(dims)) for a in (*info.inputs, *info.outputs) if a.role != "scalar")


class Manner(NamedTuple):
    """How normal numbers are changed: a factor, what is added to them, and values that replace a few."""

    factor: float = 1.0
    offset: float = 0.0
    specials: tuple[float, ...] = ()


def draw(
    program: Program, info: KernelInfo, dims: Mapping[str, int], rng: random.Random, device: Any
) -> tuple[list[Any], dict[str, Bounded]]:
    """Arguments of a call in order, and what they hold as float64 by name."""
    generator = torch.Generator("cpu").manual_seed(rng.randrange(2**31))
    env = Env(dims, {})
    arguments: list[Any] = []
    values: dict[str, Bounded] = {}
    by_name = {p.name: p for p in program.params}
    # gelu(-inf) is 0, but NaN in PyTorch.
    specials = ((), (), (), (), NOT_A_NUMBER, NOT_A_NUMBER if "gelu" in program.text else INFINITE)
    for arg in info.inputs:
        param = by_name[arg.name]
        if arg.role == "scalar":
            number = float(torch.rand((), generator=generator) + 0.5)
            arguments.append(number)
            values[arg.name] = exact(torch.tensor(number, dtype=torch.float32).to(device))
            continue
        manner = Manner()
        if program.form in SHIFTED and param.kind == "normal":
            offset = rng.choice(OFFSETS) if arg.dtype == "f32" else 0.0
            manner = Manner(rng.choice(FACTORS), offset, rng.choice(specials))
        elif program.form in SCALED and param.kind == "normal":
            manner = Manner(rng.choice(FACTORS))
        same = _same(info.inputs[: len(arguments)], by_name, arg, dims)
        if same is not None and rng.random() < SHARED:
            arguments.append(arguments[same])
            values[arg.name] = values[info.inputs[same].name]
            continue
        argument, held = _tensor(arg, param, env, dims, rng, generator, device, manner)
        arguments.append(argument)
        values[arg.name] = exact(held)
    return arguments, values


def _same(
    before: Sequence[Arg], by_name: Mapping[str, Param], arg: Arg, dims: Mapping[str, int]
) -> int | None:
    """Return the place of an argument with the same extents and layout, whose values are drawn alike."""
    for place, other in enumerate(before):
        alike = (
            (other.role, other.dtype, other.layout, other.align)
            == (arg.role, arg.dtype, arg.layout, arg.align)
            and by_name[other.name].kind == by_name[arg.name].kind == "normal"
            and by_name[other.name].scale is by_name[arg.name].scale
        )
        if alike and other.extents(dims) == arg.extents(dims):
            return place
    return None


def _tensor(
    arg: Arg,
    param: Param,
    env: Env,
    dims: Mapping[str, int],
    rng: random.Random,
    generator: Any,
    device: Any,
    manner: Manner,
) -> tuple[Any, Any]:
    """Draw a tensor argument: the tensor, and its values as float64."""
    shape = arg.extents(dims)
    if arg.indices:
        flat = draw_indices(arg, dims, rng)
        numbers = torch.tensor(flat, dtype=torch.int32).reshape(shape)
    elif "integer" in param.kind:
        low, high = SPREAD.get(arg.dtype, (0, 15)) if param.kind != "large integer" else (-(2**31), 2**31 - 1)
        numbers = torch.randint(low, high + 1, shape, generator=generator)
    elif param.kind == "positive":
        numbers = (torch.rand(shape, generator=generator) + 0.5) * param.scale(env)
    else:
        numbers = torch.randn(shape, generator=generator) * (param.scale(env) * manner.factor) + manner.offset
        for special in manner.specials if numbers.numel() else ():
            numbers.view(-1)[rng.randrange(numbers.numel())] = special
    if arg.dtype in PACKED:
        packed = (pack_s4 if arg.dtype == "s4" else pack_u4)(numbers.to(torch.int8))
        return place(packed.to(device), arg, rng), numbers.to(device)
    stored = numbers.to(device).to(DTYPES[arg.dtype])
    if arg.layout == "sparse":
        packed = sparsify(stored, prune=True)
        return packed, densify(packed).to(torch.float64)
    held = place(stored, arg, rng)
    return held, held.to(torch.float64)


def strides_of(arg: Arg, shape: tuple[int, ...], rng: random.Random) -> list[int]:
    """Strides (elements) that the layout allows: with gaps between rows where it leaves them free."""
    unit = max(arg.align // ITEM_BYTES[arg.dtype], 1)
    if isinstance(arg.layout, str):
        order = list(range(len(shape)))
        if arg.layout == "col_major" and len(shape) > 1:
            order[-2:] = reversed(order[-2:])
        strides, span = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis] = span
            span *= shape[axis]
        return strides
    fixed = list(arg.layout)
    span = max((s * e for s, e in zip(fixed, shape, strict=True) if s is not None), default=1)
    strides = [0 if s is None else s for s in fixed]
    for axis in reversed(range(len(shape))):
        if fixed[axis] is None:
            gap = rng.choice((0, 0, 1, 3)) * unit
            if rng.random() < FAR_APART and shape[axis] <= 64 and span <= 1 << 12:
                gap = rng.choice((1 << 10, 4099)) * unit
            strides[axis] = -(-span // unit) * unit + gap
            span = strides[axis] * shape[axis]
    return strides


def place(values: Any, arg: Arg, rng: random.Random) -> Any:
    """A tensor with these values where the signature lets it lie, perhaps not at the start of its memory.

    Its rows may also share elements, of which the values are some.
    """
    shape = tuple(values.shape)
    strides = strides_of(arg, shape, rng)
    # An axis of one element is never walked along, so that its stride means nothing.
    strides = [rng.choice((s, s, 1, s + 8)) if e == 1 else s for s, e in zip(strides, shape, strict=True)]
    unit = max(arg.align // ITEM_BYTES[arg.dtype], 1)
    shared = _shared(arg, shape, strides, unit) if rng.random() < OVERLAPPING else []
    if shared:
        strides[rng.choice(shared)] = unit
    offset = rng.choice((0, 0, 0, 1, 2)) * unit
    size = offset + 1 + sum((e - 1) * s for e, s in zip(shape, strides, strict=True) if e)
    memory = torch.full((max(size, 1),), _garbage(values.dtype), dtype=torch.float32, device=values.device)
    if shared:
        given = values.reshape(-1)
        memory = given[torch.arange(memory.numel(), device=given.device) % given.numel()]
        return memory.as_strided(shape, strides, offset)
    held = memory.to(values.dtype).as_strided(shape, strides, offset)
    held.copy_(values)
    return held


def _shared(arg: Arg, shape: Sequence[int], strides: Sequence[int], unit: int) -> list[int]:
    """Return the axes with a free stride along which elements are shared where the stride is `unit`."""
    if isinstance(arg.layout, str) or arg.indices or arg.dtype in PACKED or 0 in shape:
        return []  # indices and packed numbers are what they are before they are placed
    axes: list[int] = []
    for axis, fixed in enumerate(arg.layout):
        inner = [(e - 1) * s for e, s in zip(shape, strides, strict=True) if s < strides[axis]]
        if fixed is None and shape[axis] > 1 and sum(inner) >= unit:
            axes.append(axis)
    return axes


def _garbage(dtype: Any) -> float:
    """What lies between rows and is never to be read: NaN, or a large integer."""
    return math.nan if dtype.is_floating_point else 100.0
