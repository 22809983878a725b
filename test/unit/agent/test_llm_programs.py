"""Commands as models, and what mucc says of the programs that they propose."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from modellib import PROGRAM, good, scheduled, view
from processes import gone

from mucc.agent.core.proposer import ProposerFailed
from mucc.agent.propose.llm import checking, make
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.proposer import ModelProposer


def python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def asks(code: str, **more: Any) -> ModelProposer:
    made = make("command", Options(command=python(code), retries=0, **more))
    assert isinstance(made, ModelProposer)
    return made


def test_a_command_gets_the_prompt_and_answers():
    code = (
        "import sys; text = sys.stdin.read(); assert 'reference card' in text and 'gemm/linear' in text\n"
        """print('```json\\n{"hypotheses": [{"title": "from %d"}]}\\n```' % text.count('kernel linear'))"""
    )
    reply = asks(code, model="mine").nominate(view(), 2, good(0, 1.0))
    assert reply.value[0].title.startswith("from ") and reply.calls[0].model == "mine"
    assert reply.calls[0].estimated and reply.calls[0].cost is None


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import sys; print('out of luck', file=sys.stderr); sys.exit(3)",
            "ended with status 3: out of luck",
        ),
        ("import os; os.kill(os.getpid(), 9)", "ended with signal 9"),
        ("import time; time.sleep(60)", "did not end within 0.5 s"),
        ("print('x' * (5 << 20))", "printed more than 4096 KiB"),
    ],
)
def test_a_command_that_fails_is_an_error(code: str, said: str):
    more: dict[str, Any] = {"call_timeout": 0.5} if "sleep" in code else {}
    with pytest.raises(ProposerFailed, match=said) as error:
        asks(code, **more).nominate(view(), 1, good(0, 1.0))
    assert error.value.calls and not error.value.final


def test_whatever_a_command_started_ends_with_it(tmp_path: Path):
    path = tmp_path / "pid"
    inner = "import os, time; os.setsid(); time.sleep(60)"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {inner!r}], stdout=subprocess.DEVNULL)\n"
        f"open({str(path)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(0.2); print('hello')"
    )
    with pytest.raises(ProposerFailed):
        asks(code, repairs=0).nominate(view(), 1, good(0, 1.0))
    assert gone(int(path.read_text()))


def signed(program: str) -> dict[str, Any]:
    """The kernels of a program, compiled in this process."""
    from mucc.compiler.program import compile_source
    from mucc.diagnostics.core import Source

    return checking.signatures(
        json.loads(compile_source(Source("p.mcu", program), "sm_90a").emit("manifest"))
    )


def test_programs_are_checked():
    assert checking.check(scheduled(), PROGRAM, "sm_90a").fault == ""
    assert "- linear.out (gemm): compute tf32, tile 128x128x32" in checking.schedules(scheduled(), "sm_90a")
    fault = checking.check(scheduled("100x128x32"), PROGRAM, "sm_90a").fault
    assert "MU3001 line 6, column 12" in fault and "multiple of 64" in fault


def test_kernels_keep_their_names_arguments_and_results():
    imported = signed(PROGRAM)
    renamed = PROGRAM.replace("[M, N, K]", "[R, C, D]").replace("M, N]", "R, C]")
    renamed = renamed.replace("[M, K]", "[R, D]").replace("[N, K]", "[C, D]").replace("K %", "D %")
    assert checking.difference(imported, signed(renamed)) == "", "dims may be called anything"
    fault = checking.difference(imported, signed(PROGRAM.replace("w:", "v:").replace("w.T", "v.T")))
    assert (
        "must be linear(x: f32[d0, d1], w: f32[d2, d1]) -> (out: f32[d0, d2])" in fault and "v: f32" in fault
    )
    fault = checking.difference(imported, signed(PROGRAM.replace("linear", "other")))
    assert "there is no kernel 'linear'" in fault and "there must be no kernel 'other'" in fault
    fault = checking.difference(imported, signed(PROGRAM.replace("-> f32[M, N]", "-> bf16[M, N]")))
    assert "(out: f32[d0, d2])\n  but is" in fault and "out: bf16" in fault


def test_a_check_has_its_time():
    assert "did not end within 0.01 s" in checking.check(PROGRAM, PROGRAM, "sm_90a", seconds=0.01).fault


def test_options_may_be_given_by_name_among_others():
    made = make("command", {"command": python("0"), "model": "mine", "jobs": 3})
    assert made.name == "command:mine"
