"""The child process that launches kernels: it reads requests and writes answers as lines of JSON.

    {"do": "hello"}                                 -> {"card": "NVIDIA H200", "arch": "sm_90"}
    {"do": "prepare", "text": …, "kernel": …, …}    -> {}
    {"do": "try", "path": …, "budget_us": …}        -> {"status": "good", "error": 1e-3, "times": […]}
    {"do": "race", "paths": […], "budget_us": …, "heat_us": …}    -> {"times": [[…], …]}

It may die of what it launches, so nothing is kept here. After an answer with `"broken": true` it ends: the
GPU no longer takes launches of this process. `mucc.measure.tune.worker` is the other side.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any

from mucc.measure.tune.bench import Bench

UNFIT = 69
"""The exit status of the process where it can launch nothing: its last words say what is missing."""


def answer(bench: Bench, request: Any) -> dict[str, Any]:
    """Do what a request asks for."""
    match request["do"]:
        case "hello":
            return dict(bench.hello())
        case "prepare":
            bench.prepare(*(request[name] for name in ("text", "kernel", "target", "dims", "seed")))
            return {}
        case "try":
            return bench.try_one(request["path"], request["budget_us"])._asdict()
        case "race":
            return {"times": bench.race(request["paths"], request["budget_us"], request["heat_us"])}
        case other:
            raise ValueError(f"no request: {other}")


def serve(bench: Bench, incoming: IO[str], outgoing: IO[str]) -> None:
    """Answer requests until there are no more, or the GPU is out of order."""
    for line in incoming:
        try:
            said = answer(bench, json.loads(line))
        except Exception as error:
            said = {"failed": f"{type(error).__name__}: {error}"}
        outgoing.write(json.dumps(said) + "\n")
        outgoing.flush()
        if said.get("broken"):
            return


def main(bench: Bench) -> None:
    """Serve on this process's stdin and stdout. Whatever else is printed goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as outgoing:
        os.dup2(2, 1)
        serve(bench, sys.stdin, outgoing)
        outgoing.flush()
        os._exit(0)  # a GPU that hangs must not keep us


if __name__ == "__main__":
    from mucc.measure.run import no_gpu

    if reason := no_gpu():
        print(reason, file=sys.stderr)
        sys.exit(UNFIT)
    from mucc.measure.tune.gpu import Gpu

    main(Gpu())
