"""Libraries that tests compile are kept by all that goes into them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench.host import compiled


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is kept, an empty one."""
    monkeypatch.setattr(compiled, "LIBRARIES", tmp_path / "kept")
    return tmp_path / "kept"


def test_equal_keys_are_built_once(kept: Path, tmp_path: Path) -> None:
    built: list[Path] = []

    def build(made: Path) -> None:
        built.append(made)
        made.write_bytes(b"library %d" % len(built))

    first = compiled.library(("c++", "text"), tmp_path / "a.so", build)
    again = compiled.library(("c++", "text"), tmp_path / "b.so", build)
    other = compiled.library(("c++", "other"), tmp_path / "c.so", build)
    assert [p.read_bytes() for p in (first, again, other)] == [b"library 1", b"library 1", b"library 2"]
    assert not os.path.samefile(first, again)  # the loader gives each its own variables
    assert len(list(kept.iterdir())) == 2 and not any(made.exists() for made in built)


def test_other_headers_are_another_library(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = tmp_path / "include"
    headers.mkdir()
    for text in ("int a;", "int b;"):
        (headers / "mucc.h").write_text(text)
        compiled.contents.cache_clear()
        monkeypatch.setattr(compiled, "INCLUDES", (headers,))
        compiled.library(("c++",), tmp_path / "a.so", lambda made, text=text: made.write_text(text) and None)
    compiled.contents.cache_clear()
    assert (tmp_path / "a.so").read_text() == "int b;" and len(list(kept.iterdir())) == 2


def test_headers_count_by_their_contents(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / "include").mkdir(parents=True)
        (tmp_path / name / "include" / "mucc.h").write_text("int a;")
    assert len({compiled.contents(tmp_path / name / "include") for name in ("one", "other")}) == 1


def test_only_headers_that_a_text_includes_count(tmp_path: Path) -> None:
    (tmp_path / "mucc").mkdir()
    (tmp_path / "beside").mkdir()
    headers = {
        "a.h": "#include <mucc/b.h>\n",
        "mucc/b.h": '#if 0\n#  include "c.h"\n#endif\n',
        "mucc/c.h": "int c;",
        "beside/c.h": "int other;",
        "mucc/d.h": "int d;",
    }
    for name, text in headers.items():
        (tmp_path / name).write_text(text)

    def found() -> str:
        return compiled.included("#include <a.h>\n#include <vector>\n", (tmp_path / "beside", tmp_path))

    before = found()
    for name, text in headers.items():
        (tmp_path / name).write_text(f"{text}int more;")
        assert (found() != before) == (name not in ("beside/c.h", "mucc/d.h")), name
        (tmp_path / name).write_text(text)
    assert found() == before


def test_a_failed_build_keeps_nothing(kept: Path, tmp_path: Path) -> None:
    def fail(made: Path) -> None:
        raise AssertionError("rejected")

    with pytest.raises(AssertionError, match="rejected"):
        compiled.library(("c++",), tmp_path / "a.so", fail)
    assert not list(kept.iterdir()) and not (tmp_path / "a.so").exists()


def test_what_is_long_unused_is_removed(kept: Path, tmp_path: Path) -> None:
    kept.mkdir(parents=True)
    old, used = kept / "old.so", kept / "used.so"
    for path, age in ((old, 2 * compiled.KEPT_SECONDS), (used, 0.0)):
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    compiled._drop_old.cache_clear()  # pyright: ignore[reportPrivateUsage]
    compiled.library(("c++",), tmp_path / "a.so", lambda made: made.touch())
    assert not old.exists() and used.exists()
