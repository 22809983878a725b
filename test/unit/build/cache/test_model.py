"""The cache against a model: any sequence of uses."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from budget import examples
from cachelib import NAME, entry_file
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mucc.build.cache import Cache, Entry, digest
from mucc.build.cache.upkeep import BLOCK

KEYS = [digest(str(i)) for i in range(6)]


class Model(RuleBasedStateMachine):
    """Any sequence of uses, against a dictionary of what was stored and when it was last used.

    What was stored is found unless it was evicted, cleared or damaged; what goes is what was unused
    longest; and the bound holds after every store.
    """

    slots = st.tuples(st.sampled_from(("device", "host", "headers")), st.sampled_from(KEYS))

    @initialize(blocks=st.integers(6, 12))
    def start(self, blocks: int) -> None:
        self.directory = tempfile.mkdtemp()
        self.bound = blocks * BLOCK
        self.cache = Cache(self.directory, bound=self.bound, shared=())
        self.expected: dict[tuple[str, str], bytes] = {}
        self.used: dict[tuple[str, str], int] = {}
        self.damaged: set[tuple[str, str]] = set()
        self.tick = 10**18

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)

    def path(self, slot: tuple[str, str]) -> Path:
        path = entry_file(self.cache, *slot)
        return path / NAME if slot[0] == "headers" else path

    def present(self) -> set[tuple[str, str]]:
        return {slot for slot in self.expected if self.path(slot).exists()}

    def touch(self, slot: tuple[str, str]) -> None:
        """Clocks of file systems are coarse: give each use a time of its own."""
        self.tick += 1
        self.used[slot] = self.tick
        path = self.path(slot)
        os.utime(path.with_name("checksum.mucc") if slot[0] == "headers" else path, ns=(self.tick,) * 2)

    def get(self, slot: tuple[str, str]) -> bytes | None:
        if slot[0] == "headers":
            path = self.cache.find_file(*slot, NAME)
            return None if path is None else Path(path).read_bytes()
        entry = self.cache.find(*slot)
        return None if entry is None else entry.data

    def evictions(self) -> int:
        return sum(level.evicted for level in self.cache.stats().levels.values())

    @rule(slot=slots, size=st.integers(0, 4 * BLOCK), seed=st.integers(1, 250), fresh=st.booleans())
    def build(self, slot: tuple[str, str], size: int, seed: int, fresh: bool) -> None:
        before, evicted = self.present(), self.evictions()
        data = bytes([seed]) * size
        made: list[bytes] = []
        whole = slot in before and slot not in self.damaged
        if slot[0] == "headers":

            def make(path: str) -> None:
                made.append(data)
                Path(path).write_bytes(data)

            assert self.cache.build_file(*slot, NAME, make, fresh=fresh) == str(self.path(slot))
        else:

            def make_entry() -> Entry:
                made.append(data)
                return Entry(data)

            result = self.cache.build(*slot, make_entry, fresh=fresh).data
            assert result == (data if made else self.expected[slot])
        assert bool(made) == (fresh or not whole)
        if made:
            assert self.cache.stats().size <= self.bound
            kept = self.present() - {slot}
            gone = before - kept - {slot}
            assert len(gone) <= self.evictions() - evicted
            assert all(self.used[g] < self.used[k] for g in gone for k in kept), "the oldest go"
            self.expected[slot] = data
        self.damaged -= {slot}
        assert self.path(slot).exists(), "what was just stored stays"
        self.touch(slot)

    @rule(slot=slots)
    def find(self, slot: tuple[str, str]) -> None:
        present, problems = self.path(slot).exists(), len(self.cache.problems)
        found = self.get(slot)
        if slot in self.damaged or not present:
            assert found is None and not self.path(slot).exists()
            assert bool(self.cache.problems[problems:]) <= (slot in self.damaged)
            self.damaged -= {slot}
        else:
            assert found == self.expected[slot]
            self.touch(slot)

    @rule(slot=slots, cut=st.integers(0, 40), flip=st.booleans())
    def damage(self, slot: tuple[str, str], cut: int, flip: bool) -> None:
        path = self.path(slot)
        if not path.exists():
            return
        data = path.read_bytes()
        at = max(len(data) - 1 - cut, 0)
        worse = data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :] if flip and data else data[:at]
        if worse == data:
            return
        path.write_bytes(worse)
        # The file of a folder gets a new time, which is how this process notices; an entry keeps its own.
        self.tick += 1
        os.utime(path, ns=(self.tick if slot[0] == "headers" else self.used[slot],) * 2)
        self.damaged.add(slot)

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        assert os.listdir(self.directory) == []
        self.expected.clear()
        self.damaged.clear()

    @rule()
    def verify(self) -> None:
        damaged = {slot for slot in self.damaged if self.path(slot).exists()}
        whole = len(self.present() - damaged)
        report = self.cache.verify()
        assert report.whole == whole and sum(map(len, report.damaged.values())) == len(damaged)
        self.damaged.clear()

    @rule()
    def lose_the_account(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(Path(self.directory, "locks/usage.mucc"))

    @invariant()
    def nothing_is_left_behind(self) -> None:
        if hasattr(self, "directory"):
            names = [name for _, _, names in os.walk(self.directory) for name in names]
            assert not any(name.endswith(".tmp") or "-" in name for name in names)


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=examples(25), stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
