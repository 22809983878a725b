"""Anthropic's messages, by Anthropic's client."""

from __future__ import annotations

import re
from typing import Any

from mucc.agent.propose.llm.connection import address_of, failures, http_client, key_of, package, said_by
from mucc.agent.propose.llm.endpoint import Answer, EndpointError, Partial, Prompt, Stop, Tool, Usage
from mucc.agent.propose.llm.options import Options
from mucc.api.json_types import Json

DEFAULT_URL = "https://api.anthropic.com"

CACHED = {"type": "ephemeral"}
"""Marks the end of what the provider is to keep cached."""

STOPS = {
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "refusal": Stop.REFUSED,
}

_MOST = re.compile(r"max_tokens: \d+ > (\d+)")


class Messages:
    """Anthropic's endpoint, or one that speaks its protocol.

    The model chooses whether to call the tool: the newer ones do not take a forced choice, nor a temperature.
    """

    provider = "anthropic"

    def __init__(self, options: Options):
        assert options.model is not None
        self.model = options.model
        self._sdk = package("anthropic")
        package("httpx2")
        self._options = options
        self._url = address_of(options, "ANTHROPIC_BASE_URL", DEFAULT_URL)
        self._key = key_of(options, "ANTHROPIC_API_KEY", needed=True)
        self.has_tools = not options.no_tools

    def ask(self, prompt: Prompt, tool: Tool, limit: int) -> Answer:
        """One streamed message. Raises EndpointError."""
        while True:
            partial = Partial()
            with (
                http_client(self._options) as (http, watch),
                failures(self._sdk, self.model, self._key, watch, partial),
            ):
                client = self._sdk.Anthropic(
                    api_key=self._key, base_url=self._url, max_retries=0, http_client=http
                )
                try:
                    stream = client.messages.create(**self._request(prompt, tool, limit))
                except self._sdk.BadRequestError as error:
                    found = _MOST.search(said_by(error))
                    if found is None or int(found[1]) >= limit:
                        raise
                    limit = int(found[1])
                    continue
                _collect(stream, partial, watch.heard)
                return partial.whole(watch.fault)

    def _request(self, prompt: Prompt, tool: Tool, limit: int) -> Json:
        first, *others = prompt.messages
        task = {"type": "text", "text": prompt.task, "cache_control": CACHED}
        request: Json = {
            "model": self.model,
            "stream": True,
            "max_tokens": limit,
            "system": [{"type": "text", "text": prompt.system, "cache_control": CACHED}],
            "messages": [
                {"role": first.role, "content": [task, {"type": "text", "text": first.text}]},
                *({"role": m.role, "content": m.text} for m in others),
            ],
        }
        if self._options.temperature is not None:
            request["temperature"] = self._options.temperature
        if self.has_tools:
            request["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            ]
        return request


def _collect(stream: Any, partial: Partial, heard: Any) -> None:
    """Read the events of a message into `partial`."""
    kind = stream.response.headers.get("content-type", "")
    if "text/event-stream" not in kind:
        message = f"the endpoint does not speak Anthropic's protocol: it answers with '{kind or 'no type'}'"
        raise EndpointError("MU7243", message)
    calls = 0
    for event in stream:
        match event.type:
            case "message_start":
                partial.usage = _usage(event.message.usage)
            case "content_block_start":
                calls += event.content_block.type == "tool_use"
            case "content_block_delta":
                heard()
                _take(event.delta, partial, calls)
            case "message_delta":
                _end(event, partial)
            case "message_stop":
                partial.ended = True
            case _:
                pass


def _take(delta: Any, partial: Partial, calls: int) -> None:
    if delta.type == "text_delta":
        partial.say(delta.text)
    elif delta.type == "input_json_delta" and calls == 1:  # a second call: the first one is the answer
        partial.say(delta.partial_json, argument=True)


def _end(event: Any, partial: Partial) -> None:
    partial.stop = STOPS.get(event.delta.stop_reason, partial.stop)
    before = partial.usage or Usage()
    answer = getattr(event.usage, "output_tokens", None) or before.answer
    partial.usage = Usage(before.prompt, answer, before.cached, before.cache_written)


def _usage(counted: Any) -> Usage:
    """Anthropic counts what is read from the cache, and put there, apart from the rest."""
    read = getattr(counted, "cache_read_input_tokens", None) or 0
    written = getattr(counted, "cache_creation_input_tokens", None) or 0
    return Usage((counted.input_tokens or 0) + read + written, counted.output_tokens or 0, read, written)
