"""Every tutorial does what it says, from its first block to its last."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hostlib import cuda_paths
from tutorials import ROOT, Checkout, matches

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_a_tutorial_works(path: Path, tmp_path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    if "test_emit_math" in page and (shutil.which("g++") is None or cuda_paths() is None):
        pytest.skip("needs g++ and the CUDA headers: pip install 'mucc[nvcc]'")
    Checkout(tmp_path / "mucc").follow(page)


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("```diff\n--- mucc/version.py\n-no such line\n+x\n```\n", "has 0 places"),
        ("```diff\n--- mucc/version.py\n no change\n```\n", "nothing changes"),
        ("```python\nprint(1)\n```\n", "names no file"),
        ("```python\n# mucc/version.py\n\nx = 1\n```\n", "exists already"),
        ("```console\n$ echo a\nb\n```\n", "printed\na\n"),
        ("```console\na\n```\n", "begins with"),
    ],
)
def test_a_page_that_is_wrong_is_found_out(page: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "mucc").mkdir()
    checkout = Checkout.__new__(Checkout)
    checkout.folder = tmp_path
    (tmp_path / "mucc" / "version.py").write_text('__version__ = "1"\n')
    with pytest.raises(AssertionError, match=reason):
        checkout.follow(page)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("...\nb\n", "a\nx\nb\n", True),
        ("...\nb\n...\n", "b\n", True),
        ("a ... c\n", "a b c\n", True),
        ("a ... c\n", "a b\nc\n", False),
        ("", "a\n", False),
    ],
)
def test_dots_stand_for_text(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) == same
