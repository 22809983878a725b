"""Commands as processes: exit statuses, pipes, and what they import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compiler_stand_in import write
from processes import HANG

from mucc.build.toolchain import discover

MUCC = [sys.executable, "-m", "mucc"]

pytestmark = pytest.mark.usefixtures("here")


def process(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MUCC, *argv], capture_output=True, text=True, timeout=HANG, **options)  # type: ignore[call-overload]


def test_the_process_exits_with_the_status():
    assert process("--version").returncode == 0
    assert process("gone.mcu").returncode == 2
    assert process("explain", "MU5010").stdout.startswith("MU5010: ")


def test_a_reader_that_leaves_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run([*MUCC, "docs", "--errors"], stdout=writer, stderr=subprocess.PIPE, timeout=HANG)
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, b"")


@pytest.mark.parametrize("argv", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(argv: list[str]):
    assert heavy(f"assert main({argv!r}) == 0") == set()


def test_a_cached_build_imports_nothing_heavy(builds: list[str]):
    """The compiler proper stays out of the way when the answer is known."""
    if not (discover.find_nvcc() and discover.find_cutlass() and discover.find_host()):
        pytest.skip("a request names its toolchain, and there is none here")
    write("k.mcu")
    # In a process of its own, which finds the same toolchain as the one that is watched.
    subprocess.run([sys.executable, "-c", STORED], check=True, timeout=300)
    assert heavy("assert main(['k.mcu', '-o', 'k.so']) == 0") == {"click"}
    assert Path("k.so").read_bytes() == b"data"


STORED = """
from pathlib import Path
from mucc.build.artefact import Request, decisive_flags
from mucc.build.cache import Cache, Entry, request_key
from mucc.build.toolchain import discover

decisive, cache = decisive_flags(Request(b"", "k.mcu")), Cache()
cache.build("artefacts", "ab" * 32, lambda: Entry(b"data", ()))
key = request_key(Path("k.mcu").read_bytes(), decisive, discover.find_toolchain().fingerprint())
cache.store_request(key, "ab" * 32, ())
"""
"""A program that stores the answer to `mucc k.mcu -o k.so` in the cache."""


def heavy(statement: str) -> set[str]:
    """Which of the modules that cost much were imported by a statement, in a fresh process."""
    watched = {
        "xdsl",
        "numpy",
        "torch",
        "rich",
        "click",
        "click.shell_completion",
        "filelock",
        "subprocess",
        "mucc.compiler.driver",
        "mucc.frontend",
    }
    program = (
        f"import sys; from mucc.cli.main import main; {statement}; print(*({watched!r} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG, check=True
    )
    return set(run.stdout.splitlines()[-1].split())
