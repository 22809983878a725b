"""What proposers read from the answers of models: hypotheses, programs, JSON in any form, within limits."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from modellib import PROGRAM

from mucc.agent.propose.llm import answers, chat_completions, endpoint
from mucc.agent.propose.llm.answers import Malformed
from mucc.agent.propose.llm.endpoint import Answer, EndpointError
from mucc.agent.propose.llm.redaction import redact


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
@settings(max_examples=examples(150))
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
