"""Inputs of a case, made alike in the candidate's process and in the reference's. Imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mucc.agent.audit.cases import Case

if TYPE_CHECKING:
    from mucc.api.importer import OpenedProblem

torch: Any = importlib.import_module("torch")

PROBES = {"tf32": 13, "bf16": 16}
"""Trailing bits of an f32 that a format leaves out."""

OTHER = 0x2545F491
"""What the seed of digits differs by from that of the inputs, which the same numbers would make."""

COARSE = 0.5
"""The share of numbers that have digits to draw again, below which digits are added."""

WHOLE = 1 << 22
"""Elements of a result that are compared one and all; of larger ones as many are drawn."""

EDGE = 1 << 14
"""Elements at either end of a large result that are always compared."""


DRIFT = 1 + 2.0**-6
"""What floating-point inputs are multiplied by between timed calls: bf16 shows it too."""


def leaves(values: Any) -> list[Any]:
    """Return the tensors and other values of nested arguments or results, in order."""
    return list(torch.utils._pytree.tree_leaves(values))


def tensors(values: Any) -> list[Any]:
    """Return the tensors of nested arguments or results, in order."""
    return [v for v in leaves(values) if isinstance(v, torch.Tensor)]


_seed_host: Callable[[int], object] = torch.default_generator.manual_seed


def seed(number: int, device: Any) -> None:
    """Seed what is drawn on a device. Of the host no function is called that a solution could replace, and
    devices that are not used are left alone, which `torch.manual_seed` takes long to note."""
    if device.type == "cpu":
        _seed_host(number)
    else:
        torch.manual_seed(number)


def make_inputs(problem: OpenedProblem, case: Case, device: Any) -> tuple[Any, ...]:
    """Make the arguments of a call: `get_inputs()` for a seed, scaled, and probed. Raises MU7012."""
    seed(case.seed, device)
    with torch.device(device):
        made = problem.inputs()

    def prepared(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().to(device)
        if value.is_floating_point() and case.scale != 1:
            value = value * case.scale
        value = value.clone() if case.drifts else value
        for _ in range(case.drifts):
            drift(value)
        return probed(value, case) if case.probe and value.dtype == torch.float32 else value

    return torch.utils._pytree.tree_map(prepared, made)


def drift(value: Any) -> None:
    """Change a tensor of floating-point numbers a little, in place."""
    if value.is_floating_point():
        value.mul_(DRIFT)


def probed(value: Any, case: Case) -> Any:
    """Return values as they were drawn, or with other low digits, which a narrower format drops.

    Arithmetic that rounds its operands to that format cannot tell the two apart, whichever way it rounds: the
    first of the digits that it drops stays. Neither shows that it is a probe: numbers that were multiples of
    a power of two are so again. Where that leaves few digits to draw, a quarter of the last digit that the
    format keeps is added to half of the numbers.
    """
    name, _, kind = case.probe.partition(" ")
    if kind != "redrawn":
        return value
    bits = value.contiguous().view(torch.int32)
    low = 1 << (PROBES[name] - 1)
    generator = torch.Generator(value.device).manual_seed(case.seed ^ OTHER)
    drawn = torch.randint(0, low, bits.shape, generator=generator, device=value.device, dtype=torch.int32)
    steps = bits.neg()
    steps &= bits
    fine = int(((steps > 0) & (steps < low // 4)).sum())
    if fine > COARSE * int(steps.count_nonzero()):
        drawn &= steps.neg_()
        kept = bits & ~(low - 1)
    else:
        drawn &= low >> 1
        kept = bits.clone()
    kept |= drawn
    return torch.where((value == 0) | ~torch.isfinite(value), value, kept.view(torch.float32))


def sampled(flat: Any, sample: int, most: int = WHOLE) -> Any:
    """Return the elements of a flat tensor that are compared: all, or both ends and random ones between, at
    `most` so many."""
    if flat.numel() <= most:
        return flat
    generator = torch.Generator().manual_seed(sample)  # on any device the same places
    drawn = torch.randint(0, flat.numel(), (most - 2 * EDGE,), generator=generator).to(flat.device)
    return torch.cat((flat[:EDGE], flat[drawn], flat[-EDGE:]))
