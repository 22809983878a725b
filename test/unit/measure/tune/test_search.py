"""The search: what is planned, built, measured, kept and chosen. Compilers and the GPU are stand-ins."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import tunelib
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.database.records import Record, Run, Status, best, choice_text
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.dialects.mu.settings import parse_settings
from mucc.files.json_text import canonical
from mucc.measure.tune.analysis import Analysis, analyse
from mucc.measure.tune.building import Built
from mucc.measure.tune.choosing import plan, varied
from mucc.measure.tune.folder import Failure
from mucc.measure.tune.gpus import Alone
from mucc.measure.tune.measuring import record_of
from mucc.measure.tune.plans import Candidate, Kernel, Plan, Program, Size
from mucc.measure.tune.search import Limits, Search, overall

Time = Callable[[Size, Candidate], float | Status]


def analysis_of(text: str = tunelib.TEXT) -> Analysis:
    return analyse(Program(Source("f.mcu", text), tunelib.SIZES), "sm_90a", keep_pins=False)[0]


ONE, TWO = analysis_of(), analysis_of(tunelib.TWO)


class Bench:
    """Builds and measures by functions: `time` gives the time of a candidate, or how it fails."""

    card = tunelib.CARD

    def __init__(self, time: Time, unbuildable: Callable[[Candidate], Failure | None] = lambda c: None):
        self.time = time
        self.unbuildable = unbuildable
        self.builds: list[Candidate] = []
        self.sweeps: list[tuple[str, str]] = []
        self.finals: list[list[str]] = []
        self.kept: list[Record] = []
        self.closed = 0

    def build(self, kernel: Kernel, candidates: Sequence[Candidate]) -> Iterator[Built]:
        try:
            for candidate in candidates:
                self.builds.append(candidate)
                failure = self.unbuildable(candidate)
                yield Built(kernel, candidate, None if failure else b"library", failure)
        finally:
            self.closed += 1

    def sweep(self, kernel: Kernel, size: Size, candidate: Candidate, path: str) -> Record:
        self.sweeps.append((size.text, candidate.id))
        time = self.time(size, candidate)
        run = Run(time, "bad") if isinstance(time, Status) else Run(Status.GOOD, "", time, 9, False, 1e-3)
        return record_of(kernel, size, candidate, self.card, run)

    def final(self, kernel: Kernel, size: Size, finalists: Sequence[tuple[Candidate, str]]) -> list[Record]:
        self.finals.append([c.id for c, _ in finalists])
        times = [(c, self.time(size, c)) for c, _ in finalists]
        return [
            record_of(kernel, size, c, self.card, Run(Status.GOOD, "", t * 1.02, 99, True))
            for c, t in times
            if not isinstance(t, Status)
        ]

    def search(self, **options: Any) -> Search:
        return Search(Alone(self), self.build, lambda built: built.candidate.id, self.kept.extend, **options)


def by_hash(seed: int) -> Time:
    """A time for each candidate and size, the same whenever it is asked for."""
    return lambda size, c: 200 + random.Random(f"{seed} {size.text} {choice_text(c.choice)}").random() * 300


@settings(max_examples=examples(15))
@given(st.integers(0, 10**6), st.integers(1, 10))
def test_the_fastest_wins(seed: int, budget: int) -> None:
    bench = Bench(by_hash(seed))
    search = bench.search(limits=Limits(budget))
    kernel, _ = search.tune(ONE)
    for i, size in enumerate(kernel.sizes):
        here = [c for c in kernel.candidates if c.estimates[i] is not None]
        fastest = min(here, key=lambda c, s=size: bench.time(s, c))
        found = best(
            [r for r in search.known.values() if canonical(dict(r.dims)) == canonical(dict(size.dims))]
        )
        assert found is not None and found.choice == fastest.choice


@settings(max_examples=examples(15))
@given(st.integers(0, 10**6), st.integers(1, 10))
def test_budget_and_uniqueness(seed: int, budget: int) -> None:
    bench = Bench(by_hash(seed))
    kernel, _ = bench.search(limits=Limits(budget)).tune(ONE)
    workload = ONE.workloads["out"][0]
    chosen = [workload.default(parse_settings(c.settings)) for c in bench.builds]
    assert len({s.compiled for s in chosen}) <= budget
    assert (
        len({c.id for c in bench.builds}) == len(bench.builds) == len(set(map(choice_text, _choices(kernel))))
    )
    assert len(set(bench.sweeps)) == len(bench.sweeps)


def _choices(kernel: Kernel) -> list[Any]:
    return [c.choice for c in kernel.candidates]


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.data())
def test_an_interrupted_search_goes_on(seed: int, data: st.DataObject) -> None:
    """Whatever was kept before is not measured again, and the result is that of a search without a break."""
    whole = Bench(by_hash(seed))
    kernel, choice = whole.search(limits=Limits(5)).tune(ONE)
    kept = data.draw(st.integers(0, len(whole.kept)))
    known = {r.key: r for r in whole.kept[:kept]}
    second = Bench(by_hash(seed))
    again, same = second.search(limits=Limits(5), known=dict(known)).tune(ONE)
    assert (again, same) == (kernel, choice)
    done = {(s, c) for s, c in whole.sweeps if any(_is(r, s, c, kernel) for r in known.values())}
    assert set(second.sweeps) == set(whole.sweeps) - done


def _is(record: Record, size: str, id: str, kernel: Kernel) -> bool:
    dims = ",".join(f"{name}={value}" for name, value in record.dims.items())
    candidate = next(c for c in kernel.candidates if c.id == id)
    return dims == size and choice_text(record.choice) == choice_text(candidate.choice)


def test_nothing_is_done_twice() -> None:
    first = Bench(by_hash(1))
    search = first.search(limits=Limits(4))
    search.tune(ONE)
    second = Bench(by_hash(1))
    second.search(limits=Limits(4), known=search.known).tune(ONE)
    assert (second.builds, second.sweeps, second.finals) == ([], [], [])


def test_wrong_ones_and_faults_never_win() -> None:
    def time(size: Size, candidate: Candidate) -> float | Status:
        words = [Status.WRONG, Status.FAULT, Status.TIMEOUT]
        number = int(candidate.id, 16)
        return words[number % 3] if number % 2 else 400.0 + number % 50

    bench = Bench(time)
    search = bench.search(limits=Limits(8))
    kernel, choice = search.tune(ONE)
    assert int(next(c.id for c in kernel.candidates if c.choice == choice), 16) % 2 == 0
    assert all(int(id, 16) % 2 == 0 for final in bench.finals for id in final)
    assert {r.run.status for r in bench.kept} > {Status.GOOD}


def test_a_failed_build_costs_only_itself() -> None:
    bench = Bench(by_hash(3), lambda c: Failure("MU5110: no", int(c.id, 16) % 2 == 0))
    kernel, _ = bench.search(limits=Limits(4)).tune(ONE)
    assert not bench.sweeps and bench.kept
    # What the compiler refused is kept, what the machine lacked is not.
    ids = {choice_text(c.choice): c.id for c in kernel.candidates}
    assert all(r.card == "" and r.run.status is Status.BUILD for r in bench.kept)
    assert {int(ids[choice_text(r.choice)], 16) % 2 for r in bench.kept} == {0}


def test_the_bound_ends_the_search() -> None:
    bench = Bench(lambda size, c: (size.bound_us or 0) * 1.01)
    bench.search(limits=Limits(8)).tune(ONE)
    tried = {id for _, id in bench.sweeps}
    assert len(tried) < 8 and bench.closed >= 1
    assert len(bench.builds) == len(tried)


def test_stages_are_tuned_one_after_the_other() -> None:
    """The second contraction is tried with the best of the first."""
    slow = by_hash(5)
    bench = Bench(slow)
    kernel, choice = bench.search(limits=Limits(6)).tune(TWO)
    first, second = TWO.stages
    assert set(choice) == {first, second}
    of_second = [c for c in bench.builds if c.stage == second]
    assert of_second and {choice_text({first: c.choice[first]}) for c in of_second} == {
        choice_text({first: choice[first]})
    }
    of_first = [c for c in bench.builds if c.stage == first]
    assert len({choice_text({second: c.choice[second]}) for c in of_first}) == 1
    assert set(kernel.bodies) == {"h", "out"}


def test_one_choice_for_several_sizes() -> None:
    """It is the one that loses least, not the best of one size."""
    kernel = dataclasses.replace(ONE.kernel, candidates=tuple(_three()))
    times = {"a": (100.0, 300.0), "b": (110.0, 110.0), "c": (300.0, 100.0)}

    def known(_: Kernel, size: Size, candidate: Candidate) -> Record:
        time = times[candidate.id][ONE.kernel.sizes.index(size)]
        return tunelib.record(kernel, size, candidate, time)

    found = overall(kernel, kernel.candidates, known)
    assert found is not None and found.id == "b"


def _three() -> Iterator[Candidate]:
    made = tunelib.planned(budget=3).kernels[0].candidates
    for id, candidate in zip("abc", made, strict=False):
        yield dataclasses.replace(candidate, id=id, estimates=(1.0, 1.0))


# ---- plans -----------------------------------------------------------------------------------------------


@settings(max_examples=examples(20))
@given(
    st.sampled_from(["bf16", "f16"]),
    st.lists(st.tuples(*[st.integers(1, 40)] * 3), min_size=1, max_size=3, unique=True),
    st.integers(1, 6),
)
def test_plans_hold_what_can_be_built(dtype: str, extents: list[tuple[int, ...]], budget: int) -> None:
    """Every candidate's text compiles to exactly the candidate's schedule; a plan survives its file."""
    from mucc.compiler.driver import Options, compile_text

    text = tunelib.TEXT.replace("bf16", dtype)
    made = tunelib.planned(text, [dict(zip("MNK", (8 * e for e in x), strict=True)) for x in extents], budget)
    assert Plan.from_json(made.to_json(), "x") == made
    kernel = made.kernels[0]
    for candidate in kernel.candidates[:3]:
        compilation = compile_text(kernel.source(candidate.choice), Options(tuned=False))
        emitted = compilation.emit("schedule")
        for name, value in candidate.settings.items():
            assert f"{name} = {value}" in " ".join(emitted.split()) or (name, value) == ("exchange", "off")


def test_pins_are_left_out_or_kept() -> None:
    text = tunelib.TEXT + "schedule f for sm_90a { tile = 128x128x64 }\n"
    program = Program(Source("f.mcu", text), tunelib.SIZES)
    free, held = plan(program, budget=8), plan(program, budget=8, keep_pins=True)
    assert {c.settings["tile"] for c in held.kernels[0].candidates} == {"128x128x64"}
    assert len({c.settings["tile"] for c in free.kernels[0].candidates}) > 1
    assert free.kernels[0].digest == held.kernels[0].digest


def test_a_kernel_of_several() -> None:
    text = tunelib.TEXT + tunelib.TWO
    both = plan(Program(Source("f.mcu", text), tunelib.SIZES), budget=2)
    assert [k.name for k in both.kernels] == ["f", "g"]
    one = plan(Program(Source("f.mcu", text), tunelib.SIZES, "g"), budget=2)
    assert [k.name for k in one.kernels] == ["g"]
    assert one.kernels[0].digest == both.kernels[1].digest


@pytest.mark.parametrize(
    ("text", "dims", "kernel", "code"),
    [
        (tunelib.TEXT, [{"M": 8}], None, "MU6051"),
        (tunelib.TEXT, [], None, "MU6051"),
        (tunelib.TEXT, [{"M": 8, "N": 8, "K": 8, "L": 8}], None, "MU6051"),
        (tunelib.TEXT, [{"M": 8, "N": 8, "K": 7}], None, "MU6052"),
        (tunelib.TEXT, tunelib.SIZES, "ff", "MU5406"),
        ("kernel s[M](x: f32[M]) -> f32[M] { return relu(x) }", [{"M": 8}], None, "MU5304"),
    ],
)
def test_bad_dims(text: str, dims: list[dict[str, int]], kernel: str | None, code: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan(Program(Source("f.mcu", text), dims, kernel))
    assert caught.value.diagnostics[0].code == code


def test_candidates_are_not_all_of_one_shape() -> None:
    kernel = tunelib.planned(dims=tunelib.SIZES[:1], budget=8).kernels[0]
    assert len({c.settings["tile"].rpartition("x")[0] for c in kernel.candidates}) >= 2
    orders = [c for c in kernel.candidates if "along_m" in c.settings["scheduler"]]
    assert orders, "the best skeletons are tried with other orders of tiles"


def test_what_is_much_alike_does_not_crowd_out_others():
    ranked = ["a1", "a2", "a3", "b1", "a4", "c1"]
    assert varied(ranked, lambda name: name[0], 2) == ["a1", "a2", "b1", "c1", "a3", "a4"]
    assert varied(ranked, lambda name: name, 1) == ranked
