"""Dispatch to commands, their options, and exit statuses."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from compiler_stand_in import PROGRAM, left, write

from mucc.agent.cli.main import TOOL as AGENT
from mucc.agent.cli.models import ModelArguments
from mucc.agent.cli.optimize import main as optimize
from mucc.agent.propose.llm.options import Options as ModelOptions
from mucc.cli.main import main
from mucc.cli.parameters import Option
from mucc.cli.registry import COMMANDS, Tool
from mucc.cli.registry import MUCC as MUCC_TOOL
from mucc.cli.reporting import Reporter
from mucc.diagnostics import Diagnostic, Severity
from mucc.diagnostics.codes import CODES

pytestmark = pytest.mark.usefixtures("here")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text and command.help in text for name, command in COMMANDS.items())
    assert main([]) == 2


@pytest.mark.parametrize(
    ("tool", "name"), [pytest.param(t, n, id=f"{t.name} {n}") for t in (MUCC_TOOL, AGENT) for n in t.commands]
)
def test_every_command_has_help(tool: Tool, name: str, capsys: pytest.CaptureFixture[str]):
    assert main([name, "--help"], tool) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: {tool.name} ") and "  -h, --help" in text
    for parameter in import_module(tool.commands[name].module).main.params:
        words = parameter.opts if isinstance(parameter, Option) else [parameter.metavar]
        assert all(f"{word}" in text for word in words) and parameter.help
    assert main([name, "nonsense", "-h"], tool) == 0
    assert capsys.readouterr().out == text


def test_defaults_are_in_the_help(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--iters N timed launches (default: 50)" in text
    assert "compile for; see `mucc targets` (default: sm_90a)" in text


def test_options_have_values_in_all_forms(capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    forms = (
        ["--emit", "cu"],
        ["--emit=cu"],
        ["-o=-", "--emit=cu"],
        ["-o-", "--emit=cu"],
        ["-vo", "-", "--emit=cu"],
    )
    for form in forms:
        assert main(["k.mcu", *form]) == 0
        assert main([*form, "k.mcu"]) == 0
        assert main([*form, "--", "k.mcu"]) == 0
        assert capsys.readouterr().out == 3 * "cu of k for sm_90a\n"
    assert main(["k.mcu", "--emit=ast", "--emit=cu"]) == 0
    assert capsys.readouterr().out == "cu of k for sm_90a\n", "the last one counts"


def test_options_of_models_are_those_of_the_library():
    assert [(f.name, f.default, f.type) for f in fields(ModelArguments)] == [
        (f.name, f.default, f.type) for f in fields(ModelOptions)
    ]
    assert optimize.parse([]) == optimize.arguments()


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mucc {version('mucc')}\n"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["chek", "k.mcu"], "MU5002", "did you mean 'mucc check'?"),
        (["frobnicate"], "MU5002", "`mucc --help` lists the commands"),
        (["help", "chek"], "MU5002", "did you mean 'mucc check'?"),
        (["check", "-k.mcu"], "MU5001", "there is no option '-k.mcu'\n  = help: `mucc check --help`"),
        (["k.mcu", "--taget", "sm_90a"], "MU5001", "did you mean '--target'?"),
        (["k.mcu", "-q"], "MU5001", "there is no option '-q'"),
        (["k.mcu", "--emit", "cutlas"], "MU5001", "did you mean 'cutlass'?"),
        (["k.mcu", "--emit"], "MU5001", "argument --emit: expected one argument"),
        (["k.mcu", "--emit", "--json"], "MU5001", "argument --emit: expected one argument"),
        (["k.mcu", "-o", "--emit=cu"], "MU5001", "argument -o: expected one argument"),
        (["k.mcu", "--emit", "--", "cu"], "MU5001", "argument --emit: expected one argument"),
        (["k.mcu", "--json=yes"], "MU5001", "argument --json: ignored explicit argument 'yes'"),
        (["k.mcu", "-v=1"], "MU5001", "argument -v/--verbose: ignored explicit argument '1'"),
        (["k.mcu", "-vq"], "MU5001", "there is no option '-q'"),
        (["k.mcu", "-jx"], "MU5001", "-j/--jobs takes a whole number, not 'x'"),
        (["k.mcu", "--verb"], "MU5001", "did you mean '--verbose'?"),
        (["k.mcu", "--print-ir"], "MU5001", "it may be --print-ir-after or --print-ir-after-all"),
        (
            ["k.mcu", "--explain=x"],
            "MU5001",
            "there is no option '--explain'\n  = help: options are not abbreviated: it may be"
            " --explain-fusion or --explain-schedule",
        ),
        (["device", "show", "h200", "more"], "MU5001", "unexpected argument 'more'"),
        (["--", "-x.mcu"], "MU5010", "there is no file '-x.mcu'"),
        (["check", "--", "--help"], "MU5010", "there is no file '--help'"),
        (["k.mcu", "--timeout", "soon"], "MU5001", "--timeout takes a number, not 'soon'"),
        (["k.mcu", "--timeout", "-1"], "MU5001", "above 0"),
        (["k.mcu", "--timeout", "nan"], "MU5001", "above 0"),
        (["cache", "warm", "--target", "sm_90"], "MU4001", "unknown target 'sm_90'"),
        (["import", "k.mcu", "--target", "sm_90"], "MU4001", "unknown target 'sm_90'"),
        (["import", "k.mcu", "--name", "kernel"], "MU5001", "'kernel' cannot be the name of a kernel"),
        (["import", "k.mcu", "--name", "2x"], "MU5001", "no reserved words"),
        (
            ["import", "k.mcu", "--memory-limit", "9" * 20],
            "MU5001",
            "needs a number from 1 to",
        ),
        (
            ["import", "k.mcu", "--time-limit", "0"],
            "MU5001",
            "needs a number of seconds above 0",
        ),
        (
            ["import", "k.mcu", "-o", "a.py", "--driver", "./a.py"],
            "MU5001",
            "would both be written to './a.py'",
        ),
        (["k.mcu", "k.mcu", "-o", "k.so"], "MU5001", "2 input files"),
        (["k.mcu", "./k.mcu"], "MU5001", "run mucc once for each, with -o"),
        (["import", "-"], "MU5001", "a problem comes from a file"),
        (["sol", "k.py", "--dims", "M=4"], "MU5001", "--dims is for .mcu files"),
        (["bench", "k.mcu", "--plot", "times.png"], "MU5001", "--plot draws SVG"),
        (["bench", "k.mcu", "--plot", "no/times.svg"], "MU5012", "mkdir -p no"),
        (["bench", "k.mcu", "--first-call", "nan"], "MU5001", "above 0"),
        (
            ["tune", "k.mcu", "--build-only", "a", "--measure-only", "b"],
            "MU5001",
            "--build-only and --measure-only do not go together",
        ),
        (["--emit=cu"], "MU5001", "no input file"),
        (["k.mcu", "--print-ir-after=form-stage"], "MU5001", "did you mean 'form-stages'?"),
        (["check"], "MU5001", "no input file"),
        (["fmt"], "MU5001", "no input file"),
        (["docs"], "MU5001", "--card"),
        (["docs", "--card", "--grammar"], "MU5001", "not allowed with"),
        (["cache", "cler"], "MU5001", "did you mean 'clear'?"),
        (["run", "k.mcu", "--device", "gpu"], "MU5001", "did you mean 'cuda'?"),
        (["docs", "--card", "--json"], "MU5001", "did you mean '--diagnostics=json'?"),
        (["explain", "MU5O10"], "MU5003", "did you mean"),
        (["k.mcu", "--emit=so", "-o", "-"], "MU5001", "cannot go to stdout"),
        (["-", "--emit=so"], "MU5001", "add -o kernel.so"),
        (["missing.mcu"], "MU5010", "there is no file 'missing.mcu'"),
        (["kk.mcu"], "MU5010", "did you mean 'k.mcu'?"),
        (["."], "MU5011", "is a directory"),
        (["check", "."], "MU5011", "is a directory"),
        (["k.mcu", "-o", "no/k.so"], "MU5012", "mkdir -p no"),
        (["k.mcu", "-o", "."], "MU5013", "is a directory"),
        (["k.mcu", "-o", "no/"], "MU5013", "is a directory"),
        (["k.mcu", "--emit=mu", "-o", "k.mcu"], "MU5015", "would be overwritten"),
        (["k.mcu", "--print-ir-after-all", "--diagnostics=json"], "MU5001", "both want stderr"),
    ],
)
def test_wrong_usage(argv: list[str], code: str, said: str, capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    assert main(argv) == 2
    output = capsys.readouterr()
    is_json = not {"--diagnostics=json", "--json"}.isdisjoint(argv)
    assert f"{'' if is_json else 'error['}{code}" in output.err and said in output.err
    assert output.out == "" and left() == {"k.mcu"}
    assert Path("k.mcu").read_text() == PROGRAM


@pytest.mark.parametrize("code", CODES)
def test_the_exit_status_of_an_error_is_that_of_its_entry(code: str):
    reporter = Reporter(json=True)
    reporter.add([Diagnostic(code, "as a warning", severity=Severity.WARNING)])
    assert reporter.status == 0
    reporter.add([Diagnostic(code, "as an error")])
    assert reporter.status == CODES[code].status > 0


def test_the_gravest_exit_status_counts():
    reporter = Reporter(json=True)
    for code, status in (
        ("MU0001", 1),
        ("MU5001", 2),
        ("MU1001", 2),
        ("MU5101", 3),
        ("MU5020", 3),
        ("MU9001", 4),
    ):
        reporter.add([Diagnostic(code, "wrong")])
        assert reporter.status == status


def test_exit_statuses_of_areas():
    """What `mucc --help` and docs/errors.md say about statuses holds for whole areas of codes."""
    statuses = {code: int(info.status) for code, info in CODES.items()}
    assert {s for c, s in statuses.items() if c[:3] in ("MU0", "MU1", "MU2", "MU3")} == {1}
    assert {s for c, s in statuses.items() if c.startswith("MU502")} == {1}
    assert {s for c, s in statuses.items() if c.startswith("MU50") and not c.startswith("MU502")} == {2}
    assert {s for c, s in statuses.items() if c[:4] in ("MU51", "MU52", "MU53")} == {3}
    assert {s for c, s in statuses.items() if c.startswith("MU9")} == {4}
    assert set(statuses.values()) == {1, 2, 3, 4}


def _with_json() -> list[tuple[Tool, str]]:
    return [
        (tool, name)
        for tool in (MUCC_TOOL, AGENT)
        for name, entry in tool.commands.items()
        if any("--json" in parameter.opts for parameter in import_module(entry.module).main.params)
    ]


@pytest.mark.parametrize(("tool", "name"), [pytest.param(t, n, id=f"{t.name} {n}") for t, n in _with_json()])
def test_errors_of_commands_with_json_are_json(tool: Tool, name: str, capsys: pytest.CaptureFixture[str]):
    for words in (["--json", "--no-such-option"], ["--json", "gone.mcu", "gone.py"]):
        status = main([name, *words], tool)
        output = capsys.readouterr()
        (error,) = json.loads(output.err)
        assert status == CODES[error["code"]].status
        assert error["severity"] == "error" and error["code"] in CODES and not output.out


def test_json_says_nothing_on_stderr_where_all_is_good(capsys: pytest.CaptureFixture[str]):
    assert main(["targets", "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == "" and json.loads(output.out)
    assert main(["targets", "--json", "--diagnostics=json"]) == 0
    assert json.loads(capsys.readouterr().err) == []
    assert main(["sol", "gone.mcu", "--json", "--diagnostics=text"]) == 2
    assert capsys.readouterr().err.startswith("error[MU5010]")
    assert main(["sol", "gone.mcu", "--json", "--diagnostics", "text"]) == 2
    assert capsys.readouterr().err.startswith("error[MU5010]")
