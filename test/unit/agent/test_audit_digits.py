"""Operands that were rounded, whole or in part, show in what results are off and in how they move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import absent, digits  # noqa: E402 (they need torch)
from mucc.agent.audit.cases import Case  # noqa: E402
from mucc.agent.audit.detectors.precision import FOLLOWS, Precision  # noqa: E402
from mucc.agent.audit.observations import Observations, Reference, Timing  # noqa: E402

PAIR = Case("tf32 drawn", 1, probe="tf32 drawn"), Case("tf32 redrawn", 1, probe="tf32 redrawn")


@dataclass
class Answered:
    case: Case
    got: list[Any]
    want: list[Any]
    own: list[Any]


Way = Callable[[Any, Any], Any]


def tf32(t: Any) -> Any:
    return ((t.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def all_of_it(x: Any, w: Any) -> Any:
    return tf32(x) @ w


def in_f32(x: Any, w: Any) -> Any:
    return x @ w


def in_part(x: Any, w: Any) -> Any:
    cut = x.shape[1] // 2
    return tf32(x[:, :cut].contiguous()) @ w[:cut] + x[:, cut:] @ w[cut:]


def with_noise(x: Any, w: Any) -> Any:
    generator = torch.Generator().manual_seed(int(x.view(torch.int32).sum()) & 0xFFFFFFFF)
    y = tf32(x) @ w
    return y * (1 + 2e-5 * torch.randn(y.shape, generator=generator))


def one_by_one(x: Any, w: Any) -> Any:
    total = torch.zeros(x.shape[0], w.shape[1])
    for k in range(x.shape[1]):
        total += x[:, k : k + 1] * w[k]
    return total


def in_odd_steps(x: Any, w: Any) -> Any:
    """Sixteen bits whose steps are no powers of two: what is lost follows no digit."""
    of_x, of_w = (t.abs().max() / 32767 for t in (x, w))
    return (x / of_x).round() * of_x @ ((w / of_w).round() * of_w)


def by_inner_products(x: Any, w: Any) -> Any:
    """Winograd's, whose sums are larger than what is left of them."""
    left = (x[:, None, ::2] + w.T[None, :, 1::2]) * (x[:, None, 1::2] + w.T[None, :, ::2])
    of_rows, of_columns = (x[:, ::2] * x[:, 1::2]).sum(1), (w[::2] * w[1::2]).sum(0)
    return left.sum(2) - of_rows[:, None] - of_columns


def answers(way: Way, around: float = 0.0) -> list[Answered]:
    torch.manual_seed(0)
    w = (torch.rand(96, 32) - around) / 8
    found: list[Answered] = []
    x = torch.rand(16, 96)
    low = torch.randint(0, 1 << 12, x.shape, dtype=torch.int32)
    for case, own in zip(PAIR, (x, ((x.view(torch.int32) & ~0xFFF) | low).view(torch.float32)), strict=True):
        results = way(own, w), own.double() @ w.double(), own @ w
        found.append(Answered(case, *([r.reshape(-1)] for r in results)))
    return found


def finds(way: Way, around: float = 0.0) -> bool:
    reference = Reference(probes=digits.probes(answers(way, around)))
    seen = Observations("cpu", "declared", None, [], [], Timing(), reference, None, [], [])
    return any(True for _ in Precision().check(seen))


@pytest.mark.parametrize("way", [all_of_it, in_part, with_noise])
def test_who_rounds_operands_does_not_follow_their_digits(way: Way):
    assert digits.follows(*answers(way)) < FOLLOWS
    assert finds(way)


@pytest.mark.parametrize("way", [in_f32, one_by_one])
def test_who_uses_all_digits_does(way: Way):
    assert digits.follows(*answers(way)) > 0.95
    assert not finds(way)


def test_who_rounds_operands_to_odd_steps_scatters():
    assert finds(in_odd_steps, 0.5)
    assert not any(finds(way, 0.5) for way in (in_f32, one_by_one, by_inner_products))


def test_few_elements_tell_nothing():
    few = [replace(a, got=[a.got[0][:9]], want=[a.want[0][:9]], own=[a.own[0][:9]]) for a in answers(in_part)]
    assert digits.follows(*few) == float("inf")


def test_small_elements_that_are_not_computed_are_absent():
    torch.manual_seed(0)
    exact = torch.exp(4 * torch.randn(4096, dtype=torch.float64))
    near = exact.float()
    skipped = torch.where(near < 1e-4 * near.square().mean().sqrt(), 0.0, near)
    assert absent.absent_share(skipped, exact, near) > 0.2
    assert absent.absent_share(near * (1 + 1e-5), exact, near) == 0


def test_sums_that_are_zero_by_chance_are_not_absent():
    torch.manual_seed(0)
    exact = torch.randn(1 << 16, dtype=torch.float64)
    near = exact.float()
    off = near + 5e-5 * torch.randn(near.shape)
    assert absent.absent_share(off, exact, near) < 0.001


def test_zeros_are_not_absent():
    zero = torch.zeros(64, dtype=torch.float64)
    assert absent.absent_share(zero.float(), zero, zero.float()) == 0
