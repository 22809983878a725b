"""Calls of proposers to models, by endpoints that follow a script: turns, retries, waiting."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from modellib import PROGRAM, TILES, good, scheduled, view

from mucc.agent.core.proposer import ProposerFailed
from mucc.agent.propose.llm import checking
from mucc.agent.propose.llm.connection import retry_after
from mucc.agent.propose.llm.endpoint import Answer, EndpointError, Prompt, Stop, Tool, Usage
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.prices import Price
from mucc.agent.propose.llm.proposer import ModelProposer
from mucc.agent.propose.llm.retrying import Retrying

KEY = "sk-proj-Zx81abcdEFGH2345ijkl"


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


def test_a_budget_that_is_too_small_is_an_error_before_any_call():
    endpoint = Scripted([])
    with pytest.raises(ProposerFailed, match="--context 300") as error:
        ModelProposer(endpoint, Options(context=300), scheduler=unseen).nominate(view(), 2, good(0, 1.0))
    assert error.value.code == "MU7249" and not error.value.final and endpoint.asked == []
