"""A few seconds of `bench.cache`: processes that build and evict in one small cache, and are killed."""

from bench.cache import stress


def test_no_entry_is_ever_wrong_missing_or_half():
    counts = stress(seconds=3, processes=4, bound=2 << 20, kills=2, fewest=5)
    assert counts["wrong"] == counts["lost"] == counts["problems"] == 0
    assert min(counts[name] for name in ("builds", "hits", "files", "kills", "evictions")) >= 5
