"""Work that is hidden from the profiler shows where threads are when they are stopped."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from mucc.agent.audit import places
from mucc.agent.audit.cases import SURELY_WATCHED, WARM, Case, watched_ones
from mucc.agent.audit.detectors.hidden_work import HiddenWork
from mucc.agent.audit.detectors.other_processes import OtherProcesses
from mucc.agent.audit.findings import Finding, Label
from mucc.agent.audit.hidden import MULTIPLYING, RISK, chance, permitted
from mucc.agent.audit.observations import Call, Comparison, Observations, Reference, Timing, Work
from mucc.agent.audit.places import Look, computing
from mucc.agent.audit.shares import compute_ops, kinds, pytorchs_share
from mucc.api.processes import Place

COPY = b"bytes of a product"

TORCH = "/site-packages/torch/lib/libtorch_cpu.so"

NAMES = {
    0x10: "mkl_blas_avx512_sgemm_kernel_0",
    0x20: "_ZN2at6native4AVX218direct_copy_kernelERNS_18TensorIteratorBaseE",
    0x30: "_ZN2at6native6AVX51212_GLOBAL__N_110exp_kernelERNS_18TensorIteratorBaseE",
    0x40: "_ZN2at4_ops5empty4callEv",
}


@pytest.fixture(autouse=True)
def symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named:
        def name(self, offset: int) -> str:
            return NAMES.get(offset // 16 * 16, "")

        def find(self, code: bytes) -> int | None:
            return 0x12 if code == COPY else None

    def named(path: str) -> Named:
        assert path == TORCH
        return Named()

    monkeypatch.setattr(places, "_symbols", named)


LIBC, OWN, GOMP, MADE = (
    Place("/lib/libc.so.6", 5),
    Place("/tmp/own.so", 5),
    Place("/x/libgomp.so.1", 5),
    Place("", 0),
)


@pytest.mark.parametrize(
    ("thread", "found"),
    [
        ([Place(TORCH, 0x12)], NAMES[0x10]),
        ([LIBC, GOMP, Place(TORCH, 0x12)], NAMES[0x10]),
        ([MADE, Place(TORCH, 0x10 + 1)], NAMES[0x10]),
        ([LIBC, Place(TORCH, 0x20)], NAMES[0x10]),  # a return address lies behind the call
        ([Place(TORCH, 0x31)], NAMES[0x30]),
        ([Place(TORCH, 0x21)], ""),
        ([Place(TORCH, 0x41)], ""),
        ([OWN, Place(TORCH, 0x12)], ""),
        ([MADE, OWN, Place(TORCH, 0x12)], ""),
        ([GOMP, LIBC], ""),
        ([], ""),
    ],
)
def test_code_belongs_to_who_calls_it(thread: list[Place], found: str):
    assert computing([thread]) == ((found,) if found else ())


@pytest.mark.parametrize(("code", "found"), [(COPY, (NAMES[0x10],)), (b"other bytes", ())])
def test_a_copy_of_pytorchs_code_is_pytorchs(code: bytes, found: tuple[str, ...]):
    copy = [Place("", 0, code), OWN]
    assert computing([copy], [TORCH]) == found and computing([copy]) == ()


def seen(
    looks: int, some: int, told: list[tuple[str, float]], hidden: int = 0, function: str = NAMES[0x10]
) -> Observations:
    """What an audit saw: so many looks, of which some at a function, and the shares of observed calls that
    operations take."""
    found = [Look(f"timed {n}", (function,) if n < some else ()) for n in range(looks)]
    found += [Look(f"timed {looks + n}", hidden=True) for n in range(hidden)]
    work = tuple(Work("op", name, "", 0, 1, share * 1e6) for name, share in told)
    call = Call(Case("again", 1, observe=True), Comparison(True), work=work, seconds=1.0)
    return Observations(
        "cpu", "declared", None, [call] * 3, [], Timing(), Reference(), None, [], [], (), found
    )


def check(*args: Any, **more: Any) -> list[Finding]:
    return list(HiddenWork().check(seen(*args, **more)))


def test_products_that_nobody_told_of_are_pytorchs_work():
    (found,) = check(16, 9, [])
    assert found.severity == "reject" and found.label is Label.PYTORCH_ONLY and found.is_repeated
    assert "9 of 16 looks" in found.message and "sgemm" in found.message


def test_one_look_is_no_evidence():
    assert check(16, 1, []) == [] and check(0, 0, []) == []


def test_few_looks_that_all_see_it_leave_it_open():
    (found,) = check(4, 3, [], function=NAMES[0x30])
    assert found.severity == "unsure" and "exp_kernel" in found.message


@pytest.mark.parametrize("told", [[("aten::addmm", 0.8)], [("aten::linalg_svd", 0.9)]])
def test_products_that_were_told_of_are_no_surprise(told: list[tuple[str, float]]):
    assert check(16, 16, told) == []


@pytest.mark.parametrize("told", [[("aten::exp", 0.5)], [("aten::copy_", 0.9)], [("aten::addmm", 0.02)]])
def test_other_operations_do_not_explain_products(told: list[tuple[str, float]]):
    (found,) = check(16, 15, told)
    assert found.severity == "reject"


@pytest.mark.parametrize(
    ("kernels", "verdicts"),
    [
        ([("own_kernel", "")], ["reject"]),
        ([("own_kernel", ""), ("Memcpy DtoD", ""), ("vectorized", "aten::add")], ["reject"]),
        ([("own_kernel", ""), ("nvjet_tst_64x8", "")], []),
        ([("own_kernel", ""), ("gemmSN_TN_kernel", "aten::addmm")], []),
    ],
)
def test_on_a_gpu_libraries_start_only_products_that_are_told(
    kernels: list[tuple[str, str]], verdicts: list[str]
):
    cublas = Place("/nvidia/cublas/lib/libcublasLt.so.12", 5)
    driver, torchs = Place("/usr/lib/libcuda.so.1", 5), Place("/torch/lib/libtorch_cuda.so", 5)
    (function,) = computing([[driver, cublas, torchs]])
    assert function == "libcublasLt.so.12"
    work = tuple(Work("kernel", name, parent, 7, 1, 5.0) for name, parent in kernels)
    call = Call(Case("again", 1, observe=True), Comparison(True), work=work, seconds=1.0)
    found = dataclasses.replace(seen(16, 9, [], function=function), device="cuda", calls=[call])
    assert [f.severity for f in HiddenWork().check(found)] == verdicts


def on_a_gpu(
    operations: dict[str, frozenset[str]],
    us: float = 5.0,
    timed_ms: float = 0.005,
    amid: int = 3,
    crowded: str = "",
    slow: int = 0,
) -> list[Finding]:
    work = (
        Work("kernel", "own", "", 7, 1, us),
        Work("kernel", "other stream", "", 9, 1, us),
        Work("op", "aten::add", "", 0, 1, 2.0),
    )
    calls = [
        Call(Case(f"amid {n}", 1, observe=True), Comparison(True), work=work, seconds=1.0)
        for n in range(amid)
    ]
    times = [timed_ms] * (30 - slow) + [timed_ms + 2.0] * slow
    timing = Timing(tuple(times), crowded=crowded)
    saw = dataclasses.replace(
        seen(0, 0, []), device="cuda", calls=calls, timing=timing, operations=operations
    )
    return list(HiddenWork().check(saw))


def test_operations_of_most_timed_calls_are_told_of_others_too():
    names = [frozenset({"aten::addmm", "aten::empty", "aten::add_", "own::mm"})] * 16
    quiet = [frozenset({"aten::add"})] * 14
    (found,) = on_a_gpu({f"timed {n}": told for n, told in enumerate([*names, *quiet])})
    assert found.severity == "reject" and found.is_repeated and "'products' in 16 of 30" in found.message
    assert on_a_gpu({f"timed {n}": told for n, told in enumerate([*names[1:], *quiet, *quiet[:1]])}) == []
    assert on_a_gpu({}) == []


@pytest.mark.parametrize(
    ("us", "timed_ms", "amid", "verdicts"),
    [
        (60.0, 0.020, 3, ["reject"]),
        (50.0, 0.020, 3, []),
        (20.0, 0.005, 3, []),
        (60.0, 0.020, 1, []),
        (900.0, 0.900, 3, []),
    ],
)
def test_kernels_of_observed_calls_take_no_longer_than_timed_calls(
    us: float, timed_ms: float, amid: int, verdicts: list[str]
):
    found = on_a_gpu({}, us, timed_ms, amid)
    assert [f.severity for f in found] == verdicts
    assert not any(f.is_repeated for f in found), "another audit has to see it too"


def test_kernels_that_other_processes_may_have_delayed_reject_nothing():
    (found,) = on_a_gpu({}, 60.0, 0.020, 3, crowded="1 other process uses the GPU (7)")
    assert found.severity == "unsure" and "audit again" in found.message


@pytest.mark.parametrize(("us", "count"), [(60.0, 1), (20.0, 0)])
def test_turns_of_other_processes_do_not_hide_that_timed_calls_do_less(us: float, count: int):
    """Half of the timed calls wait for another process: the fastest one is as fast as alone."""
    found = on_a_gpu({}, us, 0.020, 3, crowded="1 other process uses the GPU (7)", slow=15)
    assert [f.severity for f in found] == ["unsure"] * count


def test_who_forbids_to_look_is_noticed():
    (found,) = check(2, 0, [], hidden=3)
    assert found.severity == "reject" and found.is_repeated and "no longer" in found.message


def test_the_stated_risk_is_that_of_honest_audits():
    """All looks draw at the permitted share, which is more than what is told: at most `RISK` are rejected."""
    draw = random.Random(1).random
    for told in (0.0, 0.1, 0.3):
        share = permitted(told, MULTIPLYING)
        assert share > told
        counts = [sum(draw() < share for _ in range(16)) for _ in range(4000)]
        assert sum(chance(n, 16, share) < RISK for n in counts) <= 4000 * 2 * RISK
    assert chance(0, 16, 0.3) == pytest.approx(1.0) and chance(16, 16, 1.0) == 1.0


@pytest.mark.parametrize("runs", [3, 5, 30])
def test_some_timed_calls_are_watched_and_the_others_count(runs: int):
    rng = random.Random(3)
    series = [watched_ones(rng, runs, 5) for _ in range(200)]
    for found in series:
        assert not any(found[:WARM]) and found.count(False) == WARM + runs
        assert found[WARM : WARM + min(runs, 5) + SURELY_WATCHED].count(True) == SURELY_WATCHED
    assert {found[WARM] for found in series} == {False, True}
    if runs == 30:
        counts = [found.count(True) for found in series]
        assert min(counts) < 10 and max(counts) > 20 and 13 < sum(counts) / len(counts) < 16


def test_processes_that_work_in_calls_are_no_part_of_a_solution():
    def verdicts(helped: int) -> list[str]:
        timing = Timing(helped=tuple(f"timed {n}" for n in range(helped)))
        timed = [Call(Case(f"timed {n}", 1, drift=1, watched=n >= 12), Comparison(True)) for n in range(30)]
        saw = dataclasses.replace(seen(0, 0, []), timing=timing, timed=timed)
        found = list(OtherProcesses().check(saw))
        assert all(f.is_repeated for f in found)
        return [f.severity for f in found]

    assert verdicts(12) == verdicts(4) == ["reject"] and verdicts(3) == verdicts(0) == []


def test_a_product_with_a_function_of_its_result_is_both():
    layer = kinds(["aten::linear", "aten::addmm", "aten::relu", "aten::clamp_min"])
    assert layer <= kinds(["mkldnn::_linear_pointwise"]) and layer <= kinds(["aten::_addmm_activation"])
    assert kinds(["mkl::_mkl_linear"]) == {"products"} and not layer <= kinds(["aten::addmm"])


@pytest.mark.parametrize(
    "name", ["mkldnn::_linear_pointwise", "mkl::_mkl_linear", "quantized::linear", "aten::mm"]
)
def test_operations_of_all_of_pytorchs_namespaces_are_its_own(name: str):
    work = [Work("op", name, "", 0, 1, 9e5)]
    call = Call(Case("again", 1, observe=True), Comparison(True), work=tuple(work), seconds=1.0)
    assert compute_ops(work) == {name} and "products" in kinds([name])
    assert pytorchs_share(call) == pytest.approx(0.9)
    assert compute_ops([Work("op", "mine::linear", "", 0, 1, 9e5)]) == set()
