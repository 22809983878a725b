"""The fuzzer: what it draws repeats, what it checks fails where it must, and a share of a run."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from bench.fuzz.__main__ import Run, chunks_of, main, summary
from bench.fuzz.chains import UNROUNDED
from bench.fuzz.checks import LEVELS, Failure, Outcome, examine, honest, mended
from bench.fuzz.generated import examine_chain, examine_program, examine_schedule
from bench.fuzz.mutants import mutant
from bench.fuzz.reducing import reduced
from bench.fuzz.sources import GENERATORS, Drawn, chained, corpus_texts, layered, program, with_schedule
from bench.fuzz.trying import CHUNK, Chunk, prepare, run_chunk
from mucc.diagnostics import Applicability, Diagnostic, Fix, Source, Span
from mucc.dialects.mu.ops.elementwise import ConstantOp
from mucc.frontend import formatter
from mucc.frontend.functions import FUNCTIONS
from mucc.passes import form_stages
from mucc.passes.form_stages import FormStages
from mucc.passes.stored_forms import StoredForms

GOOD = "kernel f[M, K](x: f32[M, K], y: f32[M, K]) -> f32[M, K] {\n    return relu(x) * y\n}\n"


def tried(text: str, *, command: bool = False) -> Outcome:
    return examine(text.encode(), "sm_90a", {}, LEVELS, command)


def test_equal_seeds_give_equal_sources():
    for seed in ("a", "b", "c"):
        texts = {mutant(random.Random(seed), GOOD, corpus_texts()[0]) for _ in range(2)}
        assert len(texts) == 1
        assert program(seed) == program(seed)
    assert len({mutant(random.Random(f"{n}"), GOOD, corpus_texts()[0]) for n in range(50)}) > 40


@pytest.mark.parametrize("name", GENERATORS)
def test_programs_of_each_generator_hold(name: str):
    for seed in ("1",):
        drawn = GENERATORS[name](seed)
        assert not (outcome := examine_program(drawn, host=False)).is_finding, (outcome, drawn)


def test_a_share_of_the_mutants_holds():
    row = run_chunk(Chunk("mutants", "unit", 0))
    assert row["findings"] == []
    assert sum(row["counts"].values()) == CHUNK["mutants"]
    assert row["counts"]["refused"] > 10


@pytest.mark.parametrize("name", ["unit", "other"])
def test_chains_of_operations_hold(name: str):
    for number in range(6):
        drawn = chained(f"{name}{number}")
        assert not (outcome := examine_chain(drawn)).is_finding, (outcome, drawn)


def test_generators_draw_every_function_of_the_language():
    texts = [chained(f"every{number}").text for number in range(1500)]
    texts += [program(f"every{number}").text for number in range(100)]
    drawn = set(re.findall(r"\w+(?=\()", " ".join(texts)))
    assert set(FUNCTIONS) - drawn == set()


def test_layers_hold():
    for number in range(2):
        drawn = layered(f"unit{number}")
        assert not (outcome := examine_chain(drawn)).is_finding, (outcome, drawn)


def test_drawn_schedules_are_refused_or_hold():
    kinds = set[str]()
    for number in range(8):
        drawn = with_schedule(f"unit{number}")
        outcome = examine_schedule(drawn)
        assert not outcome.is_finding, (outcome, drawn)
        kinds.add(outcome.kind)
    assert kinds == {"good", "refused"}


def test_a_schedule_that_changes_what_is_computed_is_found(monkeypatch: pytest.MonkeyPatch):
    from mucc.passes.legalize_tile import LegalizeTile

    text = "kernel f(x: bf16[64, 64], w: bf16[64, 64]) -> f32[64, 64] {\n    return 2 * (x @ w)\n}\n\n"
    text += "schedule f for sm_90a {\n    tile = 128x128x64\n}\n"
    drawn = Drawn(text, "sm_90a", "schedules")
    assert examine_schedule(drawn) == Outcome("good")
    apply = LegalizeTile.apply

    def doubled(self: LegalizeTile, ctx: object, op: ModuleOp) -> None:
        for constant in [c for c in op.walk() if isinstance(c, ConstantOp)]:
            constant.properties["value"] = ConstantOp(7.0).value
        apply(self, None, op)

    monkeypatch.setattr(LegalizeTile, "apply", doubled)
    assert examine_schedule(drawn).kind == "lowered"


CHAIN = Drawn("kernel f(x: f32[4, 3]) -> f32[3, 4] {\n    return (2 * x).T + 1\n}\n", "sm_90a", "")
PICKED = "kernel f(x: bf16[2, 3], r: s32[2]) -> f32[2, 3] {\n    return gather(tanh(x), r)\n}\n"
ROUNDED = Drawn(UNROUNDED + PICKED, "sm_90a", "")


def test_a_pass_that_changes_what_is_computed_is_found(monkeypatch: pytest.MonkeyPatch):
    assert examine_chain(CHAIN) == Outcome("good")

    def doubled(self: FormStages, ctx: object, op: ModuleOp) -> None:
        for constant in [c for c in op.walk() if isinstance(c, ConstantOp)]:
            constant.properties["value"] = ConstantOp(7.0).value
        form(self, None, op)

    form = FormStages.apply
    monkeypatch.setattr(FormStages, "apply", doubled)
    outcome = examine_chain(CHAIN)
    assert outcome.kind == "levels" and outcome.detail.startswith(
        "after form-stages: 12 of 12; result 0[0, 0]"
    )


def test_a_kernel_that_rounds_is_found(monkeypatch: pytest.MonkeyPatch):
    assert examine_chain(ROUNDED).kind == "good"
    monkeypatch.setattr(form_stages, "stored_forms", lambda *_: StoredForms())
    outcome = examine_chain(ROUNDED)
    assert (outcome.kind, outcome.detail[:13]) == ("levels", "kernels round")


def test_good_and_refused():
    assert tried(GOOD, command=True).kind == "good"
    assert tried(GOOD.replace("relu", "lgamma"), command=True) == Outcome("refused", "MU1002")
    assert tried("\udcff".encode(errors="surrogateescape").decode("latin-1")).kind == "refused"


def test_crashes_and_hangs_are_found(monkeypatch: pytest.MonkeyPatch):
    def crash(*_: object) -> None:
        raise ZeroDivisionError

    def hang(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr("bench.fuzz.checks.PATIENCE", 0.3)
    monkeypatch.setattr(FormStages, "apply", crash)
    assert (tried(GOOD).kind, tried(GOOD).code) == ("crash", "ZeroDivisionError")
    monkeypatch.setattr(FormStages, "apply", hang)
    assert tried(GOOD).kind == "hang"


def test_a_layout_that_says_something_else_is_found(monkeypatch: pytest.MonkeyPatch):
    real = formatter.format_source
    monkeypatch.setattr("bench.fuzz.checks.format_source", lambda s: real(s).replace("relu", "gelu"))
    assert tried(GOOD).kind == "fmt"


def test_dishonest_diagnostics_are_found():
    source = Source("f.mcu", GOOD)
    for diagnostic, kind in (
        (Diagnostic("MU9001", "oh"), "defect"),
        (Diagnostic("MU0999", "oh"), "code"),
        (Diagnostic("MU0001", "oh", Span(3, 1000)), "span"),
        (Diagnostic("MU3010", "the pingpong mainloop cannot"), "unwritten"),
    ):
        with pytest.raises(Failure) as caught:
            honest([diagnostic], source)
        assert caught.value.kind == kind


def test_an_edit_that_leads_to_the_same_error_is_found():
    text = GOOD.replace("relu", "lgamma")
    at = text.index("lgamma")
    fix = Fix(Span(at, at + 6), "lgamma", "", Applicability.MACHINE_APPLICABLE)
    wrong = Diagnostic("MU1002", "unknown function 'lgamma'", Span(at, at + 6), fixes=(fix,))
    with pytest.raises(Failure, match="leads to it again"):
        mended(Source("f.mcu", text), "sm_90a", {}, [wrong])


def test_sources_are_shrunk():
    text = b"one two three\nfour five\nsix seven eight\n" * 5
    assert reduced(text, lambda data: b"five" in data, 5) == b"five"


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "run.jsonl"
    chunks = chunks_of("s", {"mutants": 100, "programs": 10})
    assert [c.kind for c in chunks] == ["mutants", "programs"] * 2
    run = Run(path)
    for chunk in chunks:
        run.take(
            {
                "chunk": list(chunk),
                "counts": {"good": CHUNK[chunk.kind]},
                "codes": {},
                "seconds": 1,
                "findings": [],
            }
        )
    path.write_text(path.read_text() + '{"chunk": ["mut')  # ended within a line
    wanted = {**dict.fromkeys(CHUNK, 0), "mutants": 100, "programs": 10}
    numbers = [word for kind, number in wanted.items() for word in (f"--{kind}", str(number))]
    given = ["--seed", "s", *numbers, "-o", str(path)]
    assert main(given) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures == summary(Run(path)) == summary(run)
    assert (figures["fuzz.mutants"], figures["fuzz.programs"], figures["fuzz.findings"]) == (100, 10, 0)
    finding = {"kind": "fix", "code": "", "detail": "", "of": "mutants", "seed": "", "target": "", "text": ""}
    row = {"chunk": list(chunks[0]), "counts": {"fix": 1}, "codes": {}, "seconds": 1, "findings": [finding]}
    run.take(row)
    assert tuple(chunks[0]) in Run(path).done and summary(Run(path))["fuzz.findings"] == 1
    assert tuple(chunks[0]) not in Run(path, again=True).done


def test_workers_are_prepared_in_their_own_processes():
    assert prepare.__module__ == run_chunk.__module__ == "bench.fuzz.trying"
