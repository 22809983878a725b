"""Measure the time from an edit to its diagnostics in `mucc lsp`: python -m bench.lsp [--lines 300].

The server runs as editors start it, and a client changes one character of a program that is made of the
examples, then waits for the diagnostics of that version. The goal is 150 ms for 300 lines. --record writes
the result.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from bench.common import ROOT, cpu_label, kept_bytecode, write_result

URI = "file:///bench.mcu"


def program(lines: int) -> str:
    """Make a program of at least some number of lines from the examples, whose names are all different."""
    texts = [path.read_text() for path in sorted((ROOT / "examples").glob("*.mcu"))]
    parts: list[str] = []
    while sum(part.count("\n") for part in parts) < lines:
        text = texts[len(parts) % len(texts)]
        for name in set(re.findall(r"(?:kernel(?: each)?|fn)\s+(\w+)", text)):
            text = re.sub(rf"\b{name}\b", f"{name}_{len(parts)}", text)
        parts.append(text)
    return "\n".join(parts)


def send(stream: IO[bytes], method: str, params: object, id: int | None = None) -> None:
    """Send a request, or a notification if it has no id."""
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    body = json.dumps(message).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any]:
    """Read one message."""
    length = 0
    while (line := stream.readline().strip()) or not length:
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(stream.read(length))


def wait(stream: IO[bytes], version: int) -> None:
    """Read messages up to the diagnostics of a version."""
    while receive(stream).get("params", {}).get("version") != version:
        pass


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far, which other work on the machine does not change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--edits", type=int, default=40)
    parser.add_argument("--record", action="store_true", help="write bench/results/CARD/lsp.json")
    args = parser.parse_args()
    text = program(args.lines)
    server = subprocess.Popen(
        [sys.executable, "-m", "mucc", "lsp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=kept_bytecode(),
    )
    assert server.stdin and server.stdout
    out, into = server.stdout, server.stdin
    send(into, "initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)
    receive(out)
    send(into, "initialized", {})
    item = {"uri": URI, "languageId": "mcu", "version": 1, "text": text}
    start = time.perf_counter()
    send(into, "textDocument/didOpen", {"textDocument": item})
    wait(out, 1)
    opened = time.perf_counter() - start
    times: list[float] = []
    before = processor_seconds(server.pid)
    places = [m.end() for m in re.finditer(r"return ", text)]
    for version in range(2, args.edits + 2):
        offset = places[version % len(places)]
        line, column = text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1
        place = {"line": line, "character": column}
        new = "\n" if version % 4 == 0 else " "  # every fourth edit moves all that follows
        change = {"range": {"start": place, "end": place}, "text": new}
        text = text[:offset] + new + text[offset:]
        places = [m.end() for m in re.finditer(r"return ", text)]
        start = time.perf_counter()
        document = {"uri": URI, "version": version}
        send(into, "textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        wait(out, version)
        times.append((time.perf_counter() - start) * 1e3)
    used = (processor_seconds(server.pid) - before) / args.edits
    send(into, "shutdown", None, 2)
    send(into, "exit", None)
    server.wait(30)
    print(f"{text.count(chr(10))} lines: opened in {opened * 1e3:.0f} ms; from edit to diagnostics")
    spread = f"median {statistics.median(times):.0f} ms, slowest of {len(times)} {max(times):.0f} ms"
    print(f"{spread}, {used * 1e3:.0f} ms of a core each")
    if args.record:
        lines = text.count("\n")
        summary = {"lsp.median_ms": statistics.median(times), "lsp.slowest_ms": max(times)}
        summary |= {"lsp.core_ms": used * 1e3, "lsp.opened_ms": opened * 1e3}
        rows = [{"lines": lines, "edits": len(times), "ms": [round(time, 1) for time in times]}]
        write_result(cpu_label(), "lsp", rows, {name: round(ms, 1) for name, ms in summary.items()})


if __name__ == "__main__":
    main()
