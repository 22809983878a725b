"""The bound of the cache, eviction, sweeping, clearing and checking."""

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest
from cachelib import NAME, WARNING, A, B, C, age, built, entry_file, files, left_behind

from mucc.build.cache import LEVELS, Cache, Entry, digest, upkeep
from mucc.build.cache.upkeep import BLOCK, parse_size


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


# The bound


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2G", 2 << 30),
        ("500M", 500 << 20),
        ("1.5 GiB", 3 << 29),
        ("64kb", 64 << 10),
        (" 1t ", 1 << 40),
        ("4096", 4096),
        *(
            (text, None)
            for text in ("", "0", "0G", "-1G", "G", "lots", "1e9", "1 2", "2P", "nan", "٣", "9" * 400)
        ),
    ],
)
def test_sizes(text: str, size: int | None):
    assert parse_size(text) == size


def test_the_bound_is_a_setting(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    assert cache.bound == 4 << 30
    monkeypatch.setenv("MUCC_CACHE_SIZE", "3M")
    assert Cache(cache.directory).bound == 3 << 20
    monkeypatch.setenv("MUCC_CACHE_SIZE", "lots")
    other = Cache(cache.directory)
    assert (other.bound, other.bound) == (4 << 30, 4 << 30)
    assert [p.code for p in other.problems] == ["MU5205"] and "'lots'" in other.problems[0].message


def test_what_was_unused_longest_goes_first(tmp_path: Path):
    cache = Cache(str(tmp_path), bound=10 * BLOCK)
    keys = [digest(str(i)) for i in range(9)]
    for i, key in enumerate(keys):
        cache.store("artefacts", key, Entry(bytes(3000)))
        age(entry_file(cache, key=key), 1000 - i)
    assert cache.find("artefacts", keys[0]) is not None  # that is a use
    assert cache.stats().entries == 9
    cache.store("artefacts", A, Entry(bytes(2 * BLOCK - 200)))
    present = [cache.find("artefacts", key) is not None for key in (*keys, A)]
    assert present == [True, False, False, *[True] * 7], "nine blocks are left, one tenth is free"
    assert cache.stats().levels["artefacts"].evicted == 2
    assert cache.stats().size <= 9 * BLOCK and cache.problems == []


def test_levels_share_the_bound_and_files_count_too(tmp_path: Path):
    cache = Cache(str(tmp_path), bound=10 * BLOCK)
    path = built(cache, bytes(5 * BLOCK))
    age(path.with_name("checksum.mucc"), 1000)
    cache.store("host", A, Entry(bytes(2 * BLOCK)))
    assert cache.find_file("headers", A, path.name) == str(path)  # now the host object is the oldest
    age(entry_file(cache, "host"), 500)
    cache.store("device", A, Entry(bytes(2 * BLOCK)))
    assert cache.find("host", A) is None and path.exists()
    age(path.with_name("checksum.mucc"), 1000)
    cache.store("device", B, Entry(bytes(2 * BLOCK)))
    assert not path.parent.exists() and cache.find("device", A) is not None


def test_no_store_looks_through_the_cache_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cache = Cache(str(tmp_path), bound=100 * BLOCK)
    cache.store("device", A, Entry(b""))

    def scan(directory: str) -> None:
        raise AssertionError("looks at everything")

    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "scan", scan)
        for i in range(99):
            cache.store("device", digest(str(i)), Entry(b""))
        with pytest.raises(AssertionError):
            cache.store("device", B, Entry(b""))
    done = tmp_path / "locks/upkeep.mucc"
    age(done, 2 * upkeep.DAY)
    before = os.stat(done).st_mtime
    cache.store("device", A, Entry(b""))
    assert os.stat(done).st_mtime > before + upkeep.DAY, "once a day"


def test_an_entry_larger_than_the_bound_is_not_kept(tmp_path: Path):
    cache = Cache(str(tmp_path), bound=10 * BLOCK)
    cache.store("device", A, Entry(b"small"))
    assert cache.build("device", B, lambda: Entry(bytes(11 * BLOCK))).data == bytes(11 * BLOCK)
    assert cache.find("device", B) is None and cache.find("device", A) is not None
    assert [p.code for p in cache.problems] == ["MU5205"]


def test_a_file_larger_than_the_bound_goes_first(tmp_path: Path):
    cache = Cache(str(tmp_path), bound=10 * BLOCK)
    cache.store("device", A, Entry(b"small"))
    path = built(cache, bytes(20 * BLOCK))
    assert path.exists(), "whoever made it can use it"
    age(entry_file(cache, "device"), 1000)
    cache.store("device", B, Entry(b"small"))
    assert not path.exists()
    assert cache.find("device", A) is not None and cache.find("device", B) is not None


def test_the_account_survives_its_loss(tmp_path: Path):
    """Entries copied in from elsewhere are counted; so is everything when the account was damaged."""
    source = Cache(str(tmp_path / "a"), bound=100 * BLOCK)
    for i in range(20):
        source.store("device", digest(str(i)), Entry(b""))
    for damage in ("missing", "empty"):
        cache = Cache(str(tmp_path / damage), bound=10 * BLOCK)
        shutil.copytree(source.directory, cache.directory)
        usage = Path(cache.directory, "locks/usage.mucc")
        usage.unlink() if damage == "missing" else usage.write_bytes(b"")
        cache.store("device", A, Entry(b""))
        assert cache.stats().size <= 9 * BLOCK


