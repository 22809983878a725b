"""mucc's tools over the Model Context Protocol: the official client over stdio, and what tools become."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from installed import needs
from modellib import PROGRAM, scheduled
from processes import HANG

from mucc.agent.mcp import tool_call
from mucc.agent.mcp.places import Places
from mucc.agent.mcp.tools import TOOLS
from mucc.diagnostics.core import DiagnosticError

NAMES = (
    *("compile", "check", "explain", "sol", "run", "tune", "audit"),
    *("profile", "optimize", "report", "replay"),
)
BY_NAME = {tool.name: tool for tool in TOOLS}


def words(name: str, root: Path, **given: Any) -> tuple[str, ...]:
    return BY_NAME[name].command(given, Places(str(root))).words


# What tools become


def test_arguments_become_options(tmp_path: Path):
    dims = {"M": 64, "N": 64}
    assert words("check", tmp_path, path="a/k.mcu", dims=dims) == ("check", "./a/k.mcu", "--dims=M=64,N=64")
    assert words("run", tmp_path, source=PROGRAM, device="cpu", seed=0) == (
        *("run", "-", "--json"),
        *("--device=cpu", "--seed=0"),
    )
    assert words("compile", tmp_path, path="k.mcu", output="k.so") == (
        "build",
        "./k.mcu",
        "--emit=so",
        "-o",
        "./k.so",
    )
    tuned = words("tune", tmp_path, path="k.mcu", keep_pins=True, again=False, output="t.mcu")
    assert tuned == ("tune", "./k.mcu", "--json", "--keep-pins", "-o", "./t.mcu")
    assert words("audit", tmp_path, problem="p.py", solution="-k.mcu", shapes=True)[1:3] == (
        "./p.py",
        "./-k.mcu",
    )
    assert words("optimize", tmp_path, problems=["p.py"], run="r", budget="1x1x1") == (
        *("optimize", "./p.py", "-o", "./r", "--json"),
        *("--proposer=offline", "--budget=1x1x1"),
    )
    assert words("report", tmp_path, run="r", output="r.html") == ("report", "./r", "-o", "./r.html")
    assert words("replay", tmp_path, runs=["r", "s"], keep=0.9)[1:3] == ("./r", "./s")


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("check", {}, "either path or source"),
        ("check", {"path": "k.mcu", "source": PROGRAM}, "either path or source"),
        ("check", {"pth": "k.mcu"}, "did you mean 'path'"),
        ("check", {"path": 3}, "of type string"),
        ("check", {"source": PROGRAM, "dims": {"M": "64"}}, "of type object"),
        ("check", {"source": PROGRAM, "dims": {"M=1,N": 64}}, "of type object"),
        ("run", {"source": PROGRAM, "device": "cud"}, "did you mean 'cuda'"),
        ("run", {"source": PROGRAM, "iters": 0}, "at least 1"),
        ("run", {"source": PROGRAM, "iters": True}, "of type integer"),
        ("sol", {"source": PROGRAM, "measured": float("nan")}, "of type number"),
        ("compile", {"source": PROGRAM}, "needs output"),
        ("explain", {}, "needs codes"),
        ("explain", {"codes": ["--help"]}, "is no code"),
        ("tune", {"dims": {}}, "needs path"),
        ("optimize", {"problems": ["p.py"]}, "needs run"),
        ("replay", {"runs": []}, "needs runs"),
    ],
)
def test_wrong_arguments_are_coded_errors(tmp_path: Path, name: str, given: dict[str, Any], said: str):
    with pytest.raises(DiagnosticError, match="MU5001") as error:
        words(name, tmp_path, **given)
    found = error.value.diagnostics[0]
    assert said in " ".join((found.message, *found.helps))


def test_no_path_leads_out_of_the_root(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "k.mcu").write_text(PROGRAM)
    (root / "link").symlink_to(outside)
    (root / "own").symlink_to(root)
    places = Places(str(root))
    for path in (
        "../outside/k.mcu",
        str(outside / "k.mcu"),
        "link/k.mcu",
        "/etc/passwd",
        "a/../../outside",
        "",
        "a\0b",
    ):
        with pytest.raises(DiagnosticError, match="MU7251"):
            places.inside(path)
    assert (
        places.inside("own/k.mcu")
        == places.inside(str(root / "k.mcu"))
        == places.inside("a/../k.mcu")
        == "./k.mcu"
    )
    with pytest.raises(DiagnosticError, match="MU5010"):
        Places(str(tmp_path / "none"))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_option_of_a_tool_is_one_of_its_command(tool: Any, tmp_path: Path):
    """All fields at once, through the parser of the command itself."""
    from importlib import import_module

    values = {"object": {"M": 64}, "integer": 3, "number": 0.5, "boolean": True, "array": ["MU3004"]}
    given = {f.name: f.choices[0] if f.choices else values.get(f.kind, "word") for f in tool.fields}
    given.pop("source", None)
    order = tool.command(given, Places(str(tmp_path)))
    package = "mucc.agent.cli" if order.module == "mucc.agent" else "mucc.cli"
    module = import_module(f"{package}.{order.words[0]}")
    parsed = module.main.parse(order.words[1:])
    assert "word" not in given.values() or "word'" in repr(parsed)


# Over stdio

needs("mcp", reason="the package mcp is not installed: pip install 'mucc[agent]'")


def talk(root: Path, work: Callable[[Any], Awaitable[None]], *options: str) -> None:
    """Start a server in a folder, and have `work` talk to it."""
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    env = {name: value for name, value in os.environ.items() if name.startswith(("MUCC_", "PYTHON"))}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mucc.agent", "mcp", *options], env=env, cwd=str(root)
    )

    async def main() -> None:
        with open(root / "server.log", "w") as log, anyio.fail_after(240):
            async with Client(stdio_client(server, errlog=log)) as client:
                await work(client)

    anyio.run(main)


def codes(result: Any) -> list[str]:
    return [d["code"] for d in result.structured_content["diagnostics"]]


async def tools_and_resources(client: Any, tmp_path: Path) -> None:
    from mcp import MCPError

    listed = (await client.list_tools()).tools
    assert tuple(tool.name for tool in listed) == NAMES
    assert all(tool.input_schema["type"] == "object" and tool.description for tool in listed)

    found = await client.call_tool("check", {"path": "k.mcu"})
    assert not found.is_error
    assert found.structured_content == {"exit_status": 0, "diagnostics": [], "text": ""}
    assert json.loads(found.content[0].text) == found.structured_content
    found = await client.call_tool("check", {"source": (tmp_path / "bad.mcu").read_text()})
    assert found.is_error and codes(found) == ["MU1002"]
    assert "gelu" in json.dumps(found.structured_content["diagnostics"][0]["fixes"])
    found = await client.call_tool("check", {"path": "../k.mcu"})
    assert found.is_error and codes(found) == ["MU7251"]
    found = await client.call_tool("check", {"path": "none.mcu"})
    assert found.is_error and codes(found) == ["MU5010"]

    found = await client.call_tool("compile", {"path": "k.mcu", "emit": "schedule"})
    assert not found.is_error and "tile      = 128x128x32" in found.structured_content["text"]
    found = await client.call_tool("compile", {"path": "bad.mcu", "output": "bad.so"})
    assert found.is_error and codes(found) == ["MU1002"] and not (tmp_path / "bad.so").exists()
    found = await client.call_tool("compile", {"path": "k.mcu", "emit": "manifest", "output": "m.json"})
    assert found.structured_content["output"] == "m.json" and (tmp_path / "m.json").exists()

    found = await client.call_tool("explain", {"codes": ["MU3004"]})
    assert found.structured_content["text"].startswith("MU3004: ")
    found = await client.call_tool("explain", {"codes": ["MU3999"]})
    assert found.is_error and codes(found) == ["MU5003"]

    found = await client.call_tool("sol", {"path": "k.mcu", "dims": {"M": 64, "N": 64, "K": 64}})
    assert not found.is_error and found.structured_content["result"]["bound_us"] > 0
    found = await client.call_tool("sol", {"path": "k.mcu"})
    assert found.is_error and codes(found) == ["MU5403"]

    found = await client.call_tool(
        "run", {"path": "k.mcu", "device": "cpu", "dims": {"M": 16, "N": 16, "K": 16}, "seed": 1}
    )
    assert found.structured_content["result"]["good"] is True
    found = await client.call_tool("audit", {"problem": "p.py", "solution": "none.py"})
    assert found.is_error and codes(found) == ["MU5010"]

    with pytest.raises(MCPError, match="no tool 'build'"):
        await client.call_tool("build", {})
    resources = (await client.list_resources()).resources
    assert [str(r.uri) for r in resources] == ["mucc://card", "mucc://guide", "mucc://grammar"]
    card = await client.read_resource("mucc://card")
    assert "reference card" in card.contents[0].text
    guide = await client.read_resource("mucc://guide")
    assert "mucc-agent audit" in guide.contents[0].text
    with pytest.raises(MCPError, match="no resource"):
        await client.read_resource("mucc://none")


async def needs_a_gpu(client: Any) -> None:
    found = await client.call_tool("tune", {"path": "k.mcu", "dims": {"M": 64, "N": 64, "K": 64}})
    assert found.is_error and codes(found) == ["MU5301"] and found.structured_content["exit_status"] == 3


class Held:
    """A named pipe: `mucc check` of it waits for a writer, for good."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path, self.end = path, -1

    def read(self, seconds: float = HANG) -> bool:
        """Whether somebody comes to read it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                self.end = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
                return True
            except OSError:
                time.sleep(0.02)
        return False

    def left(self, seconds: float = HANG) -> bool:
        """Whether whoever read it goes."""
        poller = select.poll()
        poller.register(self.end, select.POLLERR)
        try:
            return bool(poller.poll(seconds * 1000))
        finally:
            os.close(self.end)


async def cancelling(client: Any, held: Held) -> None:
    """Progress is told while a command runs; when it is called off, it ends, and the server goes on."""
    import anyio.to_thread

    beats: list[tuple[float, str | None]] = []

    async def beat(progress: float, total: float | None, message: str | None) -> None:
        beats.append((progress, message))
        if await anyio.to_thread.run_sync(held.read):
            scope.cancel()

    with anyio.CancelScope() as scope:
        await client.call_tool("check", {"path": held.path.name}, progress_callback=beat)
    assert scope.cancelled_caught and beats[0][0] > 0
    assert re.fullmatch(r"check: [1-9]\d* s", beats[0][1] or "")
    assert await anyio.to_thread.run_sync(held.left), "what was called off still runs"
    assert not (await client.call_tool("explain", {"codes": ["MU7252"]})).is_error


def test_tools_over_stdio(tmp_path: Path):
    from mucc.measure.run import no_gpu

    (tmp_path / "k.mcu").write_text(scheduled())
    (tmp_path / "bad.mcu").write_text(PROGRAM.replace("x @ w.T", "gellu(x @ w.T)"))
    (tmp_path / "p.py").write_text("class Model: pass\n")
    held = Held(tmp_path / "held.mcu")

    async def work(client: Any) -> None:
        await tools_and_resources(client, tmp_path)
        await cancelling(client, held)
        if no_gpu() is not None:
            await needs_a_gpu(client)

    talk(tmp_path, work)


def test_a_command_has_its_time(tmp_path: Path):
    held = Held(tmp_path / "held.mcu")
    order = BY_NAME["check"].command({"path": "held.mcu"}, Places(str(tmp_path)))
    answer = tool_call.call(order, str(tmp_path), 0.5, threading.Event())
    assert tool_call.is_error(answer) and [d["code"] for d in answer["diagnostics"]] == ["MU7252"]
    assert not held.read(0)


def test_commands_see_no_secrets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_API_KEY", "secret-1234")
    assert "MY_API_KEY" not in tool_call.without_secrets(os.environ)


def test_files_in_the_folder_are_no_modules(tmp_path: Path):
    (tmp_path / "json.py").write_text("raise SystemExit('taken')\n")
    order = BY_NAME["explain"].command({"codes": ["MU3004"]}, Places(str(tmp_path)))
    assert tool_call.call(order, str(tmp_path), 60, threading.Event())["exit_status"] == 0


def test_the_server_ends_with_its_client(tmp_path: Path):
    """Also while it runs a command, which ends too."""
    held = Held(tmp_path / "held.mcu")
    request = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    call = {"name": "check", "arguments": {"path": "held.mcu"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": request},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "mucc.agent", "mcp"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        text=True,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "mucc"
        assert held.read()
        server.stdin.close()
        assert server.wait(HANG) == 0
    assert held.left()


def test_what_the_server_needs_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from mucc.agent.cli.main import main

    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp"]) == 3 and "pip install 'mucc[agent]'" in capsys.readouterr().err
    assert main(["mcp", "--jobs=0"]) == 2


def test_problems_that_are_printed_have_codes():
    from mucc.agent.core.command import Ended

    printed = Ended(2, "", "error[MU5003]: there is no code MU3999\n  help: see `mucc explain`\n", 0.1)
    said = tool_call._said(printed)  # pyright: ignore[reportPrivateUsage]
    assert [(d["code"], d["message"]) for d in said["diagnostics"]] == [("MU5003", "there is no code MU3999")]
    said = tool_call._said(Ended(1, "", "Killed\n", 0.1))  # pyright: ignore[reportPrivateUsage]
    assert [d["code"] for d in said["diagnostics"]] == ["MU9001"] and said["printed"] == "Killed"
    assert tool_call._said(Ended(5, "{}", "", 0.1))["diagnostics"] == []  # pyright: ignore[reportPrivateUsage]
