"""The database: what is stored is found, by whom it may be used, and what happens to bad files."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tunelib
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc import frontend
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.database import lookup
from mucc.database.records import Record, Run, Stage, Status, best
from mucc.database.store import VERSION, Store
from mucc.diagnostics.core import DiagnosticError, Severity, Source
from mucc.measure.tune.measuring import after_final, finalists


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    with Store() as made:
        yield made


def code(function: Any, *args: Any, **kw: Any) -> str:
    with pytest.raises(DiagnosticError) as caught:
        function(*args, **kw)
    return caught.value.diagnostics[0].code


def records(text: str = tunelib.TEXT, budget: int = 4) -> list[Record]:
    """Of all candidates at all sizes, the first the slowest."""
    kernel = tunelib.planned(text, budget=budget).kernels[0]
    return [
        tunelib.record(kernel, size, candidate, 500.0 - 10 * i)
        for i, candidate in enumerate(kernel.candidates)
        for size in kernel.sizes
    ]


texts = st.text("abcdefgh", min_size=1, max_size=4)
settings_of = st.dictionaries(texts, texts, max_size=3)
any_record = st.builds(
    Record,
    texts,
    texts,
    texts,
    texts,
    st.dictionaries(texts, st.integers(1, 2**31), max_size=3),
    st.lists(
        st.builds(Stage, texts, texts, texts, settings_of), min_size=1, max_size=2, unique_by=lambda s: s.name
    ).map(tuple),
    st.builds(
        Run,
        st.sampled_from(Status),
        st.text(),
        st.none() | st.floats(1e-3, 1e9),
        st.integers(0, 99),
        st.booleans(),
        st.none() | st.floats(0, 9),
    ),
    texts,
    texts,
    texts,
)


@settings(max_examples=examples(20))
@given(found=st.lists(any_record, max_size=4, unique_by=lambda r: r.key))
def test_what_is_stored_is_found(tmp_path_factory: pytest.TempPathFactory, found: list[Record]) -> None:
    with Store(str(tmp_path_factory.mktemp("db") / "t.db")) as store:
        store.add(found)
        assert sorted(store.all(), key=lambda r: r.key) == sorted(found, key=lambda r: r.key)
    for record in found:
        assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_database_holds_what_was_added(store: Store) -> None:
    assert store.all() == [] and not os.path.exists(store.path)
    made = records()
    store.add(made)
    assert sorted(store.all(), key=lambda r: r.key) == sorted(made, key=lambda r: r.key)
    store.add(made)
    assert len(store.all()) == len(made)
    assert store.forget(name="other") == 0 and store.forget(name="f") == len(made)
    assert store.all() == []


def test_the_later_one_counts(store: Store) -> None:
    (first, *_) = records()
    later = dataclasses.replace(first, date="2999-01-01T00:00:00+00:00", run=first.run._replace(time_us=1.0))
    assert store.merge([first]) == 1
    assert store.merge([later]) == 1
    assert store.merge([first]) == 0
    assert [r.time_us for r in store.all()] == [1.0]


def test_writers_side_by_side(store: Store) -> None:
    made = records(budget=8)

    def write(part: list[Record]) -> None:
        with Store(store.path) as own:
            for record in part:
                own.add([record])

    threads = [threading.Thread(target=write, args=(made[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.all()) == len(made)


def test_many_make_the_database_at_once(tmp_path: Path) -> None:
    (record, *_) = records(budget=8)
    for i in range(4):
        path = str(tmp_path / f"{i}.db")
        together = threading.Barrier(8)
        failed: list[BaseException] = []

        def write(path: str, together: threading.Barrier, failed: list[BaseException]) -> None:
            together.wait()
            try:
                with Store(path) as own:
                    own.add([record])
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=write, args=(path, together, failed)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert len(Store(path).all()) == 1


# ---- bad files -------------------------------------------------------------------------------------------


def test_no_database(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is no database, but it is long enough to look like one" * 20)
    assert code(Store(str(path)).all) == "MU5305"
    assert path.read_text().startswith("this is no database")


def test_a_damaged_database(store: Store) -> None:
    store.add(records(budget=8))
    store.close()
    data = bytearray(Path(store.path).read_bytes())
    data[200:] = b"\xff" * (len(data) - 200)
    Path(store.path).write_bytes(data)
    assert code(store.all) == "MU5305"


def test_a_newer_database(store: Store) -> None:
    store.add(records())
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    assert code(store.all) == "MU5306" == code(store.add, records())


def test_a_locked_database(store: Store) -> None:
    store.add(records())
    db = sqlite3.connect(store.path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    try:
        assert code(Store(store.path, patience=0.05).add, records()) == "MU5307"
    finally:
        db.close()


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert code(Store(str(tmp_path / "file" / "t.db")).add, records()) == "MU5308"


# ---- compilations ----------------------------------------------------------------------------------------


def compiled(text: str = tunelib.TEXT, dims: dict[str, int] | None = None, **options: Any) -> Compilation:
    return compile_text(Source("f.mcu", text), Options(dims=dims or tunelib.SIZES[0], **options))


def schedule(text: str = tunelib.TEXT, dims: dict[str, int] | None = None, **options: Any) -> str:
    return " ".join(compiled(text, dims, **options).emit("schedule").split())


def test_a_compilation_takes_the_best(store: Store) -> None:
    made = records()
    store.add(made)
    for dims in tunelib.SIZES:
        fastest = min((r for r in made if r.dims == dims), key=lambda r: r.time_us)
        found = schedule(dims=dims)
        assert all(f"{n} = {v}" in found or n == "exchange" for n, v in fastest.choice["out"].items())
        assert "// measured:" in found and tunelib.CARD in found
    assert "// measured:" not in schedule(tuned=False)


def test_only_for_the_same_problem(store: Store) -> None:
    store.add(records())
    assert "measured" not in schedule(dims={"M": 4096, "N": 4096, "K": 2048})
    assert "measured" not in schedule(tunelib.TEXT.replace("bf16", "f16"))
    assert "measured" not in schedule(tunelib.TEXT.replace("w.T", "w").replace("[N, K]", "[K, N]"))
    assert "measured" not in " ".join(
        compile_text(Source("f.mcu", tunelib.TEXT), Options()).emit("schedule").split()
    )


def test_a_kernel_without_measurements_is_not_printed_for_its_digest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(records())
    asked: list[str] = []

    def digest(text: str) -> str:
        asked.append(text)
        return ""

    monkeypatch.setattr(lookup, "kernel_digest", digest)
    compiled(tunelib.TEXT, {**tunelib.SIZES[0], "K": 512})
    assert not asked
    compilation = compiled(keep_levels=False)
    (kernel,) = frontend.lower(compilation.program, compilation.sink).body.block.ops
    assert asked == [str(kernel)]


def test_bound_dims_need_no_hints(store: Store) -> None:
    aligned = tunelib.TEXT.replace("{", "where K % 8 == 0, N % 8 == 0 {")
    store.add(records(aligned))
    text = aligned.replace("[M, N, K]", "[M=4096, N=4096, K=4096]")
    assert "measured" in " ".join(compile_text(Source("f.mcu", text), Options()).emit("schedule").split())


def test_another_program_with_the_same_problem(store: Store) -> None:
    """Names and pointwise work may differ; measurements of the program itself come first."""
    store.add(records())
    other = tunelib.TEXT.replace("kernel f", "kernel other").replace("relu(x @ w.T)", "silu(x @ w.T)")
    assert "measured" in schedule(other)
    kernel = tunelib.planned(other).kernels[0]
    own = tunelib.record(kernel, kernel.sizes[0], kernel.candidates[0], 9999.0)
    store.add([own])
    assert "9999.0 µs" in schedule(other)
    assert "9999.0 µs" not in schedule()


def test_pinned_settings_win(store: Store) -> None:
    made = records(budget=8)
    store.add(made)
    tiles = {r.choice["out"]["tile"] for r in made}
    for tile in (*sorted(tiles), "128x128x32"):
        text = tunelib.TEXT + f"schedule f for sm_90a {{ tile = {tile} }}\n"
        found = schedule(text)
        assert f"tile = {tile}" in found
        assert ("measured" in found) == any(
            r.choice["out"]["tile"] == tile and r.dims == tunelib.SIZES[0] for r in made
        )


def test_wrong_ones_are_never_taken(store: Store) -> None:
    kernel = tunelib.planned().kernels[0]
    size = kernel.sizes[0]
    store.add([tunelib.record(kernel, size, c, None) for c in kernel.candidates])
    assert "measured" not in schedule()


def test_what_is_no_longer_legal_is_passed_over(store: Store) -> None:
    kernel = tunelib.planned().kernels[0]
    good, bad = kernel.candidates[:2]
    illegal = {"out": {**bad.settings, "tile": "24x24x24"}}
    broken = tunelib.record(kernel, kernel.sizes[0], bad, 1.0)
    stage = broken.stages[0]._replace(settings=illegal["out"])
    store.add(
        [dataclasses.replace(broken, stages=(stage,)), tunelib.record(kernel, kernel.sizes[0], good, 50.0)]
    )
    assert "tile = 24x24x24" not in schedule()


def test_a_bad_database_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.db"
    path.write_text("no database at all, and long enough to be looked at" * 30)
    monkeypatch.setenv("MUCC_TUNING_DB", str(path))
    found = compiled()
    assert [(d.code, d.severity) for d in found.sink.diagnostics] == [("MU5305", Severity.WARNING)]
    assert found.emit("schedule") == compiled(tuned=False).emit("schedule")


def test_without_a_database_nothing_is_loaded(tmp_path: Path) -> None:
    program = (
        "import sys; from mucc.compiler.driver import compile_text, Options\n"
        "from mucc.diagnostics.core import Source\n"
        f"compile_text(Source('f', {tunelib.TEXT!r}), Options(dims={dict(tunelib.SIZES[0])!r}))\n"
        "assert not {'sqlite3', 'mucc.database.store'} & set(sys.modules)"
    )
    environment = {**os.environ, "MUCC_TUNING_DB": str(tmp_path / "none.db")}
    subprocess.run((sys.executable, "-c", program), env=environment, check=True)


def test_a_build_is_asked_for_anew_when_something_was_measured(store: Store) -> None:
    from mucc.database.home import fingerprint

    assert fingerprint() == ()
    store.add(records())
    first = fingerprint()
    store.add([r for r in records(budget=6) if r.dims["M"] == 128])
    assert first != fingerprint() != ()


# ---- the last round --------------------------------------------------------------------------------------


KERNEL = tunelib.planned(budget=3).kernels[0]


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=9))
def test_finalists_are_close_to_the_best(times: list[float]) -> None:
    found = [tunelib.record(KERNEL, KERNEL.sizes[0], KERNEL.candidates[0], t) for t in times]
    chosen = finalists(found, count=4, close=1.1)
    assert len(chosen) != 1 and len(chosen) <= 4
    assert all(r.time_us <= 1.1 * min(times) for r in chosen)


def test_orders_of_tiles_leave_room_for_other_kernels_in_the_last_round() -> None:
    def made(tile: str, swizzle: int, time: float) -> Record:
        found = tunelib.record(KERNEL, KERNEL.sizes[0], KERNEL.candidates[0], time)
        settings = {"tile": tile, "scheduler": f"persistent(raster=heuristic, swizzle={swizzle})"}
        return dataclasses.replace(found, stages=(found.stages[0]._replace(settings=settings),))

    orders = [made("128x256x64", 2**i, 100.0 + i) for i in range(5)]
    others = [made("192x128x64", 1, 107.0), made("256x128x64", 1, 108.0)]
    chosen = finalists([*orders, *others], count=4)
    assert [r.time_us for r in chosen] == [100.0, 101.0, 107.0, 108.0]
    assert [r.time_us for r in finalists([*orders, others[0]], count=4)] == [100.0, 101.0, 102.0, 107.0]


def test_an_older_last_round_does_not_count_any_more() -> None:
    made = [r for r in records() if r.dims["M"] == 128]
    old = [tunelib_final(r, 100.0) for r in made[:2]]
    raced = [tunelib_final(r, 90.0) for r in made[1:]]
    kept = {r.key: r for r in (*old, *made[2:])} | {r.key: r for r in after_final([*old, *made[2:]], raced)}
    assert not kept[made[0].key].run.final
    found = best(list(kept.values()))
    assert found is not None and found.time_us == 90.0


def tunelib_final(record: Record, time_us: float) -> Record:
    return dataclasses.replace(record, run=record.run._replace(time_us=time_us, final=True))


def test_an_explanation_says_where_a_schedule_comes_from(store: Store) -> None:
    from mucc.compiler.explain_schedule import explain

    store.add(records())
    (found,) = explain(compiled())
    assert found.measured and "  measured " in found.as_text() and found.as_json()["measured"]
    (chosen,) = explain(compiled(tuned=False))
    assert chosen.measured is None and "measured" not in chosen.as_text()
