"""Declarations of options that several commands of `mucc` and `mucc-agent` share."""

from __future__ import annotations

from mucc.cli import candidates
from mucc.cli.parameters import argument, arguments, flag, option, repeated
from mucc.compiler.source import PROGRAM
from mucc.diagnostics.usage import usage_error
from mucc.target import DEFAULT_TARGET

PROBLEM = ".py"
"""The suffix of the names of PyTorch problem files."""

MOST_MEBIBYTES = 1 << 30
"""The largest memory limit in MiB: 1 PiB, more than any machine has."""


def program(help: str, *suffixes: str) -> str:
    """Declare the input file; empty if none is given."""
    return argument("", metavar="FILE", help=help, complete=candidates.files(*(suffixes or (PROGRAM,))))


def programs(help: str) -> list[str]:
    """Declare the input files."""
    return arguments(metavar="FILE", help=help, complete=candidates.files(PROGRAM))


def output(help: str, metavar: str = "OUT") -> str | None:
    """Declare the path of the output file."""
    return option(None, "-o", metavar=metavar, help=help, complete=candidates.files())


def diagnostics() -> str:
    """Declare the format of diagnostics; `main` reads this option before parsing."""
    return option(
        "text",
        choices=("text", "json"),
        help="form of errors and warnings on stderr; json where --json is given",
    )


def verbose() -> bool:
    """Whether to print progress and details."""
    return flag("-v", "--verbose", help="say what is being done, and show all details")


def json(help: str) -> bool:
    """Whether the result is printed as JSON."""
    return flag(help=help)


def target(help: str = "GPU to compile for; see `mucc targets`") -> str:
    """Declare the target architecture."""
    return option(
        DEFAULT_TARGET, metavar="ARCH", help=help, complete=candidates.words(candidates.target_names)
    )


def lineinfo() -> bool:
    """Lead machine code back to lines of the program."""
    return flag(
        help="have profilers (ncu --import-source yes) show lines of the program; nvcc then compiles it whole"
    )


def typical_dims() -> list[str]:
    """Typical values of open dims."""
    return dims(
        "typical sizes, to choose schedules for; the library serves every size. "
        "Several, or a range M=1..4096, give it several schedules",
        "M=128,...",
    )


def open_dims() -> list[str]:
    """Values of open dims, for commands that need the size of a problem."""
    return dims("values of the dims that the program leaves open", "M=128,...")


def dims(help: str, metavar: str = "M=4096,...") -> list[str]:
    """Values of dims."""
    return repeated(metavar=metavar, help=help)


def kernel(help: str) -> str | None:
    """Declare the name of one kernel of a file."""
    return option(None, metavar="NAME", help=help)


def no_tuned() -> bool:
    """Whether to ignore measured schedules."""
    return flag(help="choose schedules by the model, whatever `mucc tune` measured")


def no_cache() -> bool:
    """Whether to bypass the cache."""
    return flag(help="neither use nor fill the cache of compiled kernels")


def nvcc(help: str = "the nvcc to use, or the CUDA toolkit that holds it") -> str | None:
    """Declare the path of nvcc or of a CUDA toolkit."""
    return option(None, metavar="PATH", help=help, complete=candidates.files())


def jobs(help: str, alone: str | None = None) -> int | None:
    """Declare the number of parallel jobs; `alone` is its value if the option is given without one."""
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


def gpus(help: str) -> str | None:
    """Declare the numbers of GPUs of this machine; see `gpu_numbers`."""
    return option(None, metavar="N,...", help=help)


def gpu_numbers(text: str | None) -> tuple[int, ...]:
    """Parse the numbers of GPUs, such as `0,1`. Raises MU5001."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 5 for word in words):
        raise usage_error(
            f"--gpus takes numbers of GPUs, and '{text}' is no such list", "for example --gpus 0,1"
        )
    numbers = tuple(int(word) for word in words)
    if len({*numbers}) < len(numbers):
        raise usage_error(f"--gpus {text} names a GPU twice")
    return numbers


def ray(help: str) -> str | None:
    """Declare the address of a Ray cluster."""
    return option(None, metavar="ADDRESS", help=help)


RAY = "the machines of a Ray cluster: its address, auto for the one of this machine, local for a new one"
"""What `ray` is followed by in texts of help."""


def card(help: str) -> str | None:
    """Declare the name of a card, such as h200."""
    return option(None, metavar="CARD", help=help, complete=candidates.words(candidates.card_names))


def card_or(default: str, help: str) -> str:
    """Declare the name of a card, with a default."""
    return option(default, metavar="CARD", help=help, complete=candidates.words(candidates.card_names))


def measured() -> float | None:
    """Declare a measured time in milliseconds."""
    return option(None, type=float, metavar="MS", help="a measured time of a call, to compare with the bound")


def time_limit(default: float, help: str) -> float:
    """Declare a time limit in seconds."""
    return option(default, metavar="S", help=help)


def memory_limit(help: str) -> int:
    """Declare a limit in MiB of the memory of a process, on top of what torch takes."""
    return option(8192, metavar="MIB", help=help)


def check_limits(seconds: float, mebibytes: int) -> None:
    """Raise MU5001 for limits of time and memory that are out of range."""
    check_time_limit(seconds)
    if not 0 < mebibytes <= MOST_MEBIBYTES:
        raise usage_error(f"--memory-limit needs a number from 1 to {MOST_MEBIBYTES} (MiB)")


def check_time_limit(seconds: float) -> None:
    """Raise DiagnosticError MU5001 unless `--time-limit`, in seconds, is above 0."""
    if not seconds > 0:
        raise usage_error("--time-limit needs a number of seconds above 0")
