"""Any endpoint that speaks OpenAI's chat completions, by OpenAI's client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from mucc.agent.propose.llm.connection import address_of, failures, http_client, key_of, package
from mucc.agent.propose.llm.endpoint import LARGEST, Answer, EndpointError, Partial, Prompt, Stop, Tool, Usage
from mucc.agent.propose.llm.options import Options
from mucc.api.json_types import Json

DEFAULT_URL = "https://api.openai.com/v1"

NO_KEY = "none"
"""What is sent to endpoints of one's own that want no key."""

OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "stream_options": ("stream_options", "include_usage"),
    "max_completion_tokens": ("max_completion_tokens",),
    "temperature": ("temperature",),
    "tool_choice": ("tool_choice", "tool choice"),
    "tools": ("tools", "tool use", "tool call", "function"),
    "limit": ("max_tokens", "maximum output", "max output"),
}
"""Parts of a request that not every endpoint takes, with the words by which a rejection names them; in the
order in which they are given up."""

TOO_LONG = ("context length", "context_length", "context window", "too long", "too many tokens")
"""Words of rejections that are about the whole prompt, whatever parts they go on to name."""

REJECTED = (400, 404, 422, 500, 501)
"""Statuses with which endpoints reject a part of a request."""

STOPS = {"length": Stop.LENGTH, "content_filter": Stop.REFUSED}


class ChatCompletions:
    """An OpenAI-compatible endpoint. Parts of requests that it rejects are left out from then on."""

    provider = "openai"

    def __init__(self, options: Options):
        assert options.model is not None
        self.model = options.model
        self._sdk = package("openai")
        package("httpx2")
        self._options = options
        self._url = address_of(options, "OPENAI_BASE_URL", DEFAULT_URL)
        own = self._url.rstrip("/") != DEFAULT_URL
        self._key = key_of(options, "OPENAI_API_KEY", needed=not own)
        self._without: set[str] = set() if not options.no_tools else {"tools"}

    @property
    def has_tools(self) -> bool:
        """Whether answers may be tool calls."""
        return "tools" not in self._without

    def ask(self, prompt: Prompt, tool: Tool, limit: int) -> Answer:
        """One streamed completion. Raises EndpointError."""
        while True:
            left_out = set(self._without)
            partial = Partial()
            with (
                http_client(self._options) as (http, watch),
                failures(self._sdk, self.model, self._key, watch, partial),
            ):
                client = self._sdk.OpenAI(
                    api_key=self._key or NO_KEY, base_url=self._url, max_retries=0, http_client=http
                )
                try:
                    stream = client.chat.completions.create(**self._request(prompt, tool, limit, left_out))
                except self._sdk.APIStatusError as error:
                    if (part := _unwanted(error, left_out)) is None:
                        raise
                    self._without.add(part)
                    continue
                _collect(stream, partial, watch.heard)
                return partial.whole(watch.fault)

    def _request(self, prompt: Prompt, tool: Tool, limit: int, without: set[str]) -> Json:
        first, *others = prompt.messages
        request: Json = {
            "model": self.model,
            "stream": True,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": first.role, "content": f"{prompt.task}\n\n{first.text}"},
                *({"role": m.role, "content": m.text} for m in others),
            ],
        }
        if "stream_options" not in without:
            request["stream_options"] = {"include_usage": True}
        if "limit" not in without:
            newer = "max_completion_tokens" not in without
            request["max_completion_tokens" if newer else "max_tokens"] = limit
        if self._options.temperature is not None and "temperature" not in without:
            request["temperature"] = self._options.temperature
        if "tools" not in without:
            function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
            request["tools"] = [{"type": "function", "function": function}]
            if "tool_choice" not in without:
                request["tool_choice"] = {"type": "function", "function": {"name": tool.name}}
        return request


def _unwanted(error: Any, without: set[str]) -> str | None:
    """Return the part of a request to leave out that a rejection names; None where it names none."""
    if error.status_code not in REJECTED:
        return None
    said = f"{error.body} {error.message}".lower()
    if any(word in said for word in TOO_LONG):
        return None
    for part, words in OPTIONAL.items():
        if part not in without and any(word in said for word in words):
            return part
    return None


def _collect(stream: Any, partial: Partial, heard: Any) -> None:
    """Read a completion into `partial`, streamed or, where an endpoint does not stream, whole."""
    kind = stream.response.headers.get("content-type", "")
    if "text/event-stream" not in kind:
        _whole(stream.response, kind, partial)
        return
    for chunk in stream:
        if _brings_tokens(chunk):
            heard()
        if (counted := getattr(chunk, "usage", None)) is not None:
            partial.usage = _usage(counted)
        for choice in getattr(chunk, "choices", None) or ():
            _take(choice.delta, partial)
            if reason := choice.finish_reason:
                partial.ended = True
                partial.stop = STOPS.get(reason, partial.stop)


def _brings_tokens(chunk: Any) -> bool:
    """Whether a chunk is more than a sign of life. Some endpoints show a model's thoughts, in fields of their
    own."""
    fields = ("content", "tool_calls", "refusal", "reasoning_content", "reasoning")
    deltas = [choice.delta for choice in getattr(chunk, "choices", None) or ()]
    return any(getattr(delta, field, None) for delta in deltas for field in fields)


def _take(said: Any, partial: Partial) -> None:
    """Take a message, or a piece of one."""
    if said is None:
        return
    partial.say(said.content)
    if refusal := getattr(said, "refusal", None):
        partial.say(refusal)
        partial.stop = Stop.REFUSED
    for call in (getattr(said, "tool_calls", None) or ())[:1]:
        if getattr(call, "index", 0):  # a second call: the first one is the answer
            continue
        if call.function is not None:
            partial.say(call.function.arguments, argument=True)


WRAPPED = 4
"""Times that the JSON around an answer may make it longer."""


def _capped(response: Any) -> bytes:
    """Return the bytes of a response. Raises EndpointError where they do not end within what is allowed."""
    data = bytearray()
    for piece in response.iter_bytes():
        data += piece
        if len(data) > WRAPPED * LARGEST:
            raise EndpointError(
                "MU7243", f"the endpoint answers with more than {WRAPPED * LARGEST >> 20} MiB", final=True
            )
    return bytes(data)


def _whole(response: Any, kind: str, partial: Partial) -> None:
    """Take a completion that came in one piece."""
    data = _capped(response)
    try:
        found: Any = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.get("choices"):  # pyright: ignore[reportUnknownMemberType]
        message = f"the endpoint speaks no chat completions: it answers with '{kind or 'no type'}'"
        raise EndpointError("MU7243", message)
    choice = cast("list[Any]", found["choices"])[0]
    message = choice["message"]
    partial.say(message.get("content"))
    if message.get("refusal"):
        partial.say(message["refusal"])
        partial.stop = Stop.REFUSED
    for call in (message.get("tool_calls") or ())[:1]:
        partial.say(call["function"]["arguments"], argument=True)
    partial.stop = STOPS.get(choice.get("finish_reason"), partial.stop)
    partial.ended = True
    if counted := cast("Json", found).get("usage"):
        details: Json = counted.get("prompt_tokens_details") or {}
        partial.usage = Usage(
            counted["prompt_tokens"], counted["completion_tokens"], details.get("cached_tokens") or 0
        )


def _usage(counted: Any) -> Usage:
    details = getattr(counted, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    return Usage(counted.prompt_tokens or 0, counted.completion_tokens or 0, cached)
