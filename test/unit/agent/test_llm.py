"""Proposers that ask models, without a model: answers, prompts, prices, redaction, retries, commands."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modellib import PROGRAM, TILES, bad, good, scheduled, task, view
from processes import gone

from mucc.agent.core.analysis import Advice, Analysis, Limit, Severity
from mucc.agent.core.attempts import Status
from mucc.agent.core.proposer import Lesson, ProposerFailed
from mucc.agent.propose.llm import answers, budget, chat_completions, checking, endpoint, make, prompts
from mucc.agent.propose.llm.answers import Malformed
from mucc.agent.propose.llm.connection import retry_after
from mucc.agent.propose.llm.endpoint import Answer, EndpointError, Prompt, Stop, Tool, Usage
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.prices import Price, price_of
from mucc.agent.propose.llm.proposer import ModelProposer
from mucc.agent.propose.llm.redaction import holds_key, redact
from mucc.agent.propose.llm.retrying import Retrying
from mucc.diagnostics.core import DiagnosticError

KEY = "sk-proj-Zx81abcdEFGH2345ijkl"

# Answers


@pytest.mark.parametrize(
    "text",
    [
        '{"hypotheses": [{"title": "t", "speedup": 2}]}',
        'Here:\n```json\n{"hypotheses": [{"title": "t", "speedup": "2x"}]}\n```\nDone.',
        '```\n[{"title": "t", "speedup": 2.0}]\n```',
        'I think {"hypotheses": [{"title": " t ", "speedup": "2-3"}]} is it',
        '{"hypotheses": "[{\\"title\\": \\"t\\", \\"speedup\\": 2}]"}',
        '```json\n{"title": "t", "speedup": 2}\n',
    ],
)
def test_hypotheses_are_read_leniently(text: str):
    for answer in (Answer(text), Answer(arguments=text) if text.startswith("{") else Answer(text)):
        (found,) = answers.hypotheses(answer, 3, 5)
        assert (found.title, found.speedup, found.kind, found.parent) == ("t", 2.0, "other", 3)


def test_numbers_that_make_no_sense_take_bounds_or_defaults():
    item = {
        "title": "t",
        "speedup": 1e9,
        "implementation_risk": -4,
        "performance_risk": "high",
        "kind": "Tile",
    }
    (found,) = answers.hypotheses(Answer(arguments=json.dumps({"hypotheses": [item]})), 0, 1)
    assert (found.speedup, found.implementation_risk, found.performance_risk) == (100.0, 1.0, 1.0)
    assert found.kind == "tile"


def test_no_more_items_than_were_asked_for_and_bad_ones_among_good_are_left_out():
    items = [{"title": ""}, {"title": "a"}, "b", {"title": "c"}, {"title": "d"}]
    found = answers.hypotheses(Answer(arguments=json.dumps({"hypotheses": items})), 0, 2)
    assert [h.title for h in found] == ["a", "c"]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer("no idea"), 'neither a call of the tool "nominate"'),
        (Answer(arguments='{"hypotheses": [{"title": "t"'), "are not JSON"),
        (Answer(arguments='{"ideas": []}'), 'have no list "hypotheses"'),
        (Answer(arguments='{"hypotheses": [{"rationale": "r"}]}'), 'hypotheses[0] has no text "title"'),
        (Answer(arguments="[" * 100_000), "nested too deeply|not JSON"),
        (Answer('```json\n{"hypotheses": [}\n```'), "are not JSON"),
    ],
)
def test_the_fault_of_a_malformed_answer_is_said(answer: Answer, fault: str):
    with pytest.raises(Malformed) as error:
        answers.hypotheses(answer, 0, 2)
    assert any(word in str(error.value) for word in fault.split("|"))


def test_programs_come_in_tool_calls_or_in_fenced_blocks():
    said = json.dumps({"candidates": [{"change": "a  tile", "program": f"```mcu\n{PROGRAM}```"}]})
    assert answers.programs(Answer(arguments=said), 2) == [("a tile", PROGRAM)]
    text = (
        f"First.\n**CHANGE:** one\n```mcu\n{PROGRAM}```\n```\nnot a program\n```\nchange: two\n~~~\n{PROGRAM}"
    )
    assert answers.programs(Answer(text), 5) == [("one", PROGRAM), ("two", PROGRAM)]
    assert answers.programs(Answer(text), 1) == [("one", PROGRAM)]
    assert answers.programs(Answer(arguments='{"candidates": []}'), 1) == []
    with pytest.raises(Malformed, match="whole program"):
        answers.programs(Answer("```python\nprint()\n```"), 1)


# Prompts


def long_history(count: int) -> list[Any]:
    attempts = [good(0, 1.0)]
    for n in range(1, count):
        program = scheduled(f"{64 * (1 + n % 2)}x{16 * n}x32")
        attempts.append(good(n, 1.0 - n / 1000, program, f"tile number {n}"))
    return attempts


def test_a_prompt_holds_what_a_model_needs():
    attempts = [
        good(0, 1.0),
        good(1, 0.5, scheduled(), "a larger tile"),
        bad(
            2,
            Status.INVALID,
            scheduled("1x1x1"),
            "tiny",
            diagnostics=[{"code": "MU3001", "message": "no tile"}],
        ),
    ]
    analysis = Analysis(
        Limit.COMPUTE, 6.5, [Advice("waves", Severity.WARNING, "tail wave", ["a smaller tile"])]
    )
    lesson = Lesson("gemm/other", "tile", "256 columns", 1.4, {"dtype": "f32"})
    seen = view(attempts, analysis=analysis, lessons=[lesson], hypotheses=[TILES])
    prompt = prompts.nominate(seen, 2, attempts[1], 30_000, "- linear.out (gemm): stages 4")
    assert "# mucc reference card" in prompt.system
    for words in ("w: f32[N, K]", "bound 80 us, by tensor.tf32", "Precision policy `tf32`", "132 SMs"):
        assert words in prompt.task
    (question,) = prompt.messages
    for words in (
        "#1 from #0: a larger tile: 0.5 ms (best)",
        "tile = 128x128x32",
        "Schedules of #1 as compiled:\n- linear.out (gemm): stages 4",
        "MU3001",
        "tail wave",
        "256 columns: 1.40x",
        "(tile): larger tiles",
        "up to 2 hypotheses on how to make attempt #1 faster",
    ):
        assert words in question.text


def test_the_oldest_and_least_useful_is_left_out_first():
    attempts = long_history(40)
    lessons = [Lesson("t", "tile", f"lesson {n}", 1.1) for n in range(5)]
    seen = view(attempts, lessons=lessons)
    whole = prompts.nominate(seen, 2, attempts[39], 100_000)
    assert "lesson 0" in whole.text and "#2 against #0" in whole.text
    size = budget.tokens(whole.text)
    small = prompts.nominate(seen, 2, attempts[39], size - 600)
    assert budget.tokens(small.text) <= size - 600
    assert "lesson 0" not in small.text and "#2 against #0" not in small.text
    assert "#38 against #0" in small.text and "tile number 2:" in small.text
    assert attempts[39].candidate.program in small.text


def test_a_budget_that_is_too_small_is_an_error_before_any_call():
    endpoint = Scripted([])
    with pytest.raises(ProposerFailed, match="--context 300") as error:
        ModelProposer(endpoint, Options(context=300), scheduler=unseen).nominate(view(), 2, good(0, 1.0))
    assert error.value.code == "MU7249" and not error.value.final and endpoint.asked == []


def test_attempts_at_the_hypothesis_are_told_in_full():
    own = bad(1, Status.WRONG, scheduled("64x64x32"), "small", reason="off by 3")
    prompt = prompts.implement(view([good(0, 1.0), own]), 4, TILES, [own], 3, 30_000)
    assert "Hypothesis 4 (tile): larger tiles" in prompt.text and "reason: off by 3" in prompt.text
    assert "Attempts at it so far: #1 wrong" in prompt.text


# The core, with endpoints that follow a script


class Scripted:
    """An endpoint that gives answers, or raises errors, one after another."""

    provider, model, has_tools = "scripted", "m", True

    def __init__(self, script: list[Answer | EndpointError]):
        self.script = list(script)
        self.asked: list[tuple[Prompt, Tool, int]] = []

    def ask(self, prompt: Prompt, tool: Tool, limit: int) -> Answer:
        self.asked.append((prompt, tool, limit))
        found = self.script.pop(0)
        if isinstance(found, EndpointError):
            raise found
        return found


def nominated(*titles: str) -> Answer:
    items = [{"title": t, "rationale": "r", "kind": "tile", "speedup": 1.2} for t in titles]
    return Answer(arguments=json.dumps({"hypotheses": items}), usage=Usage(1000, 100, 400))


def implemented(*programs: str) -> Answer:
    items = [{"change": f"change {n}", "program": p} for n, p in enumerate(programs)]
    return Answer(arguments=json.dumps({"candidates": items}))


def unseen(program: str, target: str) -> str:
    return "- linear.out (gemm): tile 128x128x32"


def accept(program: str, imported: str, target: str) -> checking.Checked:
    return checking.Checked("" if "wrong" not in program else "it is wrong")


def proposer(*script: Answer | EndpointError, price: Price | None = None, **more: Any):
    endpoint = Scripted(list(script))
    waits: list[float] = []
    retrying = Retrying(3, sleep=waits.append, chance=lambda: 0.5)
    return ModelProposer(endpoint, Options(**more), price, retrying, accept, unseen), endpoint, waits


def test_every_call_is_accounted_for():
    made, _, _ = proposer(nominated("a", "b"), price=Price(1.0, 10.0, 0.1, 1.0))
    reply = made.nominate(view(), 2, good(0, 1.0))
    assert [h.title for h in reply.value] == ["a", "b"]
    (call,) = reply.calls
    assert (call.provider, call.model, call.purpose) == ("scripted", "m", "nominate")
    assert (call.prompt_tokens, call.cached_tokens, call.answer_tokens) == (1000, 400, 100)
    assert not call.estimated and call.cost == pytest.approx((600 + 40 + 1000) / 1e6)
    assert "gemm/linear" in call.prompt and "reference card" in call.prompt and "hypotheses" in call.answer


def test_tokens_that_nobody_counted_are_estimated():
    made, _, _ = proposer(implemented(scheduled()))
    (call,) = made.implement(view(), 0, TILES, [], 2).calls
    assert call.estimated and call.prompt_tokens > 2500 and call.answer_tokens > 20 and call.cost is None


def test_a_malformed_answer_is_mended_in_a_turn_that_names_the_fault():
    made, endpoint, _ = proposer(Answer("hello"), nominated("a"))
    reply = made.nominate(view(), 2, good(0, 1.0))
    assert [h.title for h in reply.value] == ["a"]
    assert [c.purpose for c in reply.calls] == ["nominate", "repair"]
    assert reply.calls[0].error.startswith("MU7245") and not reply.calls[1].error
    *_, said, told = endpoint.asked[1][0].messages
    assert said.role == "assistant" and said.text == "hello"
    assert told.role == "user" and 'neither a call of the tool "nominate"' in told.text
    assert reply.calls[1].prompt == f"hello\n\n{told.text}", "a repair turn stores what is new"


def test_repair_turns_are_bounded():
    made, endpoint, _ = proposer(*[Answer("hello")] * 9, repairs=2)
    with pytest.raises(ProposerFailed) as error:
        made.nominate(view(), 2, good(0, 1.0))
    assert error.value.code == "MU7245" and not error.value.final
    assert len(endpoint.asked) == len(error.value.calls) == 3
    made, endpoint, _ = proposer(*[implemented("wrong")] * 9, repairs=2)
    assert made.implement(view(), 0, TILES, [], 2).value == [] and len(endpoint.asked) == 3


def test_an_answer_that_was_cut_gets_more_room():
    made, endpoint, _ = proposer(
        Answer(arguments='{"hypotheses": [{"ti', stop=Stop.LENGTH), nominated("a"), answer_tokens=1000
    )
    reply = made.nominate(view(), 1, good(0, 1.0))
    assert [limit for _, _, limit in endpoint.asked] == [1000, 2000]
    assert "cut after 1000 tokens" in reply.calls[0].error


def test_empty_answers_and_refusals_are_recognised():
    made, _, _ = proposer(Answer(" "), repairs=0)
    with pytest.raises(ProposerFailed) as error:
        made.nominate(view(), 2, good(0, 1.0))
    assert error.value.code == "MU7247" and error.value.calls[0].error.startswith("MU7247")
    made, endpoint, _ = proposer(Answer("I can't help.", stop=Stop.REFUSED))
    with pytest.raises(ProposerFailed, match="I can't help") as error:
        made.nominate(view(), 2, good(0, 1.0))
    assert error.value.code == "MU7246" and not error.value.final and len(endpoint.asked) == 1
    made, _, _ = proposer(Answer("no", stop=Stop.REFUSED))
    reply = made.implement(view(), 0, TILES, [], 2)
    assert reply.value == [] and reply.calls[0].error.startswith("MU7246")


def test_a_model_may_say_that_it_is_done():
    for answer in (Answer("DONE."), implemented()):
        made, endpoint, _ = proposer(answer)
        reply = made.implement(view(), 0, TILES, [], 2)
        assert reply.value == [] and not reply.calls[0].error and len(endpoint.asked) == 1


def test_programs_that_are_good_are_kept_while_the_others_are_mended():
    fine, better = scheduled("64x64x32"), scheduled("128x64x32")
    made, endpoint, _ = proposer(implemented(fine, "wrong"), implemented(better, fine))
    reply = made.implement(view(), 7, TILES, [], 2)
    assert [c.program for c in reply.value] == [fine, better]
    assert all(c.hypothesis == 7 and c.parent == 0 for c in reply.value)
    assert reply.calls[0].error.startswith("MU7254") and "it is wrong" in reply.calls[0].error
    told = endpoint.asked[1][0].messages[-1].text
    assert "it is wrong" in told and "do not repeat them" in told


def test_good_programs_survive_a_failure_of_the_next_turn():
    fine = scheduled("64x64x32")
    slow = EndpointError("MU7241", "slow")
    made, _, _ = proposer(implemented(fine, "wrong"), slow, slow)
    reply = made.implement(view(), 0, TILES, [], 2)
    assert [c.program for c in reply.value] == [fine]
    assert [c.error[:6] for c in reply.calls] == ["MU7254", "MU7241", "MU7241"]


def test_what_was_tried_before_is_not_tried_again():
    again = "// a comment\n" + PROGRAM.replace("    return", "  return")
    made, endpoint, _ = proposer(implemented(again), implemented(scheduled(), scheduled()), Answer("DONE"))
    reply = made.implement(view(), 0, TILES, [], 3)
    assert [c.program for c in reply.value] == [scheduled()]
    assert "that of attempt #0" in endpoint.asked[1][0].messages[-1].text
    assert "given twice" in endpoint.asked[2][0].messages[-1].text


def test_failed_calls_are_tried_again_and_stay_in_the_account():
    busy = EndpointError("MU7240", "busy", after=7.0)
    broken = EndpointError("MU7242", "broken", partial=Answer("half an ans"))
    made, _, waits = proposer(busy, broken, nominated("a"))
    reply = made.nominate(view(), 1, good(0, 1.0))
    assert [c.error.partition(":")[0] for c in reply.calls] == ["MU7240", "MU7242", ""]
    assert (reply.calls[0].prompt_tokens, reply.calls[1].answer == "half an ans") == (0, True)
    assert reply.calls[1].estimated and reply.calls[1].prompt_tokens > 0, "what was broken off may be charged"
    assert 7.0 <= waits[0] <= 8.0


def test_final_failures_are_not_tried_again():
    made, endpoint, waits = proposer(EndpointError("MU7237", f"no: {KEY}", final=True))
    with pytest.raises(ProposerFailed) as error:
        made.nominate(view(), 1, good(0, 1.0))
    assert error.value.final and error.value.code == "MU7237" and len(endpoint.asked) == 1 and waits == []
    assert KEY not in error.value.message and KEY not in error.value.calls[0].error


def test_calls_that_take_their_whole_time_are_tried_once_more_only():
    slow = EndpointError("MU7241", "slow")
    made, endpoint, _ = proposer(*[slow] * 9)
    with pytest.raises(ProposerFailed):
        made.nominate(view(), 1, good(0, 1.0))
    assert len(endpoint.asked) == 2


def test_keys_in_answers_are_stored_nowhere():
    leaking = Answer(f"The key is {KEY}\nCHANGE: {KEY}\n```mcu\n// {KEY}\n{scheduled()}```")
    made, _, _ = proposer(leaking)
    reply = made.implement(view(), 0, TILES, [], 1)
    assert KEY not in repr(reply) and reply.value[0].program.startswith("// [redacted]")


# Waiting


def test_backoff_grows_is_capped_and_ends():
    waits: list[float] = []
    retrying = Retrying(4, first=1.0, longest=3.0, sleep=waits.append, chance=lambda: 1.0)
    assert [retrying.wait(n, None) for n in range(5)] == [True] * 4 + [False]
    assert waits == [1.0, 2.0, 3.0, 3.0]
    assert not retrying.wait(0, 1e6), "who asks for too long is not obeyed"


def test_all_threads_wait_as_long_as_one_was_told():
    waits: list[float] = []
    now = [100.0]
    retrying = Retrying(4, sleep=waits.append, clock=lambda: now[0], chance=lambda: 0.0)
    retrying.wait(0, 30.0)
    now[0] += 10
    retrying.wait_for_turn()
    assert waits == [30.0, 20.0]
    now[0] += 25
    retrying.wait_for_turn()
    assert len(waits) == 2


def test_retry_after_in_its_forms():
    assert retry_after({"retry-after": "7"}) == 7.0
    assert retry_after({"retry-after-ms": "250", "retry-after": "7"}) == 0.25
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 60))
    assert 50 < (retry_after({"retry-after": later}) or 0) < 70
    assert retry_after({"retry-after": "soon"}) is None and retry_after({}) is None


# Prices and keys


def test_prices_are_found_by_names_with_dates_and_routers():
    known = price_of("claude-haiku-4-5")
    assert known == Price(1.0, 5.0, 0.1, 1.25)
    assert price_of("claude-haiku-4-5-20251001") == price_of("anthropic/claude-haiku-4-5") == known
    assert price_of("a-model-of-mine") is None
    assert Price(1.0, 10.0, 0.1, 1.25).cost(Usage(1_000_000, 0, 400_000, 200_000)) == pytest.approx(0.69)


def test_prices_can_be_given(tmp_path: Path):
    assert price_of("m", "1,2") == Price(1, 2, 1, 1) and price_of("m", "1,2,0.5") == Price(1, 2, 0.5, 1)
    path = tmp_path / "p.toml"
    path.write_text('[[provider]]\nname = "x"\n[provider.models]\nm = { input = 3, output = 4 }\n')
    assert price_of("m", None, str(path)) == Price(3, 4, 3, 3)
    assert price_of("claude-opus-5", None, str(path)) is not None, "mucc's own list still holds"


@pytest.mark.parametrize("text", ["", "1", "1,x", "-1,2", "1,2,3,4", "inf,1"])
def test_a_price_that_is_none_is_an_error(text: str):
    with pytest.raises(DiagnosticError, match="MU7250"):
        price_of("m", text)


@pytest.mark.parametrize(
    "text", ["[", "x = 1", "[[provider]]\nmodels = 3", "[[provider]]\nmodels.m = {input = 1}"]
)
def test_a_list_of_prices_that_is_none_is_an_error(tmp_path: Path, text: str):
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(DiagnosticError, match="MU7250"):
        price_of("m", None, str(path))
    with pytest.raises(DiagnosticError, match="MU7250"):
        price_of("m", None, str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "sk-ant-api03-abcdefgh_ijkl-mnop1234",
        "Authorization: Bearer abc.def-123456",
        '{"x-api-key": "abcdef123456"}',
        "api_key=abcdef123456",
        "https://me:pass@models.example/v1",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnop1234",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ],
)
def test_what_looks_like_a_key_is_taken_out(text: str):
    shown = redact(f"before {text} after")
    assert "[redacted]" in shown and shown.startswith("before") and shown.endswith("after")
    assert not holds_key(shown)


def test_secrets_of_the_environment_are_taken_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_MODEL_TOKEN", "correct horse battery")
    monkeypatch.setenv("SHORT_KEY", "abc")
    assert redact("say correct horse battery and abc") == "say [redacted] and abc"


def test_programs_and_plain_words_stay_as_they_are():
    for text in (
        scheduled(),
        prompts.system(),
        prompts.task_text(task()),
        "the secret is patience; a bearer of news",
    ):
        assert redact(text) == text


# Options


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("openai", Options(), "MU5001"),
        ("command", Options(), "MU5001"),
        ("openai", Options(model="m", command="x"), "MU5001"),
        ("openai", Options(model="m", context=10), "MU5001"),
        ("openai", Options(model="m", call_timeout=0), "MU5001"),
        ("openai", Options(model="m", key_env=KEY), "MU5001"),
        ("command", Options(command=f"ask --key {KEY}"), "MU5001"),
        ("command", Options(command="ask 'open"), "MU5001"),
        ("command", Options(command="no-such-program-anywhere"), "MU7248"),
    ],
)
def test_options_that_do_not_fit_are_errors(name: str, options: Options, code: str):
    with pytest.raises(DiagnosticError, match=code) as error:
        make(name, options)
    assert KEY not in str(error.value)


def test_options_may_be_given_by_name_among_others():
    made = make("command", {"command": python("0"), "model": "mine", "jobs": 3})
    assert made.name == "command:mine"


# Commands


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


# What mucc says of programs


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


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("hypotheses", "candidates", "title", "program", "change", "speedup", "kind")),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(VALUES, st.sampled_from(("{}", "```json\n{}\n```", "so: {}", "```\n{}")), st.booleans())
@settings(max_examples=150)
def test_any_json_is_read_or_named_malformed(value: Any, form: str, tool: bool):
    text = json.dumps(value)
    answer = Answer(arguments=text) if tool else Answer(form.replace("{}", text))
    with contextlib.suppress(Malformed):
        for change, program in answers.programs(answer, 3):
            assert change and program.strip()
    with contextlib.suppress(Malformed):
        for found in answers.hypotheses(answer, 0, 3):
            assert found.title and found.kind in answers.KINDS and 0 < found.speedup <= 100


LONG = 200_000


@pytest.mark.parametrize(
    ("head", "repeated", "tail"),
    [
        ("", "\n", ""),
        ("", "```\n", ""),
        ("", "```mcu\n", ""),
        ("change: a", " ", "b\n```mcu\nkernel\n```"),
        ("secret", " ", "x"),
        ("", "eyJ-abcdefgh-", ""),
        ("", "a-", "://"),
        ("", "-----BEGIN ", ""),
        ("", "{", ""),
        ('{"hypotheses": ', "9", ""),
        ("", "kernel ", ""),
    ],
)
def test_the_time_that_an_answer_takes_to_read_grows_with_its_length(head: str, repeated: str, tail: str):
    def seconds(length: int) -> float:
        text = head + repeated * (length // len(repeated)) + tail
        began = time.thread_time()
        redact(text)
        for read in (
            lambda: answers.programs(Answer(text), 2),
            lambda: answers.hypotheses(Answer(text), 0, 2),
        ):
            with contextlib.suppress(Malformed):
                read()
        return time.thread_time() - began

    # Eight times the text would take 64 times as long at worst.
    assert min(seconds(LONG) for _ in range(5)) < 32 * min(seconds(LONG // 8) for _ in range(5))


@pytest.mark.parametrize("word", ["a", "ä", "\U0001f980"])
def test_an_answer_is_bounded_in_bytes(word: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(endpoint, "LARGEST", 1 << 20)
    partial = endpoint.Partial()
    size = len(word.encode())
    for _ in range((1 << 20) // (size * 1024)):
        partial.say(word * 1024, argument=bool(len(partial.text) % 2))
    with pytest.raises(EndpointError, match="more than 1 MiB") as caught:
        partial.say(word * 1024)
    assert caught.value.code == "MU7243" and caught.value.final
    assert len(partial.answer().text.encode()) <= 1 << 20


def test_a_response_in_one_piece_is_bounded_before_it_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chat_completions, "LARGEST", 1 << 20)
    taken = 0

    class Endless:
        def iter_bytes(self) -> Any:
            nonlocal taken
            while True:
                taken += 1 << 16
                yield bytes(1 << 16)

    with pytest.raises(EndpointError, match="more than 4 MiB"):
        chat_completions._capped(Endless())  # pyright: ignore[reportPrivateUsage]
    assert taken <= (4 << 20) + (1 << 16)
