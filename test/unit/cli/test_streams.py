"""Standard streams of commands."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, subprocess, sys
from mucc.cli.streams import printing_to_stderr
print("before")
with printing_to_stderr():
    print("from Python")
    os.write(1, b"from C\\n")
    subprocess.run([sys.executable, "-c", "print('from a process')"])
print("after")
"""


def test_what_others_print_goes_to_stderr() -> None:
    """`mucc bench --json` prints one JSON object, whatever the tuners of contenders print."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["before", "after", ""]
    assert sorted(done.stderr.split("\n")) == ["", "from C", "from Python", "from a process"]
