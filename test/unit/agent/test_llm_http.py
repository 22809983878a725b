"""Proposers that ask models over real HTTP: the official clients against a local server of both protocols."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from installed import needs
from modellib import PROGRAM, TILES, good, scheduled, view
from modelserver import (
    CHUNKED,
    ModelServer,
    Reply,
    Request,
    Wire,
    chat_events,
    message_events,
    raw,
    status,
    streamed,
)
from processes import HANG

from mucc.agent.core.proposer import Call, ProposerFailed
from mucc.agent.propose.llm import make
from mucc.agent.propose.llm.checking import Checked
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.prices import Price
from mucc.agent.propose.llm.proposer import ModelProposer
from mucc.agent.propose.llm.retrying import Retrying
from mucc.diagnostics.core import DiagnosticError

needs("openai", reason="the client openai is not installed: pip install 'mucc[agent]'")
needs("anthropic", reason="the client anthropic is not installed: pip install 'mucc[agent]'")

KEYS = {"openai": "sk-local-0123456789abcdef", "anthropic": "sk-ant-local-0123456789abcdef"}
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
EVENTS: dict[str, Callable[..., list[str]]] = {"openai": chat_events, "anthropic": message_events}

IDEAS = {"hypotheses": [{"title": "larger tiles", "rationale": "reuse", "kind": "tile", "speedup": 1.3}]}

both = pytest.mark.parametrize("name", ["openai", "anthropic"])


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEYS["openai"])
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEYS["anthropic"])


class Setting:
    """A server with its script, and a proposer that talks to it without waiting between tries."""

    def __init__(self, name: str, server: ModelServer, **options: Any):
        address = server.address + ("/v1" if name == "openai" else "")
        limits = {"first_token_timeout": 20.0, "silence_timeout": 20.0, "call_timeout": 60.0, "retries": 3}
        self.options = Options(**{"model": "scripted", "base_url": address, **limits, **options})
        self.waits: list[float] = []
        retrying = Retrying(self.options.retries, sleep=self.waits.append, chance=lambda: 0.0)
        made = make(name, self.options)
        self.proposer = ModelProposer(
            made._endpoint, self.options, Price(1, 10, 0.1, 1), retrying, accept, unseen
        )  # pyright: ignore[reportPrivateUsage]

    def nominate(self) -> list[Call]:
        """The calls of a nomination that works."""
        reply = self.proposer.nominate(view(), 2, good(0, 1.0))
        assert [h.title for h in reply.value] == ["larger tiles"]
        return list(reply.calls)

    def fails(self) -> ProposerFailed:
        """Why a nomination does not work."""
        with pytest.raises(ProposerFailed) as error:
            self.proposer.nominate(view(), 2, good(0, 1.0))
        return error.value


def unseen(program: str, target: str) -> str:
    return "- linear.out (gemm): tile 128x128x32"


def accept(program: str, imported: str, target: str) -> Checked:
    return Checked("")


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[Setting, ModelServer]]]:
    import contextlib

    with contextlib.ExitStack() as stack:

        def start(name: str, *script: Reply, **options: Any) -> tuple[Setting, ModelServer]:
            server = stack.enter_context(ModelServer(list(script)).serving())
            return Setting(name, server, **options), server

        yield start


Serve = Callable[..., tuple[Setting, ModelServer]]


def ideas(name: str, **more: Any) -> Reply:
    return streamed(EVENTS[name]("", ("nominate", IDEAS), **more))


# What goes well


@both
def test_a_tool_call_is_streamed_and_counted(name: str, serve: Serve):
    setting, server = serve(name, ideas(name))
    (call,) = setting.nominate()
    assert (call.prompt_tokens, call.cached_tokens, call.answer_tokens) == (1000, 800, 50)
    assert not call.estimated and call.provider == name and setting.proposer.name == f"{name}:scripted"
    assert call.cost == pytest.approx((200 + 80 + 500) / 1e6)
    (request,) = server.requests
    assert request.path == PATHS[name] and request.tool == "nominate" and request.body["stream"] is True
    assert any(KEYS[name] in value for value in request.headers.values())
    assert KEYS[name] not in repr(call)


def test_the_card_and_the_task_are_marked_for_the_cache(serve: Serve):
    setting, server = serve("anthropic", ideas("anthropic"))
    setting.nominate()
    body = server.requests[0].body
    assert "reference card" in body["system"][0]["text"] and body["system"][0]["cache_control"]
    task, question = body["messages"][0]["content"]
    assert "gemm/linear" in task["text"] and task["cache_control"] and "cache_control" not in question
    assert "tool_choice" not in body and "temperature" not in body


@both
def test_programs_in_fenced_blocks_will_do(name: str, serve: Serve):
    text = f"Sure.\nCHANGE: tile\n```mcu\n{scheduled()}```\n"
    setting, _ = serve(name, streamed(EVENTS[name](text)))
    (found,) = setting.proposer.implement(view(), 2, TILES, [], 2).value
    assert (found.change, found.program, found.hypothesis) == ("tile", scheduled(), 2)


@both
def test_without_tools_none_is_offered(name: str, serve: Serve):
    text = f"```json\n{json.dumps(IDEAS)}\n```"
    setting, server = serve(name, streamed(EVENTS[name](text)), no_tools=True)
    setting.nominate()
    assert server.requests[0].tool == ""


def test_an_endpoint_that_does_not_stream_will_do(serve: Serve):
    function = {"name": "nominate", "arguments": json.dumps(IDEAS)}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]}
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    }
    setting, _ = serve("openai", raw("application/json", json.dumps(body)))
    (call,) = setting.nominate()
    assert (call.prompt_tokens, call.answer_tokens, call.estimated) == (9, 3, False)


def test_an_endpoint_that_counts_nothing_is_estimated(serve: Serve):
    setting, _ = serve("openai", ideas("openai", usage=None))
    (call,) = setting.nominate()
    assert call.estimated and call.prompt_tokens > 2500 and call.answer_tokens > 10


def test_an_endpoint_of_ones_own_needs_no_key(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    setting, _ = serve("openai", ideas("openai"))
    setting.nominate()


@both
def test_a_key_may_lie_in_another_variable(name: str, serve: Serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARE_KEY", "another-key-12345")
    setting, server = serve(name, ideas(name), key_env="SPARE_KEY")
    setting.nominate()
    assert any("another-key-12345" in value for value in server.requests[0].headers.values())


# Endpoints that take less than all


@pytest.mark.parametrize(
    "part", ["stream_options", "max_completion_tokens", "tool_choice", "tools", "temperature"]
)
def test_what_an_endpoint_rejects_is_left_out_from_then_on(part: str, serve: Serve):
    body = {"error": {"message": f"Unsupported parameter: '{part}' is not supported", "param": part}}
    text = f"```json\n{json.dumps(IDEAS)}\n```"
    setting, server = serve(
        "openai", status(400, body), streamed(chat_events(text)), streamed(chat_events(text)), temperature=0.5
    )
    assert len(setting.nominate()) == 1, "nothing was lost but a moment"
    setting.nominate()
    first, second, third = (request.body for request in server.requests)
    assert part in first and part not in second and part not in third
    if part == "max_completion_tokens":
        assert second["max_tokens"] == setting.options.answer_tokens


def test_a_prompt_that_is_too_long_leaves_the_request_as_it_is(serve: Serve):
    said = "This model's maximum context length is 8192 tokens: 9000 in the messages, 200 in the functions"
    setting, server = serve("openai", status(400, {"error": {"message": said}}))
    assert setting.fails().code == "MU7244" and len(server.requests) == 1


def test_a_model_with_a_lower_limit_of_tokens_is_asked_for_less(serve: Serve):
    message = "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for scripted"
    setting, server = serve(
        "anthropic",
        status(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
        ideas("anthropic"),
    )
    setting.nominate()
    assert [r.body["max_tokens"] for r in server.requests] == [16384, 8192]


# What goes wrong for good


@both
@pytest.mark.parametrize(
    ("code", "expected"), [(401, "MU7237"), (403, "MU7237"), (404, "MU7238"), (402, "MU7253")]
)
def test_final_errors_are_not_tried_again(name: str, code: int, expected: str, serve: Serve):
    message = f"Incorrect API key provided: {KEYS[name]}"
    setting, server = serve(name, status(code, {"error": {"message": message, "type": "error"}}))
    error = setting.fails()
    assert (error.code, error.final, len(server.requests)) == (expected, True, 1)
    assert "Incorrect API key" in error.message and KEYS[name] not in error.message + repr(error.calls)


def test_a_quota_that_is_used_up_is_no_rate_limit(serve: Serve):
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    setting, server = serve("openai", status(429, body))
    assert setting.fails().code == "MU7253" and len(server.requests) == 1


@both
def test_a_rejected_request_says_why(name: str, serve: Serve):
    body = {"error": {"message": "prompt is too long: 9000 tokens", "type": "invalid_request_error"}}
    setting, server = serve(name, status(400, body))
    error = setting.fails()
    assert (error.code, error.final) == ("MU7244", False) and "too long: 9000" in error.message
    assert len(server.requests) == 1


@both
def test_redirects_are_not_followed(name: str, serve: Serve):
    other, target = serve(name, ideas(name))
    setting, _ = serve(name, status(307, location=f"{target.address}{PATHS[name]}"))
    assert setting.fails().code == "MU7243" and target.requests == []
    other.nominate()


@both
def test_pages_are_no_answers(name: str, serve: Serve):
    setting, server = serve(name, raw("text/html", "<h1>Sign in</h1>"))
    error = setting.fails()
    assert error.code == "MU7243" and "text/html" in error.message and len(server.requests) == 4


# What may pass


@both
@pytest.mark.parametrize("code", [429, 500, 503, 529])
def test_busy_endpoints_are_asked_again(name: str, code: int, serve: Serve):
    setting, server = serve(name, status(code, retry_after="2"), ideas(name))
    calls = setting.nominate()
    assert len(server.requests) == 2 and calls[0].error.startswith(
        f"MU7240: the endpoint is busy or failing ({code})"
    )
    assert calls[0].cost == 0 and setting.waits[0] == 2.0


@both
def test_an_endpoint_that_stays_busy_is_given_up(name: str, serve: Serve):
    setting, server = serve(name, status(529))
    error = setting.fails()
    assert (error.code, error.final) == ("MU7240", False) and len(server.requests) == len(error.calls) == 4


@both
def test_an_endpoint_that_asks_for_too_long_a_wait_is_given_up(name: str, serve: Serve):
    setting, server = serve(name, status(429, retry_after="86400"))
    assert setting.fails().code == "MU7240" and len(server.requests) == 1 and setting.waits == []


def broken_event(name: str) -> Reply:
    """The connection drops in the midst of an event."""
    events = EVENTS[name]("", ("nominate", IDEAS))
    middle = len(events) // 2

    def reply(wire: Wire) -> None:
        wire.head(200, "text/event-stream", CHUNKED)
        for event in events[:middle]:
            wire.chunk(event)
        wire.send(f"{len(events[middle]):x}\r\n{events[middle][:20]}")

    return reply


def early_end(name: str) -> Reply:
    """The stream ends as HTTP has it, but the model has not said why."""
    return streamed(EVENTS[name]("", ("nominate", IDEAS))[:3])


def bad_json(name: str) -> Reply:
    events = EVENTS[name]("", ("nominate", IDEAS))
    broken = events[2].replace("{", "", 1)
    return streamed([*events[:2], broken, *events[3:]])


def lying_length(name: str) -> Reply:
    """Fewer bytes than Content-Length says."""
    text = "".join(EVENTS[name]("", ("nominate", IDEAS)))
    return raw("text/event-stream", text[: len(text) // 2], Content_Length=str(len(text) * 2))


def error_event(name: str) -> Reply:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = EVENTS[name]("", ("nominate", IDEAS))[:3]
    return streamed([*events, f"event: error\ndata: {json.dumps(error)}\n\n"])


def odd_shape(name: str) -> Reply:
    """JSON, but not of the protocol."""
    return streamed(
        ['event: message_start\ndata: {"type": "message_start", "choices": [{"delta": {"content": 3}}]}\n\n']
    )


@both
@pytest.mark.parametrize("fault", [broken_event, early_end, bad_json, lying_length, error_event, odd_shape])
def test_a_broken_stream_is_asked_for_again(name: str, fault: Callable[[str], Reply], serve: Serve):
    setting, server = serve(name, fault(name), ideas(name))
    calls = setting.nominate()
    assert len(server.requests) == 2 and calls[0].error[:6] in ("MU7240", "MU7242", "MU7243"), calls[0].error


@both
def test_a_broken_answer_is_never_taken_for_a_whole_one(name: str, serve: Serve):
    """Of a program that breaks off after a line that could be its last."""
    whole = EVENTS[name](f"CHANGE: tile\n```mcu\n{scheduled()}```\n")
    setting, _ = serve(name, streamed([e for e in whole if "stop" not in e and "DONE" not in e]))
    with pytest.raises(ProposerFailed) as error:
        setting.proposer.implement(view(), 0, TILES, [], 1)
    assert error.value.code == "MU7242" and error.value.calls[0].answer and error.value.calls[0].cost


@both
def test_nobody_listens(name: str, serve: Serve):
    import socket

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    setting, _ = serve(name, ideas(name), base_url=f"http://127.0.0.1:{port}/v1")
    error = setting.fails()
    assert error.code == "MU7242" and not error.final and "refused" in error.message.lower()


# Time


def slow_head(name: str) -> Reply:
    return lambda wire: wire.pause(HANG)


def slow_first_token(name: str) -> Reply:
    """Signs of life, but no token."""

    def reply(wire: Wire) -> None:
        wire.head(200, "text/event-stream", CHUNKED)
        wire.chunk(EVENTS[name]("")[0])
        for _ in range(int(HANG / 0.1)):
            wire.chunk(": still here\n\n" if name == "openai" else 'event: ping\ndata: {"type": "ping"}\n\n')
            wire.pause(0.1)

    return reply


def stalled(name: str) -> Reply:
    def reply(wire: Wire) -> None:
        wire.head(200, "text/event-stream", CHUNKED)
        for event in EVENTS[name]("", ("nominate", IDEAS))[:4]:
            wire.chunk(event)
        wire.pause(HANG)

    return reply


def endless(name: str) -> Reply:
    def reply(wire: Wire) -> None:
        wire.head(200, "text/event-stream", CHUNKED)
        events = EVENTS[name]("on and on", usage=(1, 1, 1, 1) if name == "anthropic" else None)
        words = next(e for e in events if "on and on" in e)
        for event in events[: events.index(words)]:
            wire.chunk(event)
        for _ in range(int(HANG / 0.1)):
            wire.chunk(words)
            wire.pause(0.1)

    return reply


@both
@pytest.mark.parametrize(
    ("fault", "limit", "said"),
    [
        (slow_head, "first_token_timeout", "no token came within 1 s"),
        (slow_first_token, "first_token_timeout", "no token came within 1 s"),
        (stalled, "silence_timeout", "stalled for 1 s"),
        (endless, "call_timeout", "took more than 1 s"),
    ],
)
def test_time_is_limited(name: str, fault: Callable[[str], Reply], limit: str, said: str, serve: Serve):
    waited: list[str] = []

    def slow(wire: Wire) -> None:
        fault(name)(wire)
        waited.append(name)

    setting, _ = serve(name, slow, ideas(name), **{limit: 1.0})
    calls = setting.nominate()
    assert calls[0].error.startswith("MU7241") and said in calls[0].error
    assert not waited, "the client waits for the end of the answer"


# Refusals, and answers of no use


def test_refusals_are_recognised(serve: Serve):
    setting, _ = serve("openai", streamed(chat_events(refusal="I cannot.", stop="stop")))
    assert (error := setting.fails()).code == "MU7246" and "I cannot." in error.message
    setting, _ = serve("openai", streamed(chat_events("Half", stop="content_filter")))
    assert setting.fails().code == "MU7246"
    setting, _ = serve("anthropic", streamed(message_events("", stop="refusal")))
    assert setting.fails().code == "MU7246"


@both
def test_empty_answers_are_recognised(name: str, serve: Serve):
    setting, server = serve(name, streamed(EVENTS[name]("")), repairs=1)
    assert setting.fails().code == "MU7247" and len(server.requests) == 2


@both
def test_a_cut_answer_is_asked_for_again_with_more_room(name: str, serve: Serve):
    cut = json.dumps(IDEAS)[:30]
    stop = "length" if name == "openai" else "max_tokens"
    setting, server = serve(
        name, streamed(EVENTS[name]("", ("nominate", cut), stop=stop)), ideas(name), answer_tokens=1000
    )
    calls = setting.nominate()
    assert "cut after 1000 tokens" in calls[0].error and calls[1].purpose == "repair"
    limits = [r.body.get("max_tokens") or r.body["max_completion_tokens"] for r in server.requests]
    assert limits == [1000, 2000]


# Where to, and with which key


@both
@pytest.mark.parametrize(
    "url",
    [
        "https://me:secret1@models.example/v1",
        "https://models.example/v1?api-key=abcdef12",
        "ftp://x",
        "models",
        "http://[x",
    ],
)
def test_base_urls_with_credentials_or_nonsense_are_refused(name: str, url: str):
    with pytest.raises(DiagnosticError, match="MU7239") as error:
        make(name, Options(model="m", base_url=url))
    assert "secret1" not in str(error.value) and "abcdef12" not in str(error.value)


@both
def test_without_a_key_there_is_no_call(name: str, monkeypatch: pytest.MonkeyPatch):
    variable = f"{name.upper()}_API_KEY"
    monkeypatch.setenv(variable, "")
    with pytest.raises(DiagnosticError, match=f"MU7236.*{variable}"):
        make(name, Options(model="m"))
    monkeypatch.setenv(variable, "a key\nof two lines")
    with pytest.raises(DiagnosticError, match="MU7236") as error:
        make(name, Options(model="m"))
    assert "two lines" not in str(error.value)


@both
def test_a_package_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DiagnosticError, match=f"MU7235.*{name}") as error:
        make(name, Options(model="m"))
    assert error.value.diagnostics[0].helps == ("pip install 'mucc[agent]'",)


# A whole search

COLUMNS = (64, 256)
"""The tiles that the model thinks of, one after another."""


def model(request: Request) -> Reply:
    """A model that has one idea after another, and first gets each program wrong."""
    events = message_events
    said = request.prompt
    if request.tool == "nominate":
        title = next(f"tile {n}" for n in COLUMNS if f"(tile): tile {n}" not in said)
        item = {"title": title, "rationale": "reuse", "kind": "tile", "speedup": 1.1}
        return streamed(events("", ("nominate", {"hypotheses": [item]})))
    columns = re.findall(r"Hypothesis \d+ \(tile\): tile (\d+)", said)[-1]
    rows = 128 if "MU3001" in said else 100
    candidate = {"change": f"tile {columns}", "program": scheduled(f"{rows}x{columns}x32")}
    return streamed(events("", ("implement", {"candidates": [candidate]})))


def test_a_small_search():
    """Ideas, programs that mucc first rejects, times, and the history that the model is told.

    test_llm_search.py has one by the other protocol, with the agent's command.
    """
    with ModelServer(model).serving() as server:
        proposer = make("anthropic", Options(model="scripted", base_url=server.address))
        attempts, hypotheses, calls = [good(0, 1.0)], [], []
        for columns in COLUMNS:
            seen = view(attempts, hypotheses=list(hypotheses))
            ideas = proposer.nominate(seen, 1, seen.best or attempts[0])
            hypotheses += ideas.value
            seen = view(attempts, hypotheses=list(hypotheses))
            programs = proposer.implement(seen, len(hypotheses) - 1, ideas.value[0], [], 1)
            (candidate,) = programs.value
            ms = 64 / columns
            attempts.append(good(len(attempts), ms, candidate.program, candidate.change, candidate.parent))
            calls += [*ideas.calls, *programs.calls]
    assert [a.candidate.program for a in attempts] == [PROGRAM, *(scheduled(f"128x{n}x32") for n in COLUMNS)]
    assert [c.purpose for c in calls] == ["nominate", "implement", "repair"] * 2
    assert sum(c.prompt_tokens for c in calls) == 6000
    assert [c.error[:6] for c in calls] == ["", "MU7254", ""] * 2
    last = server.requests[-1].prompt
    assert "tile 64: 1 ms" in last and "multiple of 64" in last
