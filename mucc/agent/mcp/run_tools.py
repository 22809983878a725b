"""Tools for searches: what limits a program, runs that make kernels, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mucc.agent.audit.options import PRECISIONS
from mucc.agent.mcp.fields import Field, Order, Tool, options
from mucc.agent.mcp.places import Places
from mucc.agent.search import STRATEGIES
from mucc.api.diagnostics import usage_error

PRECISION = Field("precision", "string", "the narrowest format for f32 products", choices=PRECISIONS)
CARD = Field("card", "string", "the card whose bound holds")


def _profile(given: Mapping[str, Any], places: Places) -> Order:
    words = [places.inside(given["path"]), "--json"]
    if "library" in given:
        words.append(f"--library={places.inside(given['library'])}")
    chosen = options(given, "no_build", "dims", "device", "card", "precision", "measured")
    return Order("mucc.agent", ("profile", *words, *chosen))


def _optimize(given: Mapping[str, Any], places: Places) -> Order:
    problems: list[str] = given.get("problems", [])
    run = places.inside(given["run"])
    chosen = options(given, "precision", "card", "strategy", "budget", "time", "total", "seed", "jobs")
    words = ("optimize", *map(places.inside, problems), "-o", run, "--json", "--proposer=offline", *chosen)
    return Order("mucc.agent", words, writes=run)


def _report(given: Mapping[str, Any], places: Places) -> Order:
    run = places.inside(given["run"])
    if "output" not in given:
        return Order("mucc.agent", ("report", run, "--json"))
    writes = places.inside(given["output"])
    return Order("mucc.agent", ("report", run, "-o", writes), writes=writes, text=True)


def _replay(given: Mapping[str, Any], places: Places) -> Order:
    runs: list[str] = given["runs"]
    if not runs:
        raise usage_error("replay needs runs", "folders of runs")
    writes = places.inside(given["output"]) if "output" in given else ""
    words = ("replay", *map(places.inside, runs), "--json", *options(given, "keep"))
    return Order("mucc.agent", (*words, *(("-o", writes) if writes else ())), writes=writes)


TOOLS = (
    Tool(
        "profile",
        "What limits a program, and which levers of .mcu change that: its class by roofline, then counters, "
        "machine code, registers and schedules, as far as they can be read here.",
        (
            Field("path", "string", "a .mcu file, or a PyTorch problem file (.py)", needed=True),
            Field("library", "string", "what was built of the program (default: it is built now)"),
            Field("no_build", "boolean", "read only what the compiler says"),
            Field("dims", "object", 'values of dims, such as {"M": 4096}'),
            Field("device", "string", "cpu: run nothing on a GPU", choices=("cuda", "cpu")),
            CARD,
            PRECISION,
            Field("measured", "number", "a measured time in ms"),
        ),
        _profile,
    ),
    Tool(
        "optimize",
        "Make verified, faster kernels for PyTorch problems by searching without a model, and keep all "
        "in a folder. Takes minutes: the answer to a call that was cancelled or ran out of time is lost, the "
        "run is not, and the same call goes on with it.",
        (
            Field("problems", "array", "problem files (.py), and folders of them; none to go on with a run"),
            Field("run", "string", "the folder of the run", needed=True),
            PRECISION,
            CARD,
            Field("strategy", "string", "how to search (default: mantis)", choices=tuple(STRATEGIES)),
            Field("budget", "string", "iterations, hypotheses in each, attempts at each, as 5x2x4"),
            Field("time", "number", "seconds for each problem"),
            Field("total", "integer", "attempts for all problems", least=1),
            Field("seed", "integer", "of proposers that draw", least=0),
            Field("jobs", "integer", "what is done side by side", least=1),
        ),
        _optimize,
        writes=True,
    ),
    Tool(
        "report",
        "What a run did: speedups over the baselines, every attempt with its change and verdict. Answered, "
        "or written as one HTML page.",
        (
            Field("run", "string", "the folder of a run", needed=True),
            Field("output", "string", "write a page (.html) instead of answering"),
        ),
        _report,
        writes=True,
    ),
    Tool(
        "replay",
        "Which rules of stopping would have kept the speedup of stored runs for less. Runs nothing.",
        (
            Field("runs", "array", "folders of runs", needed=True),
            Field("keep", "number", "of the geometric mean to be kept (default: 0.95)"),
            Field("output", "string", "write a page with plots, too (.html)"),
        ),
        _replay,
        writes=True,
    ),
)
