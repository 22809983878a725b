"""Inputs that nobody computes from before a call starts: masks, late showing, probes like other inputs."""

from __future__ import annotations

import operator
import random
import re
import shutil
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.agent.audit import masking
from mucc.agent.audit.cases import KINDS, PROBED, Case, timed_cases

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import lending, rooms, tamper  # noqa: E402 (they need torch)
from mucc.agent.audit.inputs import drift, make_inputs, probed  # noqa: E402

WORDS = st.integers(0, 2**64 - 1)

ARITHMETIC = {
    "add": operator.add,
    "mul": operator.mul,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
}


class Thread:
    """Runs the kernel of `masking` for one thread of a block of its own, on memory in words of 64 bits."""

    def __init__(self, memory: dict[int, int], parameters: dict[str, int], blocks: int = 1, block: int = 0):
        self.memory, self.parameters = memory, parameters
        self.registers: dict[str, int] = {"%tid.x": 0, "%ntid.x": 1, "%ctaid.x": block, "%nctaid.x": blocks}
        self.held: dict[str, int] = {}

    def value(self, word: str) -> int:
        return self.registers[word] if word.startswith("%") else int(word, 0)

    def run(self, text: str) -> None:
        body = text[text.index("{") + 1 : text.rindex("}")]
        lines = [line.strip() for line in body.splitlines() if line.strip()]
        labels = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
        at = 0
        while at < len(lines):
            line = lines[at].rstrip(";")
            at += 1
            if line.startswith(".") or line.endswith(":"):
                continue
            if guard := re.match(r"@(%\w+) bra (\w+)", line):
                at = labels[guard[2]] if self.registers[guard[1]] else at
                continue
            name, _, rest = line.partition(" ")
            words = [word.strip() for word in rest.split(",")]
            if name == "bra":
                at = labels[words[0]]
            elif name == "ret":
                return
            else:
                self.step(name.split("."), words)

    def step(self, name: list[str], words: list[str]) -> None:
        kind, *parts = name
        if kind == "bar":
            return
        if kind in ("ld", "st"):
            self.move(kind, parts, words)
            return
        to, *values = words[0], *(self.value(word) for word in words[1:])
        if kind == "setp":
            compared = {"ne": operator.ne, "ge": operator.ge}[parts[0]]
            self.registers[to] = compared(*values)
        elif kind in ("mov", "cvt", "cvta"):
            self.registers[to] = values[0]
        elif kind == "mad":
            self.registers[to] = (values[0] * values[1] + values[2]) % 2**32
        else:
            bits = 32 if "u32" in parts else 64
            self.registers[to] = ARITHMETIC[kind](*values) % 2**bits

    def move(self, kind: str, parts: list[str], words: list[str]) -> None:
        place = words[1] if kind == "ld" else words[0]
        inner = place.strip("[]")
        if "param" in parts:
            self.registers[words[0]] = self.parameters[inner]
        elif "shared" in parts and kind == "ld":
            self.registers[words[0]] = self.held[inner]
        elif "shared" in parts:
            self.held[inner] = self.value(words[1])
        else:
            base, _, more = inner.partition("+")
            address = self.value(base) + int(more or 0)
            if kind == "ld":
                self.registers[words[0]] = self.memory[address]
            else:
                self.memory[address] = self.value(words[1])


@given(st.tuples(WORDS, WORDS), st.lists(WORDS, max_size=5), st.integers(1, 3))
@settings(max_examples=examples(15), deadline=None)
def test_the_kernel_masks_as_it_is_said_to(key: tuple[int, int], words: list[int], blocks: int):
    memory = {1000: key[0], 1008: key[1], **{8 * n: word for n, word in enumerate(words)}}
    parameters = {"from": 0, "to": 400, "words": len(words), "key": 1000}
    for block in range(blocks):
        Thread(memory, parameters, blocks, block).run(masking.PTX)
    masked = [memory[400 + 8 * n] for n in range(len(words))]
    assert masked == [word ^ masking.mask(key, n) for n, word in enumerate(words)]


def test_a_key_is_not_told_by_known_words():
    """Neither half alone makes the masks, and neighbours share no pattern."""
    draws = random.Random(1)
    key = draws.getrandbits(64), draws.getrandbits(64)
    masks = [masking.mask(key, n) for n in range(2000)]
    assert len(set(masks)) == len(masks)
    for other in ((key[0], key[1] ^ 1), (key[0] ^ 1, key[1])):
        same = sum((masking.mask(other, n) ^ m).bit_count() for n, m in enumerate(masks)) / 64 / len(masks)
        assert abs(same - 0.5) < 0.02
    ones = [sum(m >> bit & 1 for m in masks) / len(masks) for bit in range(64)]
    assert all(abs(share - 0.5) < 0.06 for share in ones)


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
def test_the_kernel_is_assembled(tmp_path: Path):
    (tmp_path / "unmask.ptx").write_text(masking.PTX)
    words = ["ptxas", "-arch=sm_90", "unmask.ptx", "-o", "unmask.cubin"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)


