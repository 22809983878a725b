"""What errors of results tell: formats that operands were rounded to, and inputs that were not read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mucc.agent.audit.cases import Case
from mucc.agent.audit.detectors.unread_inputs import UnreadInputs
from mucc.agent.audit.findings import Label
from mucc.agent.audit.observations import Observations, Reference, Timing
from mucc.api.importer import Request

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import inputs, referee, rounding  # noqa: E402 (they need torch)
from mucc.agent.audit.spread import spread  # noqa: E402

ROUNDED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 96)

    def forward(self, x):
        return self.linear(x)

def get_inputs():
    return [torch.rand(64, 64)]

def get_init_inputs():
    return []
"""

Way = Callable[[Any], Any]


def digits(kept: int) -> Way:
    """Truncate to so many binary digits."""
    mask = ~((1 << 24 - kept) - 1)
    return lambda t: (t.view(torch.int32) & mask).view(torch.float32)


def two_terms(t: Any) -> Any:
    high = t.half().float()
    return high + (t - high).half().float()


def exact(t: Any) -> Any:
    return t


def shares(of_weights: Way, of_inputs: Way) -> dict[str, float]:
    """What part of the error of each format is in results of f32 whose operands were rounded before."""
    asked: Any = {"device": "cpu", "precision": "declared", "seed": 3, "draws_there": False}
    made = referee.Referee(asked | {"problem": Request.of("p.py", ROUNDED).to_json()})
    model = copy.deepcopy(made.model)
    assert rounding.round_weights(model, of_weights)
    stated: list[Any] = []
    for n, case in enumerate([Case("first", 1), Case("again", 2)]):
        (x,) = inputs.make_inputs(made.problem, case, made.device)
        with torch.no_grad():
            out = model(of_inputs(x))
        described = [{"dtype": "float32", "shape": [64, 96], "device": "cpu"}]
        made.judge(referee.Given(case, described, [out.reshape(-1)]))
        stated.append(made.judged[n])
    found = made._rounded(stated)  # pyright: ignore[reportPrivateUsage]
    assert all(abs(part["pytorch"]) < 0.25 for part in found.values())
    assert set(found) == {"tf32", "bf16", "bf16x2", "digits17"}
    return {name: part["candidate"] for name, part in found.items()}


@pytest.mark.parametrize("ways", [rounding.NEAREST, rounding.TRUNCATED], ids=["nearest", "truncated"])
@pytest.mark.parametrize("name", rounding.NEAREST)
def test_weights_that_were_rounded_are_told_from_others(ways: dict[str, Way], name: str):
    """A share of the error that rounding makes is in results, all of it for who rounds."""
    assert shares(ways[name], exact)[name] > 0.8


@pytest.mark.parametrize("way", [*(digits(n) for n in (14, 15, 16, 17)), rounding.NEAREST["bf16x2"]])
def test_inputs_that_were_rounded_are_told_from_others(way: Way):
    found = shares(exact, way)
    assert max(found["digits17"], found["bf16x2"]) > 0.5


@pytest.mark.parametrize("way", [exact, digits(21), two_terms], ids=["f32", "21 digits", "two terms of f16"])
def test_operands_that_keep_their_digits_are_none(way: Way):
    assert all(share < 0.25 for share in shares(way, way).values())


def answered(read: Callable[[Any], Any], count: int = 6) -> list[Any]:
    """Means of so many inputs, as who reads them in a certain way gives them."""
    draw = torch.Generator().manual_seed(5)
    made: list[Any] = []
    for n in range(count):
        x = torch.rand(4, 1 << 12, generator=draw)
        want = x.double().mean(1)
        parts = {"want": [want], "own": [x.mean(1)], "got": [read(x)]}
        made.append(SimpleNamespace(case=Case("again", n), **parts))
    return made


def half(x: Any) -> Any:
    return x[:, ::2].mean(1)


def most(x: Any) -> Any:
    return x[:, : 5 << 9].mean(1)


def constant(x: Any) -> Any:
    return torch.full((4,), 0.5)


@pytest.mark.parametrize("read", [half, most, constant])
def test_who_reads_a_part_of_the_inputs_is_as_far_off_as_inputs_differ(read: Callable[[Any], Any]):
    found = spread(answered(read))
    assert found["candidate"] > 0.3 and found["pytorch"] < 1e-4


def one_after_the_other(x: Any) -> Any:
    return x.cumsum(1)[:, -1] / x.shape[1]


def from_half(x: Any) -> Any:
    return x.half().float().mean(1)


def biased(x: Any) -> Any:
    return x.mean(1) + 1e-3


@pytest.mark.parametrize("read", [one_after_the_other, from_half, biased])
def test_who_reads_all_of_them_is_not(read: Callable[[Any], Any]):
    assert spread(answered(read))["candidate"] < 0.01


def test_few_inputs_tell_nothing():
    assert spread(answered(half, 3)) == {}


@pytest.mark.parametrize(
    ("found", "label"),
    [
        ({"candidate": 0.9, "pytorch": 1e-5}, Label.INCORRECT),
        ({"candidate": 0.1, "pytorch": 1e-5}, None),
        ({"candidate": 0.9, "pytorch": 0.2}, None),
        ({}, None),
    ],
)
def test_such_errors_reject_where_pytorch_has_none(found: dict[str, float], label: Label | None):
    seen = Observations("cpu", "declared", None, [], [], Timing(), Reference(spread=found), None, [], [])
    said = list(UnreadInputs().check(seen))
    assert [f.label for f in said] == ([label] if label else [])
    assert all(f.is_repeated for f in said)