def test_what_killed_processes_left_is_swept(tmp_path: Path):
    cache = Cache(str(tmp_path), bound=100 * BLOCK)
    cache.store("device", A, Entry(b""))
    for name in (f"device/{A[:2]}/{A[2:]}.mucc.123.abcd0123.tmp", f"locks/device-{B}.mucc", f"locks/{C}"):
        (tmp_path / name).write_bytes(bytes(5 * BLOCK))
    folder = tmp_path / f"device/{A[:2]}/{A[2:]}.mucc.123.0123abcd.tmp"
    folder.mkdir()
    (folder / "half").write_bytes(bytes(5 * BLOCK))
    held = tmp_path / f"device/{A[:2]}/{A[2:]}.mucc.123.ffffffff.tmp"
    held.write_bytes(b"of a process that lives")
    age(tmp_path / "locks/upkeep.mucc", 2 * upkeep.DAY)
    with open(held, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        cache.store("device", B, Entry(b""))
    assert left_behind(cache) == [str(held.relative_to(tmp_path))]
    assert set(os.listdir(tmp_path / "locks")) == {"usage.mucc", "upkeep.mucc"} and not folder.exists()


def test_without_locks_only_the_old_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    cache = Cache(str(tmp_path), bound=100 * BLOCK)
    assert cache.build("device", A, lambda: Entry(b"data")).data == b"data"
    assert built(cache).exists()
    young, old = (tmp_path / f"device/{A[:2]}/{A[2:]}.mucc.123.{n}.tmp" for n in ("aaaaaaaa", "bbbbbbbb"))
    young.write_bytes(b"")
    old.write_bytes(b"")
    age(old, 2 * upkeep.DAY)
    age(tmp_path / "locks/upkeep.mucc", 2 * upkeep.DAY)
    cache.store("device", B, Entry(b""))
    assert young.exists() and not old.exists()
    assert cache.problems == [] and cache.clear().entries == 3


def test_entries_of_other_versions_are_counted_evicted_and_cleared(tmp_path: Path):
    """Format 1 had no suffix; a newer mucc may have other levels, and another layout."""
    cache = Cache(str(tmp_path), bound=20 * BLOCK)
    old = tmp_path / "artefacts" / "aa" / A[2:]
    newer = tmp_path / "tiles" / "aa" / f"{A[2:]}.mucc"
    other = entry_file(cache, "device", A)
    for path, data in ((old, b'{"sha256": "0"}'), (newer, b"mucc-cache 3 x"), (other, b"mucc-cache 9 x")):
        path.parent.mkdir(parents=True)
        path.write_bytes(data.ljust(6 * BLOCK))
    (tmp_path / "hits").write_bytes(b"...")
    stats = cache.stats()
    assert (stats.entries, stats.size, stats.other) == (1, 18 * BLOCK, 12 * BLOCK)
    report = cache.verify()
    assert (report.whole, report.damaged) == (0, {}), "not for this version to judge"
    age(newer, 1000)
    age(old, 2000)
    cache.store("host", A, Entry(bytes(7 * BLOCK)))
    assert not newer.exists() and not old.exists() and other.exists()
    cache.clear()
    assert files(tmp_path) == []


# Looking at the whole


def test_clear(cache: Cache):
    assert cache.clear().entries == 0 and not os.path.exists(cache.directory)
    cache.build("artefacts", A, lambda: Entry(b"data"))
    cache.store_request(B, A, ())
    built(cache)
    before = cache.clear()
    assert before.entries == 3 and before.size == 3 * BLOCK
    after = cache.stats()
    assert (after.entries, after.size) == (0, 0)
    assert all((s.hits, s.misses, s.evicted) == (0, 0, 0) for s in after.levels.values())
    assert os.listdir(cache.directory) == []


def test_clear_and_eviction_leave_foreign_files(tmp_path: Path):
    """MUCC_CACHE_DIR may be a directory that somebody uses for other things too."""
    foreign = (
        "notes.txt",
        "hits",
        "usage",
        f"objects/ab/{A[2:]}",  # such as git has
        f"requests/ab/{A[2:]}.txt",
        f"artefacts/{A}.mucc",
        "headers/aa/README",
        "locks/mine",
        "host.mucc",
    )
    for name in foreign:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    (tmp_path / "x" / "ab").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "notes.txt")
    cache = Cache(str(tmp_path), bound=2 * BLOCK)
    for i in range(5):
        for level in LEVELS:
            cache.store(level, digest(str(i)), Entry(b"data"))
    built(cache)
    assert cache.verify().damaged == {}
    cache.clear()
    assert files(tmp_path) == sorted((*foreign, "link"))
    assert (tmp_path / "x" / "ab").is_dir()
    assert all((tmp_path / name).read_text() == "mine" for name in foreign)


def test_clear_leaves_what_is_being_written(cache: Cache):
    def make(path: str) -> None:
        Path(path).write_bytes(b"half")
        Cache(cache.directory).clear()
        Path(path).write_bytes(b"whole")

    path = cache.build_file("headers", A, NAME, make)
    assert path is not None and Path(path).read_bytes() == b"whole" and cache.problems == []


def test_verify_drops_what_is_damaged(cache: Cache):
    for key in (A, B, C):
        cache.store("artefacts", key, Entry(b"data", (WARNING,)))
    cache.store("host", A, Entry(b"data"))
    path = built(cache)
    good = built(cache, key=B)
    entry_file(cache, key=B).write_bytes(entry_file(cache, key=A).read_bytes())
    entry_file(cache, "host").write_bytes(b"")
    path.write_bytes(b"gcx")
    report = cache.verify()
    assert report.whole == 3 and report.unreadable == {}
    assert report.damaged == {
        "artefacts": [str(entry_file(cache, key=B))],
        "host": [str(entry_file(cache, "host"))],
        "headers": [str(path.parent)],
    }
    assert cache.find("artefacts", A) is not None and cache.find("artefacts", B) is None
    assert good.exists() and not path.exists()
    assert cache.verify().damaged == {}