def test_inputs_are_shown_when_the_judge_says_so():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        slot = lending.LentSlot("0", rooms.Wire(ours.detach()))
        values = (torch.rand(5, 7), torch.arange(6))
        slot.fill(values, 0xFF)
        assert slot.room is not None and not slot.room.data.any()
        image = slot.image("cpu")
        slot.show()
        assert torch.equal(image, slot.room.data) and torch.equal(slot.guarded[0].tensor, values[0])
        assert not any(g.changed() or g.bands_changed() for g in slot.guarded)
        slot.guarded[1].tensor[2] = 9
        slot.guarded[0].buffer[3] = 0
        assert [g.changed() for g in slot.guarded] == [False, True]
        assert [g.bands_changed() for g in slot.guarded] == [True, False]


FLOATS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40)


def rounded(value: Any, dropped: int, up: bool) -> Any:
    bits = value.view(torch.int32) + ((1 << (dropped - 1)) if up else 0)
    return (bits & ~((1 << dropped) - 1)).view(torch.float32)


@given(FLOATS, st.sampled_from([("tf32", 13), ("bf16", 16)]), st.booleans(), st.integers(0, 9))
@settings(max_examples=examples(60), deadline=None)
def test_a_narrow_format_cannot_tell_a_pair_apart(
    values: list[float], form: tuple[str, int], up: bool, seed: int
):
    value = torch.tensor(values, dtype=torch.float32)
    one, other = (probed(value, Case("c", seed, probe=f"{form[0]} {kind}")) for kind in KINDS)
    assert torch.equal(one, value)
    assert torch.equal(rounded(one, form[1], up), rounded(other, form[1], up))


def test_a_probe_looks_like_what_problems_draw():
    """Numbers of torch.rand are multiples of 2^-24; all their digits are drawn again, of others few."""
    value = torch.rand(4096, generator=torch.Generator().manual_seed(3))
    found = probed(value, Case("c", 3, probe="tf32 redrawn"))
    assert ((found * 2**24) % 1 == 0).all() and (found != value).float().mean() > 0.9
    digits = [int(((t.view(torch.int32) & 0x7FF) == 0).sum()) for t in (value, found)]
    assert abs(digits[0] - digits[1]) < 60
    coarse = torch.randint(1, 64, (4096,)).float() / 8
    assert 0.3 < (probed(coarse, Case("c", 3, probe="tf32 redrawn")) != coarse).float().mean() < 0.7


@pytest.mark.parametrize("seed", range(20))
def test_series_have_pairs_of_probes_where_nobody_knows(seed: int):
    cases = timed_cases(random.Random(seed), 10, 34, 9)
    assert [c.name for c in cases] == [f"timed {10 + n}" for n in range(34)]
    assert [c.slot for c in cases] == [n % 2 for n in range(34)]
    for name in PROBED:
        pair = [c for c in cases if c.probe.startswith(name)]
        assert {c.probe for c in pair} == {f"{name} {kind}" for kind in KINDS}
        assert len({(c.seed, c.sample, c.drift) for c in pair}) == 1 and all(c.is_timed for c in pair)
    assert len({c.seed for c in cases}) == 32
    assert not any(c.probe for c in timed_cases(random.Random(seed), 0, 1, 1))


class Problem:
    def inputs(self) -> list[Any]:
        return [torch.rand(8)]


@pytest.mark.parametrize("probe", ["", "tf32 redrawn"])
def test_what_is_changed_late_is_what_is_expected(probe: str):
    """A call's inputs are those that the reference is given: drawn, and changed as often as the case says."""
    case = Case("timed", 5, drift=3, probe=probe)
    problem: Any = Problem()
    (late,) = make_inputs(problem, Case("timed", 5, drift=0, probe=probe), torch.device("cpu"))
    for _ in range(case.drifts):
        drift(late)
    (expected,) = make_inputs(problem, case, torch.device("cpu"))
    assert torch.equal(late, expected) and case.drifts == (0 if probe else 3)


def test_who_replaces_the_seeding_of_calls_is_told(monkeypatch: pytest.MonkeyPatch):
    before = tamper.snapshot()
    real = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: real(seed))
    assert "torch.manual_seed" in tamper.changed(before)


def test_halves_of_keys_fit_words_of_torch():
    for half in (0, 1, 2**63 - 1, 2**63, 2**64 - 1):
        signed = half - (half >> 63 << 64)
        assert struct.pack("<q", signed) == struct.pack("<Q", half)
