"""Whether verify can tell right from wrong: by PyTorch's own error, and at sizes that a network can bear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mucc.torch.importer.request import BEARABLE, Request

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.torch.importer import from_torch  # noqa: E402
from mucc.torch.importer.tolerance import meant, meant_in_float64  # noqa: E402
from mucc.torch.importer.verify import compare  # noqa: E402


class Doubling(torch.nn.Module):
    """The logistic map: each step doubles what the steps before have rounded."""

    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps

    def forward(self, x: Any) -> Any:
        for _ in range(self.steps):
            x = 4 * x * (1 - x)
        return x


def checked(module: Any, *inputs: Any) -> Any:
    """The first difference between a module and its import."""
    return from_torch(module, inputs, whole=True).verify(*inputs)[0]


@pytest.mark.parametrize("steps", [12, 40])
def test_a_chaotic_module_agrees_with_what_it_gives_in_float64(steps: int):
    module, x = Doubling(steps), torch.rand(64)
    assert (module(x) - module(x.double())).abs().max() > 1e-4
    assert checked(module, x).is_good


def test_beyond_what_is_bearable_nothing_is_excused():
    module, x = Doubling(40), torch.rand(64)
    found = meant(module(x * (1 - 1e-6)), module(x), module(x.double()))
    assert found.excess > 1 and found.noise > BEARABLE


@pytest.mark.parametrize("factor", [1.01, 0.0, -1.0, float("nan"), float("inf")])
def test_wrong_results_of_a_chaotic_module_differ(factor: float):
    module = Doubling(12)
    x = torch.rand(64)
    near, exact = module(x), module(x.double())
    assert meant(exact + (exact - near), near, exact).excess <= 1
    assert meant(near * factor + (0.2 if factor == 1.01 else 0), near, exact).excess > 1


def test_long_sums_are_judged_by_what_their_order_does():
    torch.manual_seed(0)
    x = torch.randn(1 << 20) * 1e3
    near, exact = x.cumsum(0)[-1], x.double().sum()
    assert meant(exact.float(), near, exact).excess <= 1
    assert meant(near + 1e3, near, exact).excess > 1


def test_small_results_are_judged_by_their_size():
    near = torch.rand(8) * 1e-6
    assert meant(near * (1 + 1e-5), near).excess <= 1
    assert meant(near * 2, near).excess > 1
    assert meant(torch.zeros(8), near).excess > 1


def test_numbers_that_stand_for_infinity_say_nothing_of_the_others():
    near = torch.tensor([torch.finfo(torch.float32).min, 1.0, 2.0])
    assert meant(near.clone(), near).excess <= 1
    assert meant(near * torch.tensor([1.0, 1.0, 1.5]), near).excess > 1


def test_infinities_and_nan_are_told_apart():
    near = torch.tensor([float("inf"), float("-inf"), float("nan"), 1.0])
    assert meant(near.clone(), near).excess == 0
    for place, other in ((0, float("nan")), (1, float("inf")), (2, 0.0), (3, float("nan"))):
        got = near.clone()
        got[place] = other
        assert meant(got, near).excess > 1


def test_where_rounding_decides_a_step_either_side_is_right():
    near, exact = torch.tensor([3.0, 7.0, 1.0]), torch.tensor([2.0, 7.0, 1.0], dtype=torch.float64)
    for got in (near, exact.float()):
        assert meant(got, near, exact).excess <= 1
    assert meant(torch.tensor([2.5, 7.0, 1.0]), near, exact).excess > 1
    places, others = torch.tensor([3, 5]), torch.tensor([3, 6])
    assert meant(others, places, others).excess <= 1
    assert meant(torch.tensor([2, 5]), places, others).excess > 1


def test_results_of_other_forms_differ():
    class Pair(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return {"y": torch.relu(x), "n": x.shape[0], "s": "text"}

    made = from_torch(Pair(), (x := torch.rand(3, 4),), whole=True)
    assert all(d.is_good for d in made.verify(x))
    for said, other in (('"n": 3', '"n": 4'), ("'text'", "'other'"), ('"y":', '"z":')):
        assert said in made.driver
        driver = made.driver.replace(said, other)
        assert not all(d.is_good for d in compare(made.program, driver, made.module, (x,), 0))


TWO_VALUES = """
import torch

