"""The tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mucc.agent.audit.options import PRECISIONS
from mucc.agent.mcp.fields import Field, Order, Tool, options
from mucc.agent.mcp.places import Places
from mucc.agent.mcp.run_tools import TOOLS as RUN_TOOLS
from mucc.api.diagnostics import usage_error

STDIN = "-"

TEXTS = ("schedule", "manifest", "header", "ast", "mu", "stages", "cutlass", "cu", "ptx")
BINARIES = ("so", "cubin")
"""What compiling can make: texts are answered, binaries are written."""


PATH = Field("path", "string", "a .mcu file, relative to the server's folder")
SOURCE = Field("source", "string", "the program itself, instead of a path")
DIMS = Field("dims", "object", 'values of dims, such as {"M": 4096}')
TARGET = Field("target", "string", "the GPU to compile for (default: sm_90a)")
KERNEL = Field("kernel", "string", "which kernel of the file, where it holds several")


def _program(tool: str, given: Mapping[str, Any], places: Places) -> tuple[str, str]:
    """Return the word for the program, and what goes to stdin."""
    if ("path" in given) == ("source" in given):
        raise usage_error(f"{tool} needs either path or source")
    if "source" in given:
        return STDIN, given["source"]
    return places.inside(given["path"]), ""


def _compile(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("compile", given, places)
    emit = given.get("emit", "so")
    words = ["build", word, f"--emit={emit}", *options(given, "dims", "target")]
    if "output" not in given and emit in BINARIES:
        raise usage_error("compile needs output, the file to write", "or emit one of: " + ", ".join(TEXTS))
    writes = places.inside(given["output"]) if "output" in given else ""
    return Order("mucc", (*words, *(("-o", writes) if writes else ())), text, writes, text=True)


def _check(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("check", given, places)
    return Order("mucc", ("check", word, *options(given, "dims", "target")), text, text=True)


def _explain(given: Mapping[str, Any], places: Places) -> Order:
    codes: list[str] = given["codes"]
    if bad := [code for code in codes if code.startswith("-")]:
        raise usage_error(f"'{bad[0]}' is no code")
    return Order("mucc", ("explain", *codes), text=True)


def _sol(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("sol", given, places)
    words = options(given, "dims", "device", "kernel", "measured", "baseline")
    return Order("mucc", ("sol", word, "--json", *words), text)


def _run(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("run", given, places)
    words = options(given, "dims", "kernel", "device", "iters", "seed", "target")
    return Order("mucc", ("run", word, "--json", *words), text)


def _tune(given: Mapping[str, Any], places: Places) -> Order:
    chosen = options(given, "dims", "kernel", "budget", "keep_pins", "again", "target")
    writes = places.inside(given["output"]) if "output" in given else ""
    words = ("tune", places.inside(given["path"]), "--json", *chosen)
    return Order("mucc", (*words, *(("-o", writes) if writes else ())), writes=writes)


def _audit(given: Mapping[str, Any], places: Places) -> Order:
    files = [places.inside(given[name]) for name in ("problem", "solution")]
    words = options(given, "device", "card", "precision", "seed", "runs", "shapes")
    return Order("mucc.agent", ("audit", *files, "--json", *words))


TOOLS = (
    Tool(
        "compile",
        "Compile a .mcu program into a loadable .so, or show a level on the way: the schedule that the "
        "compiler chose, CUTLASS C++, PTX. A library takes seconds to minutes.",
        (
            PATH,
            SOURCE,
            Field("emit", "string", "what to make (default: so)", choices=(*TEXTS, *BINARIES)),
            Field("output", "string", "the file to write; texts are answered where it is left out"),
            DIMS,
            TARGET,
        ),
        _compile,
        writes=True,
    ),
    Tool(
        "check",
        "Errors and warnings of a .mcu program, fast: run it on each version.",
        (PATH, SOURCE, DIMS, TARGET),
        _check,
    ),
    Tool(
        "explain",
        "What diagnostic codes mean, and how to mend them.",
        (Field("codes", "array", 'such as ["MU3004"]', needed=True),),
        _explain,
    ),
    Tool(
        "sol",
        "The speed of light of a program, or of a PyTorch problem file (.py): what no implementation is "
        "faster than on a card, by which limit, and what would lower it.",
        (
            Field("path", "string", "a .mcu file, or a PyTorch problem file (.py)"),
            SOURCE,
            DIMS,
            Field("device", "string", "the card (default: h200)"),
            KERNEL,
            Field("measured", "number", "a measured time in ms, to compare with the bound"),
            Field("baseline", "number", "the time of a baseline in ms, for the SOL score"),
        ),
        _sol,
    ),
    Tool(
        "run",
        "Compile a program, run it on random inputs, compare with the float64 interpreter, and time it. "
        "Without a GPU (device cpu) what it was lowered to is interpreted, and nothing is timed.",
        (
            PATH,
            SOURCE,
            DIMS,
            KERNEL,
            Field("device", "string", "where (default: cuda if it can)", choices=("cuda", "cpu")),
            Field("iters", "integer", "timed launches (default: 50)", least=1),
            Field("seed", "integer", "of the inputs (default: a new one, which is answered)", least=0),
            TARGET,
        ),
        _run,
    ),
    Tool(
        "tune",
        "Search for the fastest schedules of a program by measuring them on this machine's GPU. Takes "
        "minutes; what was measured is kept, so that a search that was cancelled goes on where it was.",
        (
            Field("path", "string", "a .mcu file", needed=True),
            DIMS,
            KERNEL,
            Field("budget", "integer", "skeletons that nvcc compiles at most (default: 24)", least=1),
            Field("keep_pins", "boolean", "search only what the file's schedules leave open"),
            Field("again", "boolean", "measure again what was measured before"),
            Field("output", "string", "the file to write the program with the best schedule to"),
            TARGET,
        ),
        _tune,
        writes=True,
    ),
    Tool(
        "audit",
        "Decide whether a solution counts as a replacement of a PyTorch problem: results on fresh and hidden "
        "inputs, times, and every known way of cheating.",
        (
            Field("problem", "string", "a problem file (.py)", needed=True),
            Field(
                "solution", "string", "a .mcu program, a library that mucc built, or a .py file", needed=True
            ),
            Field(
                "device", "string", "where (default: a GPU if there is one)", choices=("auto", "cuda", "cpu")
            ),
            Field("precision", "string", "the narrowest format for f32 products", choices=PRECISIONS),
            Field("card", "string", "the card whose bound holds (default: the one at hand)"),
            Field("seed", "integer", "repeat an audit", least=0),
            Field("runs", "integer", "timed calls at the most (default: 30)", least=1),
            Field("shapes", "boolean", "audit at smaller sizes too"),
        ),
        _audit,
    ),
    *RUN_TOOLS,
)
