"""The path of the tuning database, found without loading the database code."""

from __future__ import annotations

import os

from mucc.files.user_folders import data_folder


def database_path() -> str:
    """MUCC_TUNING_DB, or `tuning.db` in mucc's data folder."""
    if explicit := os.environ.get("MUCC_TUNING_DB"):
        return os.path.abspath(explicit)
    return os.path.join(data_folder(), "tuning.db")


def fingerprint() -> tuple[str, ...]:
    """Return a key that changes when a measurement is added; empty if there are none."""
    path = database_path()
    found: list[str] = []
    for name in (path, f"{path}-wal"):
        try:
            info = os.stat(name)
        except OSError:
            continue
        found.append(f"{name} {info.st_size} {info.st_mtime_ns}")
    return tuple(found)