batch_size = 64
count = 4096

class Model(torch.nn.Module):
    def forward(self, x):
        z = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
        k = (z ** 4).mean(1)
        return (k - k.mean()) / k.std()

def get_inputs():
    return [torch.rand(count, batch_size)]
"""


def test_nothing_is_scaled_below_what_it_can_bear(tmp_path: Path):
    from mucc.torch.importer.child import serve

    path = tmp_path / "p.py"
    path.write_text(TWO_VALUES)
    answer = serve(Request.of(str(path), TWO_VALUES, scale_down=True, verify=True, whole=True))
    assert answer.checked == ["float32[8, 8]"] and answer.agrees
    assert serve(Request.of(str(path), TWO_VALUES, scale_down=True, whole=True)).inputs == ["float32[8, 2]"]


def test_what_cannot_be_judged_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from mucc.cli.main import main

    path = tmp_path / "p.py"
    path.write_text(TWO_VALUES.replace("batch_size = 64", "batch_size = 1 + 1"))
    assert main(["import", str(path), "--verify", "--whole"]) == 1
    assert "rounding decides them, and right cannot be told from wrong" in capsys.readouterr().err


def test_an_overflow_of_f32_may_be_none_in_float64_but_one_of_halves_is_one():
    near, exact = torch.tensor([float("inf"), 1.0]), torch.tensor([3e38, 1.0], dtype=torch.float64)
    for got in (near, exact.float()):
        assert meant(got, near, exact).excess <= 1
    assert meant(torch.tensor([2e38, 1.0]), near, exact).excess > 1
    assert meant(exact.float(), near, exact, overflows=True).excess > 1


class Centred(torch.nn.Module):
    """Means of centred values, which are 0 but for rounding; with a `slope` other than 1 they are not."""

    def __init__(self, slope: float = 1.0):
        super().__init__()
        self.slope = slope

    def forward(self, x: Any) -> Any:
        return (x * self.slope - x.mean(1, keepdim=True)).mean(1)


def test_a_result_that_is_0_but_for_rounding_is_judged_in_float64():
    torch.manual_seed(0)
    x = torch.rand(3, 100)
    right = Centred()
    assert right(x).abs().max() > 1e3 * right(x.double()).abs().max()
    assert checked(right, x).is_good
    for slope in (1 + 1e-6, 1 - 1e-3, 2.0):
        wrong = from_torch(Centred(slope), (x,), whole=True)
        assert not compare(wrong.program, wrong.driver, right, (x,), 0)[0].is_good


def test_means_behind_a_normalisation_agree():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.BatchNorm2d(4), torch.nn.Conv2d(4, 6, 1, bias=False), torch.nn.BatchNorm2d(6)
    )
    x = torch.rand(3, 4, 5, 5)
    for whole in (True, False):
        found = {d.name: d for d in from_torch(module, (x,), whole=whole).verify(x)}
        assert "2.running_mean" in found and all(d.is_good for d in found.values()), found
    groups = torch.nn.GroupNorm(8, 8)
    assert checked(groups, torch.randn(3, 8)).is_good


def test_what_float64_does_not_shrink_is_no_rounding():
    exact, near = torch.full((4,), 1e-17).double(), torch.full((4,), 3e-9)
    assert meant_in_float64(exact * -3, exact, near, near * -2).excess <= 1
    assert meant_in_float64(exact + 1e-12, exact, near, near).excess > 1
    assert meant_in_float64(near.double(), exact, near, near).excess > 1
    assert meant_in_float64(exact + float("nan"), exact, near, near).excess > 1
    flat = torch.ones(4, dtype=torch.float64)
    assert meant_in_float64(flat + 1e-6, flat, near, near).excess <= 1
    assert meant_in_float64(flat * 1.01, flat, near, near).excess > 1
