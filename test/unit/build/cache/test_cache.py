"""The cache: entries, files, damage, concurrency, and directories that cannot be used."""

import contextlib
import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cachelib import NAME, WARNING, A, B, C, age, built, entry_file, files, left_behind, unused, unused_file
from processes import HANG, wait_for

from mucc.build.cache import LEVELS, Cache, Entry, folders, upkeep
from mucc.build.cache.upkeep import BLOCK
from mucc.diagnostics import Diagnostic, Severity

NOBODY = 65534


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


# Entries


def test_made_once_then_found(cache: Cache):
    made = cache.build("artefacts", A, lambda: Entry(b"\x7fELF\n\x00", (WARNING,)))
    assert cache.build("artefacts", A, unused) == made == Entry(b"\x7fELF\n\x00", (WARNING,))
    stats = cache.stats().levels["artefacts"]
    assert (stats.entries, stats.hits, stats.misses) == (1, 1, 1)
    assert cache.problems == [] and left_behind(cache) == []


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_keeps_bytes_and_fields(cache: Cache, level: str):
    entry = Entry(b"\n\n", (), {"registers": 168, "spills": [1, None, "x"]})
    cache.store(level, A, entry)
    assert cache.find(level, A) == entry
    others = [other for other in LEVELS if other != level]
    assert all(cache.find(other, A) is None for other in others)


def test_a_level_or_key_that_cannot_be_is_a_mistake_of_the_caller(cache: Cache):
    for level, key in (("artifacts", A), ("artefacts", "ab")):
        with pytest.raises(ValueError, match="no level or no key"):
            cache.find(level, key)


def test_a_request_leads_to_its_artefact_with_all_warnings(cache: Cache):
    first = Diagnostic("MU2001", "unused", severity=Severity.WARNING)
    cache.build("artefacts", A, lambda: Entry(b"data", (WARNING,)))
    cache.store_request(B, A, (first,))
    assert cache.find_request(B) == Entry(b"data", (first, WARNING))
    assert cache.find_request(C) is None


def test_a_request_whose_artefact_is_gone_is_none(cache: Cache):
    cache.store_request(B, A, ())
    assert cache.find_request(B) is None
    assert cache.problems == []


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "cut in the header": lambda data: data[:20],
    "longer": lambda data: data + b"x",
    "a bit of the data": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a bit of the fields": lambda data: data.replace(b'"n"', b'"m"'),
    "zeros, as after a loss of power": lambda data: bytes(len(data)),
    "text": lambda data: b"hello\n",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_dropped_and_made_again(cache: Cache, kind: str):
    cache.build("artefacts", A, lambda: Entry(b"data", (WARNING,)))
    path = entry_file(cache)
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    assert cache.find("artefacts", A) is None
    assert [p.code for p in cache.problems] == ["MU5204"] and not path.exists()
    assert cache.build("artefacts", A, lambda: Entry(b"again")).data == b"again"
    assert cache.build("artefacts", A, unused).data == b"again"


def test_the_entry_of_another_key_or_level_is_none(cache: Cache):
    cache.store("artefacts", A, Entry(b"data"))
    for level, key in (("artefacts", B), ("device", A)):
        path = entry_file(cache, level, key)
        path.parent.mkdir(parents=True)
        shutil.copy(entry_file(cache), path)
        assert cache.find(level, key) is None
    assert [p.code for p in cache.problems] == ["MU5204", "MU5204"]


def test_fresh_makes_anew(cache: Cache):
    cache.build("artefacts", A, lambda: Entry(b"old"))
    assert cache.build("artefacts", A, lambda: Entry(b"new"), fresh=True).data == b"new"
    assert cache.build("artefacts", A, unused).data == b"new"


def test_a_failure_leaves_nothing(cache: Cache):
    with pytest.raises(RuntimeError):
        cache.build("artefacts", A, lambda: (_ for _ in ()).throw(RuntimeError("nvcc")))
    assert cache.find("artefacts", A) is None
    assert cache.stats().entries == 0 and left_behind(cache) == []


