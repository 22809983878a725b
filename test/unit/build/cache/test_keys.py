"""The keys of the cache, and where it is."""

import shutil
import sys
from pathlib import Path

import pytest

from mucc.build.cache import artefact_key, content_key, default_directory, digest, request_key, tree_contents

HEADERS = {"mucc/host.h": "#pragma once\n"}


def key_of(
    tmp_path: Path, ir: str = "ir", code: str = "int x;\n", flags: str = "-O3", version: str = "13.0"
) -> str:
    for name, text in HEADERS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return artefact_key(ir, code, (flags,), (version,), (str(tmp_path),))


def test_an_artefact_key_holds_what_decides(tmp_path: Path):
    base = key_of(tmp_path)
    assert key_of(tmp_path) == base
    changed = {
        key_of(tmp_path, ir="other"),
        key_of(tmp_path, code="int y;\n"),
        key_of(tmp_path, flags="-O2"),
        key_of(tmp_path, version="12.9"),
    }
    assert base not in changed and len(changed) == 4
    (tmp_path / "mucc/host.h").write_text("#pragma once\nint z;\n")
    assert artefact_key("ir", "int x;\n", ("-O3",), ("13.0",), (str(tmp_path),)) != base


def test_an_artefact_key_holds_nothing_else(tmp_path: Path):
    """Not where the headers lie, not comments, not what the source file was called, and not the hints."""
    code = '// from a.mcu\nint x;\nMUCC_MODULE({"source": "a.mcu", "source_hash": "1", "name": "k"})\n'
    base = key_of(tmp_path, code=code)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    assert key_of(moved, code=code) == base
    other = code.replace("a.mcu", "b.mcu").replace('"1"', '"2"').replace("int x;", "\n  // x\nint x;")
    assert key_of(moved, code=other) == base
    hinted = code.replace('"name"', '"typical": {"M": 128, "N": 64}, "name"')
    assert key_of(moved, code=hinted) == base
    assert key_of(moved, code=code.replace('"k"', '"l"')) != base


def test_a_key_tells_where_each_part_ends():
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), (("ab", "c"),), (("ab",), "c"), ("ab", ("c",))]
    keys = {digest(*part) for part in parts}
    assert len(keys) == len(parts) and all(len(key) == 64 for key in keys)


def test_a_content_key_holds_its_level_and_the_version(monkeypatch: pytest.MonkeyPatch):
    base = content_key("device", "text", ("-O3",))
    assert content_key("device", b"text", ("-O3",)) == base != content_key("host", "text", ("-O3",))
    monkeypatch.setattr("mucc.build.cache.keys.__version__", "99")
    assert content_key("device", "text", ("-O3",)) != base


def test_the_contents_of_a_tree(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.h").write_text("x")
    base = tree_contents(str(tmp_path))
    shutil.copytree(tmp_path / "a", tmp_path / "copy" / "a")
    assert tree_contents(str(tmp_path / "copy")) == base
    (tmp_path / "copy/a/x.h").rename(tmp_path / "copy/a/y.h")
    assert tree_contents(str(tmp_path / "copy")) != base


def test_a_request_key_holds_text_flags_and_toolchain():
    keys = {
        request_key(source, (flag,), (tool,))
        for source in (b"a", b"b")
        for flag in ("so", "ptx")
        for tool in ("nvcc 1 2", "nvcc 1 3")
    }
    assert len(keys) == 8


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "mine"))
    assert default_directory() == str(tmp_path / "mine")
    monkeypatch.delenv("MUCC_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_directory() == str(tmp_path / "xdg" / "mucc")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == str(tmp_path / ".cache" / "mucc")
