"""Artefacts that are found in the cache where the compilers that made them are not there any more."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mucc.build.artefact import Artefact, Request, build, build_into
from mucc.build.cache import Cache, Entry, makers_key
from mucc.build.pool import Pool
from mucc.build.toolchain import discover, nvcc
from mucc.build.toolchain.discover import Tool, Toolchain
from mucc.diagnostics import Diagnostic, DiagnosticError
from mucc.measure.tune import building

PROGRAM = b"kernel k[M, N](x: f32[M, N]) -> f32[M, N] {\n    return relu(x)\n}\n"


@dataclass
class Machine:
    """What is installed: versions of nvcc, CUTLASS and the host compiler, None for a missing one."""

    nvcc: str | None = "13.0.88"
    cutlass: str | None = "4.2.0"
    host: str | None = "12.2.0"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A machine whose tools are names, and whose nvcc writes down who it is."""
    here = Machine()

    def find(part: str):
        return lambda *_: Tool(sys.executable, version) if (version := getattr(here, part)) else None

    for part in ("nvcc", "cutlass", "host"):
        monkeypatch.setattr(discover, f"find_{part}", find(part))
        monkeypatch.setattr(discover, f"{part}_version", lambda *_, part=part: getattr(here, part))
    monkeypatch.setattr(Toolchain, "fingerprint", lambda self: (repr(here),))

    def compiled(text: str, kind: str, *_: object, **__: object) -> nvcc.Built:
        return nvcc.Built(f"{here.nvcc} {here.cutlass} {here.host}".encode(), ())

    monkeypatch.setattr(nvcc, "build", compiled)
    monkeypatch.setattr("mucc.build.artefact.seal", lambda data: data)
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    return here


def made(**options: object) -> Artefact:
    return build(Request(PROGRAM, "k.mcu", plain=True, **options))  # pyright: ignore[reportArgumentType]


def missing(**options: object) -> list[str]:
    with pytest.raises(DiagnosticError) as error:
        made(**options)
    return [d.code for d in error.value.diagnostics]


@pytest.mark.parametrize("part, code", [("nvcc", "MU5101"), ("cutlass", "MU5102"), ("host", "MU5103")])
def test_a_hit_needs_no_compiler(machine: Machine, part: str, code: str, tmp_path: Path):
    first = made()
    assert not first.cached
    setattr(machine, part, None)
    again = made()
    assert again.cached and again.data == first.data
    assert missing(dims={"M": 8}, target="sm_80") == [code], "another program has to be made"
    assert missing(cached=False) == [code]
    assert missing(save_temps=str(tmp_path / "temps")) == [code], "there is nothing to save without compiling"


def test_a_machine_without_any_compiler_takes_what_the_latest_toolchain_made(machine: Machine):
    for machine.nvcc in ("13.2.86", "13.0.88"):
        made()
    machine.nvcc = machine.cutlass = machine.host = None
    assert made().data.startswith(b"13.0.88")


def test_a_shared_cache_with_one_artefact_serves_a_machine_without_any_compiler(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Pool() as pool:
        packed = build_into(Request(PROGRAM, "k.mcu", plain=True), str(tmp_path / "bundle"), pool)
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "elsewhere"))
    machine.nvcc = machine.cutlass = machine.host = None
    assert set(missing()) == {"MU5101", "MU5102", "MU5103"}
    monkeypatch.setenv("MUCC_CACHE_SHARED", str(tmp_path / "bundle"))
    assert made().data == packed.data


def test_a_cache_to_pack_into_that_cannot_be_written(machine: Machine, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with Pool() as pool, pytest.raises(DiagnosticError, match="MU5203"):
        build_into(Request(PROGRAM, "k.mcu", plain=True), str(tmp_path / "file"), pool)


def test_another_tool_is_never_answered_with_what_an_older_one_made(machine: Machine):
    old = made()
    machine.host, machine.nvcc = None, "13.2.86"
    assert missing() == ["MU5103"]
    machine.nvcc = "13.0.88"
    assert made().data == old.data


def test_a_tool_at_hand_picks_among_what_several_made(machine: Machine):
    for machine.nvcc in ("13.0.88", "13.2.86"):
        made()
    machine.cutlass, machine.nvcc = None, "13.0.88"
    assert made().data.startswith(b"13.0.88")


def test_a_complete_toolchain_takes_nothing_of_another(machine: Machine):
    made()
    machine.nvcc = "13.2.86"
    assert not made().cached and made().data.startswith(b"13.2.86")


def test_an_older_artefact_answers_where_the_latest_was_evicted(tmp_path: Path):
    cache = Cache(str(tmp_path))
    key = makers_key("ir", "code", (), (str(tmp_path),))
    cache.store("artefacts", "a" * 64, Entry(b"old"))
    cache.add_maker(key, ("1", "2", "3"), "a" * 64)
    cache.add_maker(key, ("2", "2", "3"), "b" * 64)
    found = cache.find_made(key, (None, None, None))
    assert found and found.data == b"old"
    assert cache.find_made(key, ("2", None, None)) is None


def test_what_is_known_of_toolchains_stays_small(tmp_path: Path):
    cache = Cache(str(tmp_path))
    key = makers_key("ir", "code", (), (str(tmp_path),))
    for number in range(20):
        cache.store("artefacts", f"{number:064}", Entry(b"%d" % number))
        cache.add_maker(key, (str(number), "", ""), f"{number:064}")
    assert cache.find_made(key, ("0", None, None)) is None
    found = cache.find_made(key, ("19", None, None))
    assert found and found.data == b"19"


def test_a_setting_that_leads_nowhere_stays_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    made()
    monkeypatch.undo()
    monkeypatch.setenv("MUCC_CUTLASS", "/nope")
    assert "MU5105" in missing()


def test_tuning_needs_no_compiler_for_what_is_in_the_cache(monkeypatch: pytest.MonkeyPatch):
    """Candidates that are known come first; the first that has to be made says what is missing."""

    def build_program(request: str, **_: object) -> Artefact:
        if request == "new":
            raise DiagnosticError(Diagnostic("MU5103", "no host C++ compiler was found"))
        return Artefact(b"library", (), cached=True)

    monkeypatch.setattr(discover, "find_toolchain", lambda *_: pytest.fail("nobody needs one"))
    monkeypatch.setattr(building, "build_program", build_program)
    monkeypatch.setattr(building, "request", lambda kernel, candidate, tools: candidate)
    monkeypatch.setattr(building, "label", lambda kernel, candidate: candidate)
    wanted: Any = [("k", "old"), ("k", "new")]
    with Pool(1) as pool:
        outcomes = building.build_each(pool, wanted, building.Toolset())
        assert next(outcomes).data == b"library"
        with pytest.raises(DiagnosticError, match="no host C"):
            next(outcomes)