# Files that are used in place


def test_a_file_is_made_once_and_lies_under_its_name(cache: Cache):
    path = built(cache)
    assert path.name == NAME and path.read_bytes() == b"gch"
    assert cache.build_file("headers", A, path.name, unused_file) == str(path)
    assert cache.find_file("headers", A, path.name) == str(path)
    assert cache.find_file("headers", A, "other") is None
    assert cache.find_file("headers", B, path.name) is None
    stats = cache.stats().levels["headers"]
    assert (stats.entries, stats.misses, stats.size) == (1, 1, BLOCK)
    assert cache.problems == [] and left_behind(cache) == []


def test_a_file_may_have_others_beside_it_which_are_checked_too(cache: Cache):
    def make(path: str) -> None:
        Path(path).write_bytes(b"gch")
        Path(path).with_name("prelude.hpp").write_bytes(b"#pragma once\n")

    path = Path(cache.build_file("headers", A, NAME, make) or "")
    assert path.with_name("prelude.hpp").exists()
    path.with_name("prelude.hpp").write_bytes(b"#pragma twice\n")
    assert cache.find_file("headers", A, path.name) is None
    assert [p.code for p in cache.problems] == ["MU5204"]


def test_the_files_of_another_key_are_none(cache: Cache):
    shutil.copytree(built(cache).parent, entry_file(cache, "headers", B))
    assert cache.find_file("headers", B, NAME) is None
    assert [p.code for p in cache.problems] == ["MU5204"]


@pytest.mark.parametrize("damage", ["cut", "gone", "checksum cut", "checksum gone", "one more"])
def test_a_damaged_file_is_made_again(cache: Cache, damage: str):
    path = built(cache)
    checksum = path.with_name("checksum.mucc")
    if damage == "cut":
        path.write_bytes(b"gc")
    elif damage == "gone":
        path.unlink()
    elif damage == "checksum gone":
        checksum.unlink()
    elif damage == "one more":
        path.with_name("more").write_bytes(b"")
    else:
        checksum.write_bytes(b"mucc-cache 2 ")
    other = Cache(cache.directory)  # as another process: this one has not read the files yet
    folders._verified.clear()
    assert other.find_file("headers", A, path.name) is None
    assert [p.code for p in other.problems] == ["MU5204"] and not path.parent.exists()
    assert built(other, b"again").read_bytes() == b"again"


