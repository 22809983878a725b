"""The cache of compiled kernels: keys, damage, concurrency, and directories that cannot be used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mucc.cache import Cache, Entry, artefact_key, default_directory, request_key
from mucc.diagnostics import Diagnostic, Severity, Span

WARNING = Diagnostic("MU5201", "spills", Span(1, 3), Severity.WARNING, notes=("n",))
IS_ROOT = os.geteuid() == 0


def unused() -> Entry:
    raise AssertionError("must not be made")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


def entry_file(cache: Cache, level: str = "artefacts") -> Path:
    (path,) = (p for p in Path(cache.directory, level).rglob("*") if p.is_file())
    return path


def test_made_once_then_found(cache: Cache):
    made = cache.build("ab" * 32, lambda: Entry(b"\x7fELF\n\x00", (WARNING,)))
    assert cache.build("ab" * 32, unused) == made == Entry(b"\x7fELF\n\x00", (WARNING,))
    stats = cache.stats()
    assert (stats.entries, stats.hits, stats.misses) == (1, 1, 1)
    assert cache.problems == []


def test_a_request_leads_to_its_artefact_with_all_warnings(cache: Cache):
    first = Diagnostic("MU2001", "unused", severity=Severity.WARNING)
    cache.build("ab" * 32, lambda: Entry(b"data", (WARNING,)))
    cache.store_request("cd" * 32, "ab" * 32, (first,))
    assert cache.find_request("cd" * 32) == Entry(b"data", (first, WARNING))
    assert cache.find_request("ef" * 32) is None


def test_a_request_whose_artefact_is_gone_is_none(cache: Cache):
    cache.store_request("cd" * 32, "ab" * 32, ())
    assert cache.find_request("cd" * 32) is None
    assert cache.problems == []


@pytest.mark.parametrize("damage", [b"", b"{", b'"text"\nx', b'{"sha256": 1}\nx', b"\xff\xfe\n"])
def test_a_damaged_entry_is_dropped_and_made_again(cache: Cache, damage: bytes):
    cache.build("ab" * 32, lambda: Entry(b"data", ()))
    entry_file(cache).write_bytes(damage)
    assert cache.find("ab" * 32) is None
    assert [p.code for p in cache.problems] == ["MU5204"]
    assert cache.build("ab" * 32, lambda: Entry(b"again", ())).data == b"again"
    assert cache.build("ab" * 32, unused).data == b"again"


def test_a_flipped_bit_is_noticed(cache: Cache):
    cache.build("ab" * 32, lambda: Entry(b"data", ()))
    path = entry_file(cache)
    path.write_bytes(path.read_bytes()[:-1] + b"b")
    assert cache.find("ab" * 32) is None


def test_fresh_makes_anew(cache: Cache):
    cache.build("ab" * 32, lambda: Entry(b"old", ()))
    assert cache.build("ab" * 32, lambda: Entry(b"new", ()), fresh=True).data == b"new"
    assert cache.build("ab" * 32, unused).data == b"new"


def test_a_failure_leaves_nothing(cache: Cache):
    with pytest.raises(RuntimeError):
        cache.build("ab" * 32, lambda: (_ for _ in ()).throw(RuntimeError("nvcc")))
    assert cache.find("ab" * 32) is None
    assert cache.stats().entries == 0


def test_clear(cache: Cache):
    assert cache.clear().entries == 0
    cache.build("ab" * 32, lambda: Entry(b"data", ()))
    cache.store_request("cd" * 32, "ab" * 32, ())
    before = cache.clear()
    assert before.entries == 1 and before.size > 4
    after = cache.stats()
    assert (after.entries, after.size, after.hits, after.misses) == (0, 0, 0, 0)


def test_a_directory_that_cannot_be_made_is_one_warning(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = Cache(str(tmp_path / "file" / "cache"))
    assert cache.build("ab" * 32, lambda: Entry(b"data", ())).data == b"data"
    cache.store_request("cd" * 32, "ab" * 32, ())
    assert [(p.code, p.severity) for p in cache.problems] == [("MU5203", Severity.WARNING)]


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
def test_a_read_only_cache_still_serves(cache: Cache):
    cache.build("ab" * 32, lambda: Entry(b"data", ()))
    os.chmod(cache.directory, 0o555)
    try:
        assert cache.find("ab" * 32) == Entry(b"data", ())
    finally:
        os.chmod(cache.directory, 0o755)


def test_concurrent_builds_of_one_key_build_once(tmp_path: Path):
    """Four processes want the same; the one that makes it takes a while; a file counts the makings."""
    program = """
import sys, time
from mucc.cache import Cache, Entry
def make():
    with open(sys.argv[2], "a") as f: f.write("x")
    time.sleep(0.3)
    return Entry(b"data", ())
assert Cache(sys.argv[1]).build("ab" * 32, make).data == b"data"
"""
    count = tmp_path / "count"
    command = [sys.executable, "-c", program, str(tmp_path / "cache"), str(count)]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [p.wait(60) for p in processes] == [0] * 4
    assert count.read_text() == "x"


HEADERS = {"mucc/host.h": "#pragma once\n"}


def key(
    tmp_path: Path, ir: str = "ir", code: str = "int x;\n", flags: str = "-O3", version: str = "13.0"
) -> str:
    for name, text in HEADERS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return artefact_key(ir, code, (flags,), (version,), str(tmp_path))


def test_an_artefact_key_holds_what_decides(tmp_path: Path):
    base = key(tmp_path)
    assert key(tmp_path) == base
    changed = {
        key(tmp_path, ir="other"),
        key(tmp_path, code="int y;\n"),
        key(tmp_path, flags="-O2"),
        key(tmp_path, version="12.9"),
    }
    assert base not in changed and len(changed) == 4
    (tmp_path / "mucc/host.h").write_text("#pragma once\nint z;\n")
    assert artefact_key("ir", "int x;\n", ("-O3",), ("13.0",), str(tmp_path)) != base


def test_an_artefact_key_holds_nothing_else(tmp_path: Path):
    """Not where the headers lie, not comments, and not what the source file was called."""
    code = '// from a.mcu\nint x;\nMUCC_MODULE({"source": "a.mcu", "source_hash": "1", "name": "k"})\n'
    base = key(tmp_path, code=code)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    assert key(moved, code=code) == base
    other = code.replace("a.mcu", "b.mcu").replace('"1"', '"2"').replace("int x;", "\n  // x\nint x;")
    assert key(moved, code=other) == base
    assert key(moved, code=code.replace('"k"', '"l"')) != base


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
