"""What is emitted for the programs of the repository is what was recorded: `python -m bench.corpus`."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from budget import is_share

from bench import corpus
from bench.corpus import Entry, changes, entries, fingerprint, recorded

SHARE = 16 if is_share() else 8
"""One of so many entries is compiled here; `python -m bench.corpus` compiles all."""

KNOWN = recorded()


def chosen() -> list[Entry]:
    return [e for e in entries() if zlib.crc32(f"{e.name} {e.target}".encode()) % SHARE == 0]


@pytest.mark.parametrize("part", range(4))
def test_what_is_emitted_is_what_was_recorded(part: int) -> None:
    found = {(e.name, e.target): fingerprint(e) for e in chosen()[part::4]}
    assert len(found) > 400 / SHARE
    assert list(changes(found, KNOWN)) == [], "changed on purpose? python -m bench.corpus --record"


def test_the_record_has_every_program() -> None:
    assert {(e.name, e.target) for e in entries()} == KNOWN.keys(), "python -m bench.corpus --record"
    assert len({e.text for e in entries()}) >= 400


def test_a_change_of_each_text_is_told() -> None:
    entry = Entry("e", "kernel f[M](x: f32[M]) -> f32[M] { return x }", "sm_90a", {})
    known = {("e", "sm_90a"): fingerprint(entry)}
    assert not list(changes(known, known))
    (line,) = changes(
        {("e", "sm_90a"): fingerprint(entry._replace(text=entry.text.replace("return x", "return -x")))},
        known,
    )
    assert line == "e sm_90a: cu"
    (line,) = changes({("e", "sm_90a"): fingerprint(entry._replace(text="kernel"))}, known)
    assert "before, MU0" in line
    assert list(changes({("other", "sm_90a"): "MU0001"}, known)) == ["other sm_90a: not recorded"]


def test_the_command_compares_and_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.main(["examples/linear_gelu.mcu sm_90a", "-j", "1", "--dump", str(tmp_path)]) == 0
    assert "0 differ" in capsys.readouterr().out
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".cu", ".json", ".mcu"]
