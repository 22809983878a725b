"""Legality against the compiler, on a sample: see test/tools/legality.py, which takes larger ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from mucc.build.toolchain import discover

TOOL = Path(__file__).parents[4] / "tools" / "legality.py"

COUNT = 2
"""Configurations of each kind."""


@pytest.mark.long
@pytest.mark.nvcc
def test_what_is_accepted_compiles_and_what_is_rejected_does_not():
    if not (discover.find_cutlass() and discover.find_host()):
        pytest.skip("needs CUTLASS and g++: pip install 'mucc[nvcc]'")
    sample = [f"--count={COUNT}", f"--rejected={COUNT}", "--jobs=1", "--seed=6"]
    run = subprocess.run([sys.executable, str(TOOL), *sample], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{COUNT} of {COUNT} accepted configurations compile" in run.stdout
    assert f"{COUNT} of {COUNT} rejected configurations do not compile" in run.stdout
