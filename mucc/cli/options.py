"""Options that several commands of `mucc` and `mucc-agent` have, each declared once."""

from __future__ import annotations

from mucc.cli import candidates
from mucc.cli.parameters import argument, arguments, flag, option, repeated
from mucc.diagnostics.usage import usage_error

DEFAULT_TARGET = "sm_90a"

PROGRAM = ".mcu"
"""How the names of programs end."""

PROBLEM = ".py"
"""How the names of PyTorch problem files end."""

MOST_MEBIBYTES = 1 << 30
"""The most memory that a limit may name: 1 PiB, more than any machine has."""


def program(help: str, *suffixes: str) -> str:
    """The file that a command is about, empty where none is named."""
    return argument("", metavar="FILE", help=help, complete=candidates.files(*(suffixes or (PROGRAM,))))


def programs(help: str) -> list[str]:
    """The files that a command is about."""
    return arguments(metavar="FILE", help=help, complete=candidates.files(PROGRAM))


def output(help: str, metavar: str = "OUT") -> str | None:
    """Where the result goes."""
    return option(None, "-o", metavar=metavar, help=help, complete=candidates.files())


def diagnostics() -> str:
    """The form of errors and warnings; `main` has looked at it already."""
    return option("text", choices=("text", "json"), help="form of errors and warnings on stderr")


def verbose() -> bool:
    """Whether to say what is being done."""
    return flag("-v", "--verbose", help="say what is being done, and show all details")


def json(help: str) -> bool:
    """Whether the result is printed as JSON."""
    return flag(help=help)


def target(help: str = "GPU to compile for; see `mucc targets`") -> str:
    """Which GPU is compiled for."""
    return option(
        DEFAULT_TARGET, metavar="ARCH", help=help, complete=candidates.words(candidates.target_names)
    )


def typical_dims() -> list[str]:
    """Typical values of open dims."""
    return dims("typical sizes, to choose schedules for; the library serves every size", "M=128,...")


def open_dims() -> list[str]:
    """Values of open dims, where nothing can be said without them."""
    return dims("values of the dims that the program leaves open", "M=128,...")


def dims(help: str, metavar: str = "M=4096,...") -> list[str]:
    """Values of dims."""
    return repeated(metavar=metavar, help=help)


def kernel(help: str) -> str | None:
    """One of the kernels of a file."""
    return option(None, metavar="NAME", help=help)


def no_tuned() -> bool:
    """Whether measured schedules are left aside."""
    return flag(help="choose schedules by the model, whatever `mucc tune` measured")


def no_cache() -> bool:
    """Whether the cache is left aside."""
    return flag(help="neither use nor fill the cache of compiled kernels")


def nvcc(help: str = "the nvcc to use, or the CUDA toolkit that holds it") -> str | None:
    """Which nvcc is used."""
    return option(None, metavar="PATH", help=help, complete=candidates.files())


def jobs(help: str, alone: str | None = None) -> int | None:
    """How much runs at a time, and the number where the option has none."""
    return option(
        None,
        "-j",
        "--jobs",
        type=int,
        metavar="N",
        help=help,
        alone=alone,
        complete=candidates.files(PROGRAM) if alone else None,
    )


def card(help: str) -> str | None:
    """A card, such as h200."""
    return option(None, metavar="CARD", help=help, complete=candidates.words(candidates.card_names))


def card_or(default: str, help: str) -> str:
    """A card, with a default."""
    return option(default, metavar="CARD", help=help, complete=candidates.words(candidates.card_names))


def measured() -> float | None:
    """A time that was measured."""
    return option(None, type=float, metavar="MS", help="a measured time of a call, to compare with the bound")


def time_limit(default: float, help: str) -> float:
    """A limit in seconds."""
    return option(default, metavar="S", help=help)


def memory_limit(help: str) -> int:
    """A limit in MiB of what a process may take beside torch."""
    return option(8192, metavar="MIB", help=help)


def check_limits(seconds: float, mebibytes: int) -> None:
    """Raise MU5001 where a process can have no such limits of time and memory."""
    if not seconds > 0:
        raise usage_error("--time-limit is above 0")
    if not 0 < mebibytes <= MOST_MEBIBYTES:
        raise usage_error(f"--memory-limit is from 1 to {MOST_MEBIBYTES} MiB")
