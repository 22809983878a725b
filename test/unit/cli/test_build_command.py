"""Building through the cache. Compilers are stand-ins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from compiler_stand_in import Compiler, left, write

from mucc.build.toolchain import discover
from mucc.cli.main import main
from mucc.diagnostics import Diagnostic, DiagnosticError

pytestmark = pytest.mark.usefixtures("here")


def test_a_build_is_executable_and_sealed(builds: list[str]):
    from mucc.library.checksum import seal_state

    assert main([write("k.mcu"), "-o", "k.so"]) == 0
    data = Path("k.so").read_bytes()
    assert data.startswith(b"so: parts of k") and seal_state(data) == "good"
    assert os.access("k.so", os.X_OK)
    assert main(["k.mcu", "--emit=ptx"]) == 0
    assert builds == ["parts of k", "image of k"]


def test_plain_nvcc(builds: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([write("k.mcu", "kernel k\n"), "-o", "k.so", "--plain-nvcc"]) == 0
    assert main(["k.mcu", "-o", "k.so"]) == 0
    assert builds == ["cu of k for sm_90a", "parts of k"], "neither stands for the other"
    assert capsys.readouterr().err == ""


def test_what_cannot_be_spliced_takes_the_full_build(builds: list[str], capsys: pytest.CaptureFixture[str]):
    for _ in range(2):
        assert main([write("k.mcu", "kernel fixed\n"), "-o", "k.so"]) == 0
        error = capsys.readouterr().err
        assert "warning[MU5209]" in error and "it does not bend" in error
    assert builds == ["cu of fixed for sm_90a"]


def test_several_programs_and_jobs(builds: list[str], capsys: pytest.CaptureFixture[str]):
    names = [write(f"{c}.mcu", f"kernel {c}\n") for c in "abc"]
    assert main([names[0], "-j", *names[1:]]) == 0
    assert main([*names, "-j", "2", "--no-cache"]) == 0
    assert sorted(builds) == sorted(2 * [f"parts of {c}" for c in "abc"])
    assert {f"{c}.so" for c in "abc"} <= left()
    Path("sub").mkdir()
    assert main(["a.mcu", write("sub/a.mcu", "kernel x\n")]) == 2
    assert "two programs would be written to 'a.so'" in capsys.readouterr().err
    assert main(["a.mcu", "-j", "-3"]) == 2


def test_a_bad_program_does_not_keep_the_others(builds: list[str], capsys: pytest.CaptureFixture[str]):
    write("good.mcu", "kernel good\n")
    assert main([write("bad.mcu", "kernel error\n"), "good.mcu", "-j"]) == 1
    assert "good.so" in left() and "bad.so" not in left()
    assert "--> bad.mcu:1:8" in capsys.readouterr().err


def test_a_defect_does_not_keep_the_others(builds: list[str], capsys: pytest.CaptureFixture[str]):
    write("good.mcu", "kernel good\n")
    assert main([write("bad.mcu", "kernel crash\n"), "good.mcu", "-j"]) == 4
    assert "good.so" in left() and "bad.so" not in left()
    assert "error[MU9001]: bad.mcu: internal error: KeyError" in capsys.readouterr().err


def test_an_equal_request_runs_no_compiler(builds: list[str], capsys: pytest.CaptureFixture[str]):
    write("k.mcu", "kernel spill warn\n")
    assert main(["k.mcu", "-o", "k.so"]) == 0
    first, said = Path("k.so").read_bytes(), capsys.readouterr().err
    assert "MU2001" in said and "MU5201" in said and "--> k.mcu:1:1" in said
    assert main(["k.mcu", "-o", "again.so"]) == 0
    assert Path("again.so").read_bytes() == first
    assert capsys.readouterr().err == said, "a cached build gives the same warnings"
    assert (Compiler.runs, len(builds)) == (1, 1)


def test_a_program_that_means_the_same_runs_no_nvcc(builds: list[str]):
    assert main([write("k.mcu", "kernel k\n"), "-o", "k.so"]) == 0
    assert main([write("moved.mcu", "kernel   k // with a comment\n"), "-o", "moved.so"]) == 0
    assert (Compiler.runs, len(builds)) == (2, 1)


def test_no_cache(builds: list[str], tmp_path: Path):
    write("k.mcu")
    for _ in range(2):
        assert main(["k.mcu", "-o", "k.so", "--no-cache"]) == 0
    assert len(builds) == 2 and not (tmp_path / "cache").exists()


def test_save_temps_builds_anew_and_keeps_the_ir(builds: list[str]):
    write("k.mcu")
    for _ in range(2):
        assert main(["--save-temps", "k.mcu", "-o", "k.so"]) == 0
    assert len(builds) == 2
    assert left() == {"k.mcu", "k.so", "k.temps"}
    assert (Path("k.temps") / "k.cutlass.mlir").read_text().startswith("cutlass of k")
    assert main(["k.mcu", "-o", "k.so", "--save-temps=kept"]) == 0
    assert "k.mu.mlir" in os.listdir("kept")


def test_a_damaged_entry_is_repaired_with_a_warning(
    builds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write("k.mcu")
    assert main(["k.mcu", "-o", "k.so"]) == 0
    good = Path("k.so").read_bytes()
    for path in (tmp_path / "cache" / "artefacts").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-3])
    assert main(["k.mcu", "-o", "k.so"]) == 0
    assert Path("k.so").read_bytes() == good and "warning[MU5204]" in capsys.readouterr().err
    assert main(["k.mcu", "-o", "k.so"]) == 0
    assert capsys.readouterr().err == "" and len(builds) == 2


def test_an_unusable_cache_is_a_warning(
    builds: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MUCC_CACHE_DIR", "/dev/null/cache")
    assert main([write("k.mcu"), "-o", "k.so"]) == 0
    assert Path("k.so").exists() and capsys.readouterr().err.count("MU5203") == 1


def test_a_missing_toolchain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def missing(nvcc: str | None, host: str) -> discover.Toolchain:
        raise DiagnosticError(Diagnostic("MU5101", "nvcc was not found"))

    monkeypatch.setattr("mucc.build.artefact.find_toolchain", missing)
    assert main([write("k.mcu"), "-o", "k.so"]) == 3
    assert "error[MU5101]" in capsys.readouterr().err
    assert main([write("bad.mcu", "kernel error\n"), "-o", "k.so"]) == 1, "errors in the program come first"
    assert main(["k.mcu", "--emit=cu"]) == 0, "what needs no nvcc works without"
    assert left() == {"k.mcu", "bad.mcu"}


def test_cache_command(builds: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path):
    write("k.mcu")
    for _ in range(3):
        assert main(["k.mcu", "-o", "k.so"]) == 0
    assert main(["cache"]) == 0
    text = capsys.readouterr().out
    assert str(tmp_path / "cache") in text and "of 4.0 GiB\n" in text
    assert main(["cache", "stats", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    for level in ("requests", "artefacts"):
        row = stats["levels"][level]
        assert (row["entries"], row["hits"], row["misses"]) == (1, 2, 1) and row["size"] > 0
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 3 entries")
    assert main(["k.mcu", "-o", "k.so"]) == 0 and len(builds) == 2
