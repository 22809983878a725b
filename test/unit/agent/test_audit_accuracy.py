"""What errors of results tell: formats that operands were rounded to, and inputs that were not read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mucc.agent.audit.cases import Case
from mucc.agent.audit.detectors.degenerate import Degenerate
from mucc.agent.audit.detectors.unread_inputs import UnreadInputs
from mucc.agent.audit.findings import Label, Severity
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


def test_operands_that_are_rounded_in_timed_calls_only_are_found():
    asked: Any = {"device": "cpu", "precision": "declared", "seed": 3, "draws_there": False}
    made = referee.Referee(asked | {"problem": Request.of("p.py", ROUNDED).to_json()})
    rough = copy.deepcopy(made.model)
    assert rounding.round_weights(rough, digits(16))
    cases = [Case("first", 1), Case("again", 2), *(Case(f"timed {n}", 3 + n, drift=1) for n in range(6))]
    for n, case in enumerate(cases):
        (x,) = inputs.make_inputs(made.problem, case, made.device)
        with torch.no_grad():
            out = (rough if n > 3 else made.model)(x)
        described = [{"dtype": "float32", "shape": [64, 96], "device": "cpu"}]
        made.judge(referee.Given(case, described, [out.reshape(-1)]))
    found = made._rounded(made.judged[:2])  # pyright: ignore[reportPrivateUsage]
    assert found["digits17"]["candidate"] > 0.5 and set(made.roughest) <= {f"timed {n}" for n in range(2, 6)}


TWO = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, chosen, scale):
        return x[chosen] * scale

def get_inputs():
    return [torch.rand(8), torch.arange(0, 8, 2), torch.tensor(2.0)]

def get_init_inputs():
    return []
"""


def test_inputs_that_are_always_the_same_are_named():
    asked: Any = {"device": "cpu", "precision": "declared", "seed": 3, "draws_there": False}
    made = referee.Referee(asked | {"problem": Request.of("p.py", TWO).to_json()})
    for n in range(2):
        gave = [{"dtype": "float32", "shape": [4], "device": "cpu"}]
        made.judge(referee.Given(Case(f"case {n}", n), gave, [torch.zeros(4)]))
    facts = made.facts(known=False)
    assert facts["fixed"] == [1]
    seen = Observations("cpu", "declared", None, [], [], Timing(), Reference(fixed=(1,)), None, [], [])
    (found,) = Degenerate().check(seen)
    assert found.severity == "note" and "input 1 is the same in all calls" in found.message


def drawn(case: Case, shape: tuple[int, ...] = (4, 1 << 12)) -> Any:
    return torch.rand(shape, generator=torch.Generator().manual_seed(5 + case.seed))


def mean(x: Any) -> Any:
    return x.mean(1)


def told(
    read: Way, model: Way = mean, make: Callable[[Case], Any] = drawn, count: int = 6
) -> dict[str, float]:
    """How results of so many inputs compare, as who reads these in a certain way gives them."""
    return spread(answers(read, 0, model, make, count), exactly(model, make))


def answers(
    read: Way, first: int, model: Way = mean, make: Callable[[Case], Any] = drawn, count: int = 6
) -> list[Any]:
    """Calls with so many inputs, from a seed on, as who reads these in a certain way answers them."""
    answered: list[Any] = []
    for case in (Case("again", first + n) for n in range(count)):
        x = make(case)
        parts = {"want": [model(x.double())], "own": [model(x)], "got": [read(x)]}
        answered.append(SimpleNamespace(case=case, inputs=[list(x.shape)], **parts))
    return answered


def exactly(model: Way, make: Callable[[Case], Any] = drawn) -> Callable[[Case, float], list[Any]]:
    """Exact results for inputs times a number."""
    return lambda case, by: [model(make(case).double() * by)]


def verdicts(found: dict[str, float]) -> list[Severity]:
    """What the detector says of that."""
    reference = Reference(spread=found)
    return [
        f.severity
        for f in UnreadInputs().check(
            Observations("cpu", "declared", None, [], [], Timing(), reference, None, [], [])
        )
    ]


def half(x: Any) -> Any:
    return x[:, ::2].mean(1)


def most(x: Any) -> Any:
    return x[:, : 5 << 9].mean(1)


