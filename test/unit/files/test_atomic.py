"""Check that files are written whole or not at all."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from mucc.files.atomic import fill_and_rename, replace_file


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"first", b"2"):
        replace_file(str(path), data, 0o600)
        assert path.read_bytes() == data and path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_nothing_is_left_where_renaming_fails(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(IsADirectoryError):
        replace_file(str(tmp_path / "folder"), b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
    assert os.listdir("/proc/self/fd") == before


def test_a_locked_file_is_locked_until_it_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, temporary = tmp_path / "file", tmp_path / "file.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    rename = os.replace

    def is_locked(name: Path) -> bool:
        with name.open() as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def replace(source: str, target: str) -> None:
        assert Path(source).read_bytes() == b"data" and is_locked(Path(source))
        rename(source, target)
        assert is_locked(path)

    monkeypatch.setattr(os, "replace", replace)
    fill_and_rename(str(temporary), descriptor, str(path), b"data")
    assert path.read_bytes() == b"data" and not temporary.exists() and not is_locked(path)
