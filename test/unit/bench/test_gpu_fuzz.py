"""The random programs of `make fuzz-gpu`, as far as no GPU is needed: references, judge, workers, reducer."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")  # which what follows imports

from trials import trial  # noqa: E402

from bench.gpu_fuzz.__main__ import Run, options, summary  # noqa: E402
from bench.gpu_fuzz.choices import Choices  # noqa: E402
from bench.gpu_fuzz.drafts import Env, Expr, Param  # noqa: E402
from bench.gpu_fuzz.forms import FORMS  # noqa: E402
from bench.gpu_fuzz.inputs import draw, draw_dims, place  # noqa: E402
from bench.gpu_fuzz.judge import judge  # noqa: E402
from bench.gpu_fuzz.pointwise import FUNCTIONS, unary  # noqa: E402
from bench.gpu_fuzz.programs import generate  # noqa: E402
from bench.gpu_fuzz.reducing import reduce  # noqa: E402
from bench.gpu_fuzz.reference import Bounded, apply, exact, product, rounded, uniform, unknown  # noqa: E402
from bench.gpu_fuzz.reference import reduce as reduce_bounded  # noqa: E402
from bench.gpu_fuzz.trying import Outcome, attempt  # noqa: E402
from bench.gpu_fuzz.workers import Task, Worker  # noqa: E402
from mucc.compiler.driver import compile_text  # noqa: E402
from mucc.diagnostics.core import Source  # noqa: E402
from mucc.library.signature import Arg, Manifest  # noqa: E402

SHARE = 3
"""Programs of each group that are interpreted in every run."""


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_kernels_on_the_host_agree_with_the_reference() -> None:
    outcome = attempt(Choices("host:52"), "host", 2)
    assert (outcome.kind, outcome.runs) == ("good", 2), f"{outcome.detail} {outcome.dims}\n{outcome.text}"


@pytest.mark.parametrize("group", range(8))
def test_interpreters_agree_with_the_reference(group: int) -> None:
    for number in range(SHARE):
        outcome = attempt(Choices(f"test:{SHARE * group + number}"), "interpret", 1)
        assert not outcome.is_finding, f"{outcome.kind} {outcome.detail} {outcome.dims}\n{outcome.text}"


def test_permuted_operands_of_several_dtypes_agree_with_the_reference() -> None:
    drawn = (Choices(f"orders:{n}") for n in range(1000))
    some = [p for c in drawn if (p := generate(c)).form == "orders"][:SHARE]
    assert all("permute(" in p.text for p in some)
    for program in some:
        outcome = attempt(Choices(given=program.choices), "interpret", 1)
        assert outcome.kind in ("good", "refused"), f"{outcome.kind} {outcome.detail}\n{outcome.text}"


def test_mixtures_agree_with_the_reference() -> None:
    drawn = [c for n in range(1000) if generate(c := Choices(f"mixtures:{n}")).form == "mixtures"]
    for choices in drawn[:SHARE]:
        outcome = attempt(Choices(given=choices.made), "interpret", 1)
        assert not outcome.is_finding, f"{outcome.kind} {outcome.detail} {outcome.dims}\n{outcome.text}"


def test_mixtures_have_operations_along_any_axes_of_shared_values() -> None:
    drawn = (generate(Choices(f"all:{n}")) for n in range(1500))
    texts = [p.text for p in drawn if p.form == "mixtures"]
    for part in (
        "argsort(",
        "take_along(",
        "dropout(",
        "floor_divide(",
        "prod(",
        "::-",
        "None",
        "stage ",
        " @ ",
    ):
        assert any(part in text for text in texts), part


def test_random_numbers_of_the_reference_are_those_of_philox() -> None:
    seed, stream, shape = 12345, 7, (3, 5)
    numbers = f"random((3, 5), {seed}, stream={stream})"
    text = f"kernel f(x: f32[]) -> f32[3, 5] {{\n    return {numbers} + 0 * x\n}}\n"
    (found,) = compile_text(Source("f.mcu", text)).interpret("f", [torch.zeros(())])
    assert torch.equal(torch.as_tensor(found).double(), uniform(shape, seed, stream))


def test_choices_make_a_program_again() -> None:
    forms: set[str] = set()
    for seed in range(200):
        program = generate(Choices(f"again:{seed}"))
        forms.add(program.form)
        again = generate(Choices(given=program.choices))
        assert (again.text, again.target, again.hints) == (program.text, program.target, program.hints)
    assert forms == set(FORMS)


def test_programs_of_all_forms_are_drawn_by_default(tmp_path: Path) -> None:
    run = Run(options().parse_args([]), tmp_path / "lines.jsonl")
    tasks = [run.task() for _ in range(40)]
    assert len({generate(task.choices).form for task in tasks if task}) > 10


def test_programs_of_some_forms_alone_are_drawn(tmp_path: Path) -> None:
    run = Run(options().parse_args(["--forms", "norms|pools", "--programs", "5"]), tmp_path / "lines.jsonl")
    tasks = [run.task() for _ in range(5)]
    assert {generate(task.choices).form for task in tasks if task} <= {"norms", "pools"}
    assert len({task.seed for task in tasks if task}) == 5


@pytest.mark.parametrize(("forms", "said"), [("(", "unterminated"), ("nothing", "there are product, ")])
def test_a_pattern_has_to_match_a_form(capsys: pytest.CaptureFixture[str], forms: str, said: str) -> None:
    with pytest.raises(SystemExit):
        options().parse_args(["--forms", forms])
    assert said in capsys.readouterr().err


def test_norms_get_inputs_with_offsets_and_special_values() -> None:
    program = next(p for n in range(200) if (p := generate(Choices(f"shift:{n}"))).form == "norms")
    info = Manifest.parse(compile_text(Source("f.mcu", program.text)).manifest).kernels[0]
    largest, special, calls = 0.0, 0, 40
    for seed in range(calls):
        rng = random.Random(seed)
        dims = draw_dims(program, info, rng)
        assert dims is not None
        _, values = draw(program, info, dims, rng, "cpu")
        largest = max(largest, *(float(v.value.nan_to_num(0, 0, 0).abs().max()) for v in values.values()))
        special += any(not bool(v.value.isfinite().all()) for v in values.values())
    assert any(a.dtype == "f32" for a in info.inputs) == (largest > 5000)
    assert 0 < special < calls


def test_the_simplest_program_compiles() -> None:
    outcome = attempt(Choices(given=[]), "interpret", 1)
    assert outcome.kind == "good" and outcome.form == "product"


CHANGES = {
    "shifted": lambda out: torch.roll(out, 1, -1),
    "scaled": lambda out: out * 1.02,
    "zero row": lambda out: torch.cat((out[:-1], 0 * out[-1:])),
    "not finite": lambda out: torch.where(torch.arange(out.numel()).view_as(out) == 3, torch.nan, out),
    "turned": lambda out: out.flip(0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_the_judge_finds_changes(dtype: str, change: str) -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(n, generator=generator, dtype=torch.float64) for n in ((64, 200), (200, 48)))
    a, b = (rounded(exact(x), dtype) for x in (a, b / 200**0.5))
    wanted = product(exact(a.value), exact(b.value), "tf32" if dtype == "f32" else "16")
    right = rounded(wanted, dtype).value
    assert judge("y", dtype, right, wanted) is None
    assert judge("y", dtype, CHANGES[change](right), wanted) is not None


def test_the_judge_finds_a_lost_element_of_a_sum() -> None:
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(n, generator=generator, dtype=torch.float64) for n in ((8, 4096), (4096, 8)))
    a, b = rounded(exact(a), "bf16").value, rounded(exact(b / 64), "bf16").value
    wanted = product(exact(a), exact(b), "16")
    assert judge("y", "f32", a @ b, wanted) is None
    assert judge("y", "f32", a[:, :-1] @ b[:-1], wanted) is not None


def test_an_argument_that_is_computed_may_be_beyond_a_jump() -> None:
    function = next(f for f in FUNCTIONS if "trunc" in f.text)
    x = Expr("x", "f32", (1,), lambda env: exact(torch.tensor([13703 / 1.37])))
    found = unary(x, function).value(Env({}, {}))
    assert judge("y", "f32", torch.tensor([13702.0]), found) is None
    assert judge("y", "f32", torch.tensor([13703.0]), found) is None
    assert judge("y", "f32", torch.tensor([13700.0]), found) is not None


def test_infinity_times_what_may_be_0_can_be_anything() -> None:
    deviation = Bounded(torch.zeros(4, dtype=torch.float64), torch.tensor([1e-8, 0.0, 1e-8, 0.0]).double())
    scale = exact(torch.tensor([torch.inf, torch.inf, torch.nan, 1.0]))
    scaled = apply(torch.abs, apply(torch.add, apply(torch.mul, deviation, scale), exact(torch.ones(4))))
    nan = torch.nan
    for got, good in (
        ([torch.inf, nan, nan, 1.0], True),
        ([3.0, nan, nan, 1.0], True),
        ([nan, torch.inf, nan, 1.0], False),
        ([nan, nan, torch.inf, 1.0], False),
        ([nan, nan, nan, 2.0], False),
    ):
        for found in (scaled, rounded(scaled, "f16")):
            assert (judge("y", "f16", torch.tensor(got), found) is None) is good
    for total in (reduce_bounded("sum", scaled, (0,)), reduce_bounded("max", scaled, (0,))):
        assert not unknown(total)
    assert unknown(reduce_bounded("sum", Bounded(*(part[[0, 3]] for part in scaled)), (0,)))


def test_the_judge_lets_ties_of_integers_go_either_way() -> None:
    value = torch.tensor([2.5, 2.5, 300.0, float("nan"), 7.0], dtype=torch.float64)
    unsure = Bounded(value, torch.full_like(value, 1e-6))
    assert judge("y", "s8", torch.tensor([2, 3, 127, 0, 7]), unsure) is None
    assert judge("y", "s8", torch.tensor([2, 3, 127, 0, 6]), unsure) is not None
    assert judge("y", "s32", torch.tensor([7]), exact(torch.tensor([8]))) is not None


def test_tensors_lie_where_the_signature_allows() -> None:
    rng = random.Random(3)
    arg = Arg("x", "input", "bf16", ("M", "K"), (None, 1), 16)
    values = torch.arange(21, dtype=torch.bfloat16).reshape(7, 3)
    seen: set[tuple[int, ...]] = set()
    for _ in range(40):
        held = place(values, arg, rng)
        assert torch.equal(held, values)
        assert held.stride(1) == 1 and held.stride(0) % 8 == 0 and held.storage_offset() % 8 == 0
        seen.add((held.stride(0), held.storage_offset()))
    assert len(seen) > 4


def test_rows_may_share_elements_where_the_signature_allows() -> None:
    rng = random.Random(1)
    arg = Arg("x", "input", "bf16", ("M", "K"), (None, 1), 16)
    values = torch.arange(140, dtype=torch.bfloat16).reshape(7, 20)
    placed = [place(values, arg, rng) for _ in range(60)]
    shared = [held for held in placed if not torch.equal(held, values)]
    assert 0 < len(shared) < 20
    assert all(h.stride() == (8, 1) and torch.equal(h[1:, 0], h[:-1, 8]) for h in shared)


def test_an_argument_may_be_another_one_too() -> None:
    text = "kernel f[M](x: f32[M], y: f32[M], i: s32[M]) -> f32[M] {\n    return x - y * cast(i, f32)\n}\n"
    info = Manifest.parse(compile_text(Source("f.mcu", text)).manifest).kernels[0]
    params = (Param("x", "", "f32"), Param("y", "", "f32"), Param("i", "", "s32", "integer"))
    program = replace(generate(Choices(given=[])), params=params)
    calls = [draw(program, info, {"M": 5}, random.Random(seed), "cpu")[0] for seed in range(60)]
    assert 0 < sum(x is y for x, y, _ in calls) < 20
    assert not any(i is x or i is y for x, y, i in calls)


def test_dims_keep_promises() -> None:
    text = "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N] where M % 3 == 0, N >= 100 {\n    return relu(x)\n}\n"
    info = Manifest.parse(compile_text(Source("f.mcu", text)).manifest).kernels[0]
    program = generate(Choices(given=[]))
    for seed in range(20):
        dims = draw_dims(program, info, random.Random(seed))
        assert dims is not None and dims["M"] % 3 == 0 and dims["N"] >= 100


def test_the_reference_is_computed_once() -> None:
    program = generate(Choices("once:5"))
    info = Manifest.parse(compile_text(Source("f.mcu", program.text)).manifest).kernels[0]
    dims = draw_dims(program, info, random.Random(1))
    assert dims is not None
    _, values = draw(program, info, dims, random.Random(1), "cpu")
    env = Env(dims, values)
    assert program.outputs[0].expr.value(env) is program.outputs[0].expr.value(env)


# Workers


def test_a_worker_survives_crashes() -> None:
    worker = Worker(trial)
    try:
        assert worker.attempt(Task(seed="a")).text == "a"
        crashed = worker.attempt(Task(seed="crash"))
        assert crashed.kind == "crashed" and "status -6" in crashed.detail and crashed.text
        assert worker.attempt(Task(seed="b")).kind == "good"
    finally:
        worker.close()


# Shrinking


def test_reducing_keeps_what_fails() -> None:
    def outcome(choices: Sequence[int]) -> Outcome:
        program = generate(Choices(given=choices))
        kind = "wrong" if "gelu" in program.text else "good"
        return Outcome(kind, program.text, choices=program.choices)

    failing = next(
        o for n in range(500) if (o := outcome(generate(Choices(f"r:{n}")).choices)).kind == "wrong"
    )
    found = reduce(failing, lambda lists: [outcome(one) for one in lists], 8, float("inf"))
    assert found.kind == "wrong" and len(found.text) < len(failing.text)
    assert found.text.count("\n") <= 4


def test_the_summary_counts_by_figure() -> None:
    kinds = ("good", "good", "refused", "rejected", "wrong", "crashed", "false_alarm", "lowered")
    found = summary({"kind": kind, "runs": 2} for kind in kinds)
    assert found["gpu_fuzz.programs"] == 7 and found["gpu_fuzz.runs"] == 16
    assert found["gpu_fuzz.wrong"] == 2 and found["gpu_fuzz.nvcc_rejected"] == 1
    assert found["gpu_fuzz.false_alarms"] == 1 and found["gpu_fuzz.interpreters_wrong"] == 1
