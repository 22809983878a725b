"""The wheel and the sdist of this checkout, built as pip builds them but with the setuptools that is here."""

import subprocess
import sys
from pathlib import Path

import pytest
from processes import HANG

ROOT = Path(__file__).parents[2]


def built(kind: str, folder: Path) -> Path:
    """The `wheel` or the `sdist`, in a folder of its own; without setuptools the test is skipped."""
    pytest.importorskip("setuptools", reason="building a distribution needs setuptools here")
    options = ["-q", "egg_info", "-e", str(folder)]
    if kind == "wheel":
        options += ["build", "-b", str(folder / "build")]
    settings = {"--global-option": options}
    program = f"from setuptools import build_meta; build_meta.build_{kind}({str(folder)!r}, {settings!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, timeout=HANG)
    (made,) = (path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz")))
    return made