def test_a_file_that_was_read_once_is_not_read_again(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    path = built(cache)

    def read(*_: object) -> str:
        raise AssertionError("reads hundreds of megabytes")

    monkeypatch.setattr(folders, "_checksum", read)
    assert cache.find_file("headers", A, path.name) == str(path)
    path.write_bytes(b"gcx")
    age(path, 100)  # clocks of file systems are coarse
    with pytest.raises(AssertionError, match="megabytes"):
        cache.find_file("headers", A, path.name)


def test_a_fresh_file_takes_the_place_of_the_old_one(cache: Cache):
    built(cache)
    assert built(cache, b"new", fresh=True).read_bytes() == b"new"
    assert cache.stats().entries == 1 and left_behind(cache) == []


def test_a_file_that_cannot_be_made_leaves_nothing(cache: Cache):
    def make(path: str) -> None:
        Path(path).write_bytes(b"half")
        raise RuntimeError("g++")

    with pytest.raises(RuntimeError):
        cache.build_file("headers", A, NAME, make)
    assert cache.stats().size == 0 and left_behind(cache) == []


def test_what_cannot_be_stored_as_a_file_is_none(cache: Cache):
    def make(path: str) -> None:
        os.mkdir(path)

    assert cache.build_file("headers", A, NAME, make) is None
    assert [p.code for p in cache.problems] == ["MU5203"]
    assert cache.stats().size == 0 and left_behind(cache) == []


# Concurrency


def run(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE)


def test_concurrent_builds_of_one_key_build_once(tmp_path: Path):
    """Four processes want the same; the one that makes it takes a while; a file counts the makings."""
    program = """
import sys, time
from mucc.build.cache import Cache, Entry
def make():
    with open(sys.argv[2], "a") as f: f.write("x")
    time.sleep(0.3)
    return Entry(b"data")
assert Cache(sys.argv[1]).build("artefacts", "a" * 64, make).data == b"data"
"""
    count = tmp_path / "count"
    processes = [run(program, str(tmp_path / "cache"), str(count)) for _ in range(4)]
    assert [p.wait(HANG) for p in processes] == [0] * 4
    assert count.read_text() == "x"
    assert left_behind(Cache(str(tmp_path / "cache"))) == []


def test_threads_wait_for_each_other_and_say_so(cache: Cache):
    made: list[str] = []
    said: list[str] = []
    inside = threading.Event()

    def make() -> Entry:
        made.append("x")
        inside.set()
        wait_for(lambda: bool(said))
        return Entry(b"data")

    first = threading.Thread(target=cache.build, args=("device", A, make))
    first.start()
    inside.wait()
    cache.build("device", B, lambda: Entry(b"other keys do not wait"))
    assert cache.build("device", A, unused, waiting=lambda: said.append("waiting")).data == b"data"
    first.join()
    assert (made, said) == (["x"], ["waiting"])


def test_a_build_may_build_parts(cache: Cache):
    def whole() -> Entry:
        parts = [
            cache.build(level, A, lambda: Entry(b"part")).data for level in ("device", "host", "objects")
        ]
        return Entry(b" ".join([*parts, built(cache).read_bytes()]))

    assert cache.build("artefacts", A, whole).data == b"part part part gch"
    assert cache.stats().entries == 5


HOLDER = """
import sys, time
from mucc.build.cache import Cache, Entry
def make():
    print("inside", flush=True)
    time.sleep(100)
Cache(sys.argv[1]).build("artefacts", "a" * 64, make)
"""


def test_a_killed_process_holds_nothing_up(cache: Cache):
    process = run(HOLDER, cache.directory)
    assert process.stdout and process.stdout.readline() == b"inside\n"
    process.kill()
    process.wait()
    assert len(left_behind(cache)) == 1, "its lock file"
    assert cache.build("artefacts", A, lambda: Entry(b"data")).data == b"data"
    assert left_behind(cache) == []


def test_patience_ends(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    """A process that was stopped, or whose compiler hangs, does not stop others for good."""
    monkeypatch.setattr(Cache, "patience", 0.05)
    process = run(HOLDER, cache.directory)
    assert process.stdout and process.stdout.readline() == b"inside\n"
    assert cache.build("artefacts", A, lambda: Entry(b"data")).data == b"data"
    assert cache.problems == []
    process.kill()
    process.wait()


def test_an_open_file_may_be_evicted(tmp_path: Path):
    cache = Cache(str(tmp_path), bound=4 * BLOCK)
    path = built(cache)
    with open(path, "rb") as file:
        cache.clear()
        assert not path.exists() and file.read() == b"gch"


# Directories that cannot be used


def test_a_directory_that_cannot_be_made_is_one_warning(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = Cache(str(tmp_path / "file" / "cache"))
    assert cache.build("artefacts", A, lambda: Entry(b"data")).data == b"data"
    cache.store_request(B, A, ())
    assert cache.build_file("headers", A, "x", unused_file) is None
    assert [(p.code, p.severity) for p in cache.problems] == [("MU5203", Severity.WARNING)]


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Without root's right to write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def read_only() -> Iterator[str]:
    """A cache with an artefact, its request and a file, in which nothing can be written."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        cache = Cache(directory)
        cache.build("artefacts", A, lambda: Entry(b"data", (WARNING,)))
        cache.store_request(B, A, ())
        built(cache)
        inside = [root for root, _, _ in os.walk(directory)]
        for folder in inside:
            os.chmod(folder, 0o555)
        for path in Path(directory).rglob("*"):
            if path.is_file():
                os.chmod(path, 0o444)
        yield directory
        for folder in inside:
            os.chmod(folder, 0o755)


def test_a_read_only_cache_serves_without_a_word(read_only: str):
    before = files(read_only)
    cache = Cache(read_only)
    with unprivileged():
        assert cache.find_request(B) == Entry(b"data", (WARNING,))
        assert cache.build("artefacts", A, unused).data == b"data"
        assert cache.build_file("headers", A, NAME, unused_file)
        assert cache.stats().entries == 3 and cache.verify().whole == 3
        assert cache.problems == []
        assert cache.build("artefacts", C, lambda: Entry(b"new")).data == b"new"
        cache.store_request(C, A, ())
        assert [p.code for p in cache.problems] == ["MU5203"]
        with pytest.raises(OSError, match="denied"):
            cache.clear()
    assert files(read_only) == before


def test_a_shared_cache_is_looked_up_second_and_never_written(read_only: str, tmp_path: Path):
    before = {path: os.stat(path).st_mtime_ns for path in Path(read_only).rglob("*")}
    cache = Cache(str(tmp_path), shared=(str(tmp_path / "empty"), read_only))
    (tmp_path / "empty").mkdir()
    assert cache.find_request(B) == Entry(b"data", (WARNING,))
    assert str(cache.find_file("headers", A, NAME)).startswith(read_only)
    assert cache.build("artefacts", A, unused).data == b"data"
    cache.build("artefacts", A, lambda: Entry(b"mine"), fresh=True)
    assert cache.find("artefacts", A) == Entry(b"mine"), "the own one comes first"
    assert cache.problems == []
    assert cache.clear().entries == 1
    assert {path: os.stat(path).st_mtime_ns for path in Path(read_only).rglob("*")} == before


def test_a_damaged_entry_of_a_shared_cache_is_passed_over(cache: Cache, tmp_path: Path):
    cache.store("device", A, Entry(b"data"))
    path = entry_file(cache, "device")
    path.write_bytes(b"?")
    header = built(cache)
    header.write_bytes(b"?")
    own = Cache(str(tmp_path / "own"), shared=(cache.directory,))
    assert own.build("device", A, lambda: Entry(b"again")).data == b"again"
    assert built(own, b"again").read_bytes() == b"again"
    assert [p.code for p in own.problems] == ["MU5204", "MU5204"]
    assert path.read_bytes() == b"?" and header.read_bytes() == b"?"


def test_shared_caches_are_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a").mkdir()
    monkeypatch.setenv("MUCC_CACHE_SHARED", os.pathsep.join((str(tmp_path / "a"), "", str(tmp_path / "b"))))
    cache = Cache(str(tmp_path / "own"))
    assert cache.shared == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert cache.find("device", A) is None and cache.problems == [], "a hit costs no look at what is missing"
    cache.build("device", A, lambda: Entry(b"data"))
    assert [p.code for p in cache.problems] == ["MU5206"] and str(tmp_path / "b") in cache.problems[0].message


def test_a_full_disk_leaves_no_half_file(cache: Cache):
    """A limit on the size of files ends a write in its middle, as a full disk does."""
    cache.store("device", A, Entry(b"data"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        assert cache.build("device", B, lambda: Entry(bytes(1 << 20))).data == bytes(1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.code for p in cache.problems] == ["MU5203"]
    assert left_behind(cache) == [] and cache.find("device", B) is None
    assert cache.find("device", A) == Entry(b"data")


def test_a_full_disk_has_a_help_of_its_own(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(upkeep, "put_file", full)
    cache.store("device", A, Entry(b"data"))
    (problem,) = cache.problems
    assert problem.code == "MU5203" and "free some space" in problem.helps[0]
