"""A local server that speaks the wire protocols of models: chat completions, and Anthropic's messages.

It answers each request by the next reply of its script, or by what a function makes of the request, and keeps
all requests. Replies are functions that write to a `Wire`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE = 40
"""Characters of a piece of a streamed answer."""


@dataclass
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All text in it."""
        return json.dumps(self.body.get("system", "")) + json.dumps(self.body["messages"])

    @property
    def tool(self) -> str:
        """The name of the tool that is offered; empty where none is."""
        for tool in self.body.get("tools", ()):
            return tool.get("name") or tool["function"]["name"]
        return ""


class Wire:
    """The connection to a client that waits for an answer."""

    def __init__(self, handler: BaseHTTPRequestHandler, ended: threading.Event):
        self._handler, self.ended = handler, ended

    def head(self, status: int, kind: str, headers: Mapping[str, str] | None = None) -> None:
        """Send the status line and headers; the body ends with the connection unless headers say more."""
        self._handler.send_response(status)
        self._handler.send_header("Content-Type", kind)
        for name, value in (headers or {}).items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    def send(self, data: str | bytes) -> None:
        """A piece of the body."""
        self._handler.wfile.write(data.encode() if isinstance(data, str) else data)
        self._handler.wfile.flush()

    def chunk(self, data: str) -> None:
        """A piece of a body with `Transfer-Encoding: chunked`."""
        self.send(f"{len(data.encode()):x}\r\n{data}\r\n")

    def pause(self, seconds: float) -> None:
        """Say nothing, until the test ends at the latest."""
        self.ended.wait(seconds)


Reply = Callable[[Wire], None]

CHUNKED = {"Transfer-Encoding": "chunked"}


def status(code: int, body: Any = None, **headers: str) -> Reply:
    """A reply without an answer."""

    def reply(wire: Wire) -> None:
        plain = {"error": {"message": f"status {code}", "type": "some_error"}}
        data = json.dumps(plain if body is None else body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        wire.head(code, "application/json", {"Content-Length": str(len(data.encode())), **named})
        wire.send(data)

    return reply


def streamed(events: Iterable[str]) -> Reply:
    """A stream of server-sent events."""

    def reply(wire: Wire) -> None:
        wire.head(200, "text/event-stream", CHUNKED)
        for event in events:
            wire.chunk(event)
        wire.send("0\r\n\r\n")

    return reply


def raw(kind: str, body: str, **headers: str) -> Reply:
    """A body of any kind."""

    def reply(wire: Wire) -> None:
        wire.head(200, kind, {name.replace("_", "-"): value for name, value in headers.items()})
        wire.send(body)

    return reply


def _pieces(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def chat_events(
    text: str = "",
    tool: tuple[str, Any] | None = None,
    *,
    stop: str = "",
    usage: tuple[int, int, int] | None = (1000, 50, 800),
    refusal: str = "",
) -> list[str]:
    """A streamed chat completion. `tool` is a name with arguments, as JSON or as text; `usage` counts prompt,
    answer and cached tokens."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(text)]
    deltas += [{"refusal": piece} for piece in _pieces(refusal)]
    if tool is not None:
        name, arguments = tool
        said = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [call]})
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in _pieces(said)]

    def chunk(choices: list[Any], **more: Any) -> str:
        common = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        return f"data: {json.dumps({**common, 'choices': choices, **more})}\n\n"

    reason = stop or ("tool_calls" if tool else "stop")
    events = [chunk([{"index": 0, "delta": d, "finish_reason": None}]) for d in deltas]
    events.append(chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
    if usage is not None:
        prompt, answer, cached = usage
        details = {"cached_tokens": cached}
        counted = {"prompt_tokens": prompt, "completion_tokens": answer, "prompt_tokens_details": details}
        events.append(chunk([], usage={**counted, "total_tokens": prompt + answer}))
    return [*events, "data: [DONE]\n\n"]


def message_events(
    text: str = "",
    tool: tuple[str, Any] | None = None,
    *,
    stop: str = "",
    usage: tuple[int, int, int, int] = (100, 50, 800, 100),
) -> list[str]:
    """A streamed message. `usage` counts fresh, answer, cached and newly cached tokens."""
    fresh, answer, read, written = usage
    counted = {"input_tokens": fresh, "output_tokens": 1}
    counted |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    start = {"id": "m1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    found: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "usage": counted}},
        {"type": "ping"},
    ]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": "Hm"}],
        )
    ]
    if text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    if tool is not None:
        name, arguments = tool
        said = arguments if isinstance(arguments, str) else json.dumps(arguments)
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(said)]
        blocks.append(({"type": "tool_use", "id": "t1", "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        found.append({"type": "content_block_start", "index": index, "content_block": block})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    reason = stop or ("tool_use" if tool else "end_turn")
    end = {"stop_reason": reason, "stop_sequence": None}
    found.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": answer}})
    found.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in found]


@dataclass
class ModelServer:
    """A server with its script; use it as a context."""

    script: Sequence[Reply] | Callable[[Request], Reply]
    requests: list[Request] = field(default_factory=list[Request])
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def serving(self) -> Generator[ModelServer]:
        """Until the context ends; then nobody waits any more."""
        outer = self
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size))
                request = Request(self.path, dict(self.headers.items()), body)
                with lock:
                    outer.requests.append(request)
                    place = len(outer.requests) - 1
                if callable(outer.script):
                    reply = outer.script(request)
                else:
                    reply = outer.script[min(place, len(outer.script) - 1)]
                self.close_connection = True
                with contextlib.suppress(OSError):
                    reply(Wire(self, outer._ended))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            server.shutdown()
            server.server_close()
            thread.join(5)
