"""The server: mucc's tools over the Model Context Protocol, by its official SDK."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from mucc import __version__
from mucc.agent.mcp import tool_call
from mucc.agent.mcp.fields import Order, Tool
from mucc.agent.mcp.places import Places
from mucc.agent.mcp.tools import TOOLS
from mucc.api.diagnostics import DiagnosticError
from mucc.api.json_types import Json

HEARTBEAT = 1.0
"""Seconds between two notifications of progress."""

INSTRUCTIONS = """\
mucc compiles .mcu programs into fused CUTLASS kernels. Read the resource mucc://card before you write one,
and mucc://guide for the way from a PyTorch module to an audited kernel. Check each version (`check`) before
you compile it. Every answer holds `exit_status`, `diagnostics` (codes that `explain` knows) and a result."""

SCHEMA = {
    "type": "object",
    "properties": {
        "exit_status": {
            "type": "integer",
            "description": "0 good, 1 program, 2 usage, 3 environment, 5 rejected, 6 inconclusive",
        },
        "diagnostics": {"type": "array", "items": {"type": "object"}},
        "text": {"type": "string"},
        "output": {"type": "string", "description": "the file that was written"},
        "printed": {"type": "string"},
    },
    "required": ["exit_status", "diagnostics"],
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the calls: `seconds` for each, `jobs` at a time."""

    seconds: float = 900.0
    jobs: int = 2
    heartbeat: float = HEARTBEAT


def card() -> str:
    """Return the reference card of the language."""
    from mucc.api.language import card as text

    return text()


def grammar() -> str:
    """Return the grammar of the language."""
    from mucc.api.language import grammar as text

    return text()


def guide() -> str:
    """How to come from a PyTorch module to an audited kernel."""
    from mucc.agent.guide import text

    return text()


RESOURCES: dict[str, tuple[str, Callable[[], str]]] = {
    "mucc://card": ("the reference card: enough to write correct programs from", card),
    "mucc://guide": ("from a PyTorch module to an audited kernel, with commands", guide),
    "mucc://grammar": ("the grammar in EBNF", grammar),
}


class Service:
    """Answers the requests of one client."""

    def __init__(self, places: Places, limits: Limits):
        self._places, self._limits = places, limits
        self._tools = {tool.name: tool for tool in TOOLS}
        self._turns = anyio.CapacityLimiter(limits.jobs)

    def server(self) -> Server[Any]:
        """Return the SDK's server that asks this service."""
        return Server(
            "mucc",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if (tool := self._tools.get(params.name)) is None:
            names = ", ".join(self._tools)
            raise MCPError(types.INVALID_PARAMS, f"there is no tool '{params.name}'; there are {names}")
        try:
            order = tool.command(params.arguments or {}, self._places)
        except DiagnosticError as error:
            return _result(tool_call.refused(error.diagnostics))
        return _result(await self._done(ctx, tool.name, order))

    async def _done(self, ctx: ServerRequestContext[Any], name: str, order: Order) -> Json:
        """Return the answer of a command, which ends when the call is cancelled."""
        stop = threading.Event()
        answer: Json = {}
        run = partial(tool_call.call, order, self._places.root, self._limits.seconds, stop)
        try:
            async with self._turns, anyio.create_task_group() as tasks:
                tasks.start_soon(self._beat, ctx, name)
                # A thread cannot be cancelled: it is left behind, sees `stop`, and ends the command.
                answer = await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
                tasks.cancel_scope.cancel()
        finally:
            stop.set()
        return answer

    async def _beat(self, ctx: ServerRequestContext[Any], name: str) -> None:
        """Send progress notifications to a client that asked for them while a command runs."""
        begun = time.monotonic()
        while True:
            await anyio.sleep(self._limits.heartbeat)
            seconds = time.monotonic() - begun
            await ctx.session.report_progress(round(seconds, 1), None, f"{name}: {seconds:.0f} s")

    async def _list_resources(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        found = [
            types.Resource(uri=uri, name=uri.rpartition("/")[2], description=help, mime_type="text/markdown")
            for uri, (help, _) in RESOURCES.items()
        ]
        return types.ListResourcesResult(resources=found)

    async def _read_resource(
        self, ctx: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri not in RESOURCES:
            raise MCPError(
                types.INVALID_PARAMS, f"there is no resource '{uri}'; there are {', '.join(RESOURCES)}"
            )
        text = RESOURCES[uri][1]()
        contents = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[contents])


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=not tool.writes, destructive_hint=tool.writes)
    return types.Tool(
        name=tool.name,
        description=tool.help,
        input_schema=tool.schema(),
        output_schema=SCHEMA,
        annotations=hints,
    )


def _result(answer: Json) -> types.CallToolResult:
    text = types.TextContent(type="text", text=json.dumps(answer))
    return types.CallToolResult(
        content=[text], structured_content=answer, is_error=tool_call.is_error(answer)
    )


def serve(root: str, limits: Limits) -> None:
    """Serve on stdin and stdout until the client closes them. Raises MU5010 where there is no such folder."""
    places = Places(root)
    os.chdir(places.root)
    anyio.run(_serve, places, limits)


async def _serve(places: Places, limits: Limits) -> None:
    server = Service(places, limits).server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
