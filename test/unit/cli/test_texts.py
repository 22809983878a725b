"""Texts of all levels, diagnostics, and defects. The compiler is a stand-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from compiler_stand_in import left, write

from mucc.cli.main import main

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("kind", ["ast", "mu", "stages", "cutlass", "schedule", "cu", "header", "manifest"])
def test_text_goes_to_stdout_or_a_file(kind: str, capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    assert main(["k.mcu", f"--emit={kind}"]) == 0
    assert capsys.readouterr().out == f"{kind} of k for sm_90a\n"
    assert main(["k.mcu", "--emit", kind, "-o", "out", "--target", "sm_100a"]) == 0
    target = "sm_90a" if kind in ("ast", "mu") else "sm_100a"  # the first two say nothing about targets
    assert Path("out").read_text() == f"{kind} of k for {target}\n"


@pytest.mark.parametrize("kind", ["ast", "mu"])
@pytest.mark.parametrize(
    ("option", "code"), [("--target=sm_90", "MU4001"), ("--dims=M=0", "MU6050"), ("--dims=M", "MU6050")]
)
def test_wrong_options_are_errors_where_they_change_nothing(
    kind: str, option: str, code: str, capsys: pytest.CaptureFixture[str]
):
    write("k.mcu")
    assert main(["k.mcu", f"--emit={kind}", option, "-o", "out"]) == 2
    output = capsys.readouterr()
    assert code in output.err and not output.out and left() == {"k.mcu"}


@pytest.mark.parametrize(("name", "kind"), [("k.cu", "cu"), ("k.h", "header")])
def test_the_name_of_the_output_says_what_to_make(name: str, kind: str):
    write("k.mcu")
    assert main(["k.mcu", "-o", name]) == 0
    assert Path(name).read_text().startswith(kind)


def test_several_files_without_an_output(capsys: pytest.CaptureFixture[str], builds: list[str]):
    assert main([write("a.mcu", "kernel a\n"), write("b.mcu", "kernel b\n"), "--emit=mu"]) == 0
    assert capsys.readouterr().out == "mu of a for sm_90a\nmu of b for sm_90a\n"
    assert main(["a.mcu", "b.mcu"]) == 0
    assert left() == {"a.mcu", "b.mcu", "a.so", "b.so"}


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"kernel error\n")))
    assert main(["check", "-"]) == 1
    assert "--> <stdin>:1:8" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["--emit=cu"], ["-o", "k.so"], ["check"]])
def test_all_errors_are_reported_and_nothing_is_written(
    command: list[str], capsys: pytest.CaptureFixture[str], builds: list[str]
):
    write("k.mcu", "kernel k error error\n")
    argv = [*command, "k.mcu"] if command == ["check"] else ["k.mcu", *command]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert error.count("error[MU0001]: unexpected word") == 2 and "--> k.mcu:1:10" in error
    assert error.endswith("\n2 errors\n")
    assert left() == {"k.mcu"} and builds == []


def test_warnings_do_not_fail(capsys: pytest.CaptureFixture[str]):
    assert main(["check", write("k.mcu", "kernel k warn\n")]) == 0
    assert "warning[MU2001]: beware" in (error := capsys.readouterr().err) and error.endswith("\n1 warning\n")


def test_check_goes_through_all_files(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "gone.mcu", write("a.mcu", "kernel error\n"), write("b.mcu")]) == 2
    error = capsys.readouterr().err
    assert "MU5010" in error and "MU0001" in error and error.endswith("\n2 errors\n")


def test_json_is_one_list_on_stderr(capsys: pytest.CaptureFixture[str]):
    write("k.mcu", "kernel k warn error\n")
    assert main(["check", "k.mcu", "--diagnostics=json"]) == 1
    values = json.loads(capsys.readouterr().err)
    assert [(v["severity"], v["span"]["file"], v["span"]["column"]) for v in values] == [
        ("warning", "k.mcu", 1),
        ("error", "k.mcu", 15),
    ]
    for argv, status in ((["check", write("good.mcu")], 0), (["--nonsense"], 2), (["gone.mcu"], 2)):
        assert main([*argv, "--diagnostics", "json"]) == status
        assert len(json.loads(capsys.readouterr().err)) == (status > 0)


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"", "MU5021"), (b" \n\t\n", "MU5021"), (b"kernel \xff", "MU5020"), (b"\x7fELF\x90\x00", "MU5020")],
)
def test_contents_that_are_no_program(
    data: bytes, code: str, capsys: pytest.CaptureFixture[str], builds: list[str]
):
    Path("k.mcu").write_bytes(data)
    for argv in (["k.mcu"], ["check", "k.mcu"], ["k.mcu", "--emit=cu"]):
        assert main(argv) == 1
        assert f"error[{code}]" in capsys.readouterr().err
    assert left() == {"k.mcu"}


def test_a_byte_order_mark_is_no_text():
    Path("k.mcu").write_bytes(b"\xef\xbb\xbfkernel k\n")
    assert main(["k.mcu", "--emit=mu"]) == 0


def test_print_ir(capsys: pytest.CaptureFixture[str]):
    assert main([write("k.mcu"), "--emit=mu", "--print-ir-after-all"]) == 0
    output = capsys.readouterr()
    assert output.err == "IR after every pass\n" and output.out == "mu of k for sm_90a\n"
    assert main(["k.mcu", "--emit=mu", "--print-ir-after=form-stages", "--print-ir-after", "decompose"]) == 0
    assert capsys.readouterr().err == "IR after form-stages, decompose\n"


def test_a_defect_is_an_internal_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    write("k.mcu", "kernel k crash\n")
    assert main(["check", "k.mcu"]) == 4
    error = capsys.readouterr().err
    assert "error[MU9001]: internal error: KeyError: 'no such thing'" in error and "Traceback" not in error
    assert main(["check", "k.mcu", "--verbose"]) == 4
    assert "compile_text" in capsys.readouterr().err
    monkeypatch.setenv("MUCC_DEBUG", "1")
    assert main(["check", "k.mcu"]) == 4
    assert "compile_text" in capsys.readouterr().err


def test_ctrl_c(builds: list[str]):
    assert main([write("k.mcu", "kernel k interrupt\n"), "-o", "k.so"]) == 130
    assert left() == {"k.mcu"}