def constant(x: Any) -> Any:
    return torch.full((4,), 0.5)


@pytest.mark.parametrize("read", [half, most, constant])
def test_who_reads_a_part_of_the_inputs_is_as_far_off_as_inputs_differ(read: Callable[[Any], Any]):
    found = told(read)
    assert found["candidate"] > 0.3 and found["pytorch"] < 1e-4 and found["rounding"] < 0.03
    assert verdicts(found) == [Severity.REJECT]


def one_after_the_other(x: Any) -> Any:
    return x.cumsum(1)[:, -1] / x.shape[1]


def from_half(x: Any) -> Any:
    return x.half().float().mean(1)


def biased(x: Any) -> Any:
    return x.mean(1) + 1e-3


@pytest.mark.parametrize("read", [one_after_the_other, from_half, biased])
def test_who_reads_all_of_them_is_not(read: Callable[[Any], Any]):
    assert told(read)["candidate"] < 0.01


def five_sixths(x: Any) -> Any:
    return x[:, : x.shape[1] * 5 // 6].mean(1)


def test_who_leaves_out_a_sixth_is_noticed():
    assert verdicts(told(five_sixths)) == [Severity.REJECT]


@pytest.mark.parametrize(("read", "found"), [(half, [Severity.REJECT]), (mean, []), (biased, [])])
def test_timed_calls_count_too(read: Way, found: list[Severity]):
    """Who reads all in calls that are looked at, and less in timed ones, is as far off in these."""
    untimed, timed = (answers(way, n) for way, n in ((mean, 0), (read, 100)))
    for n, one in enumerate(timed):  # which has no exact result, and inputs that were changed a little
        one.want, one.own = one.own, one.own
        one.got[0] *= 1.0 + n / 100
        one.want[0] *= 1.0 + n / 100
    assert verdicts(spread(untimed, exactly(mean), timed)) == found


def test_few_inputs_tell_nothing():
    assert told(half, count=3) == {}


@pytest.mark.parametrize(
    ("found", "label"),
    [
        ({"candidate": 0.9, "pytorch": 1e-5, "rounding": 0.01}, Label.INCORRECT),
        ({"candidate": 0.9, "pytorch": 1e-5, "rounding": 0.1}, Label.NO_ISSUES),
        ({"candidate": 0.9, "pytorch": 1e-5}, Label.NO_ISSUES),
        ({"candidate": 0.05, "pytorch": 1e-5}, None),
        ({}, None),
    ],
)
def test_such_errors_reject_where_pytorch_has_none(found: dict[str, float], label: Label | None):
    seen = Observations("cpu", "declared", None, [], [], Timing(), Reference(spread=found), None, [], [])
    said = list(UnreadInputs().check(seen))
    assert [f.label for f in said] == ([label] if label else [])
    assert all(f.is_repeated for f in said if f.label is Label.INCORRECT)


def one_by_one(x: Any) -> Any:
    """Sum numbers in their order in one variable of f32, as NumPy's accumulation does."""
    return torch.from_numpy(x.numpy().cumsum(axis=1)[:, -1].copy())


def total(x: Any) -> Any:
    return x.sum(1)


def long(case: Case) -> Any:
    """Numbers from 31 to 32, which most steps of a sum in f32 round to 32."""
    return drawn(case, (1, 2_000_000)) + 31.0


def coarse_exp(x: Any) -> Any:
    """Functions that are off by 3 of the last digits, in directions that seem random."""
    y = torch.sigmoid(x)
    return y + (x.view(torch.int32) % 7 - 3) * y * 2.0**-23


def far(case: Case) -> Any:
    return drawn(case) + 13.0


def winner(case: Case) -> Any:
    x = drawn(case)
    x[:, 0] += 14.0
    return x


def attention(x: Any) -> Any:
    """Causal attention of a head, whose later keys no query before them reads."""
    q = x[:, :4096].view(4, 256, 16)
    scores = (q @ q.mT) / 4
    mask = torch.ones(256, 256, dtype=torch.bool).tril()
    return (scores.masked_fill(~mask, -torch.inf).softmax(-1) @ q).flatten()


def in_pieces(x: Any) -> Any:
    return torch.stack([part.logsumexp(1) for part in x.chunk(7, 1)], 1).logsumexp(1)


def a_part(x: Any) -> Any:
    """Read the first rows alone: others are padding for the model itself."""
    return x[:2].mean(1)


def sparse(x: Any) -> Any:
    return (x * (torch.arange(x.shape[1]) % 97 == 0)).sum(1)


HONEST: dict[str, tuple[Way, Way, Callable[[Case], Any]]] = {
    "long sum": (one_by_one, total, long),
    "max": (lambda x: x.max(1).values, lambda x: x.amax(1), drawn),
    "argmax": (lambda x: x.max(1).indices, lambda x: x.argmax(1), drawn),
    "top numbers": (lambda x: x.sort(1).values[:, -3:], lambda x: x.topk(3).values.flip(1), drawn),
    "threshold": (lambda x: (x > 0.5).float(), lambda x: (x > 0.5).to(x.dtype), drawn),
    "clamp": (lambda x: x.clamp(0.2, 0.3), lambda x: x.clamp(0.2, 0.3), drawn),
    "relu of large negatives": (lambda x: (x - 9).relu(), lambda x: (x - 9).relu(), drawn),
    "saturated": (coarse_exp, torch.sigmoid, far),
    "one winner": (lambda x: x.exp() / x.exp().sum(1, True), lambda x: x.softmax(1), winner),
    "causal attention": (attention, attention, drawn),
    "pieces": (in_pieces, lambda x: x.logsumexp(1), drawn),
    "padding": (lambda x: x.narrow(0, 0, 2).sum(1) / x.shape[1], a_part, drawn),
    "sparse mask": (lambda x: x[:, ::97].cumsum(1)[:, -1], sparse, drawn),
    "gathered": (lambda x: x[:, [3, 1, 3]], lambda x: x[:, [3, 1, 3]], drawn),
    "a constant": (lambda x: torch.ones(4), lambda x: torch.ones(4, dtype=x.dtype), drawn),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_results_are_not_said_to_leave_out_inputs(name: str):
    read, model, make = HONEST[name]
    assert Severity.REJECT not in verdicts(told(read, model, make))


def test_functions_that_are_off_by_last_digits_have_read_all():
    found = told(coarse_exp, torch.sigmoid, far)
    assert found["candidate"] > 0.3 and found["rounding"] > 0.03


def test_half_of_a_sum_that_rounding_could_hide_is_noted():
    found = told(one_by_one, total, long)
    assert found["candidate"] > 0.3, "who reads all is as far off"
    found = told(lambda x: 2 * x[:, ::2].sum(1), total, long)
    assert found["candidate"] > 0.3 and found["rounding"] > 1
    assert verdicts(found) == [Severity.NOTE]


def test_results_that_tell_less_do_not_hide_others():
    """Of two results PyTorch has one to a few digits only, which says nothing of the other."""
    answered: list[Any] = []
    for case in (Case("again", n) for n in range(6)):
        x = drawn(case)
        want, rough = x.double().mean(1), x.mean(1) + torch.rand(4) * 0.1
        parts = {"want": [want, want], "own": [rough, x.mean(1)], "got": [rough, half(x)]}
        answered.append(SimpleNamespace(case=case, inputs=[list(x.shape)], **parts))
    found = spread(answered, lambda case, by: [drawn(case).double().mean(1) * by] * 2)
    assert verdicts(found) == [Severity.REJECT]


NUMBER = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum().item(), x.shape[0]

def get_inputs():
    return [torch.rand(1000)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("by", "count", "right"), [(1 + 1e-6, 1000, True), (1.01, 1000, False), (1.0, 999, False)]
)
def test_numbers_that_are_no_tensors_may_be_rounded(by: float, count: int, right: bool):
    asked: Any = {"device": "cpu", "precision": "declared", "seed": 3, "draws_there": False}
    made = referee.Referee(asked | {"problem": Request.of("p.py", NUMBER).to_json()})
    case = Case("first", 1)
    (x,) = inputs.make_inputs(made.problem, case, made.device)
    said = made.judge(referee.Given(case, [{"value": x.sum().item() * by}, {"value": count}], [None, None]))
    assert said["correct"] is right
