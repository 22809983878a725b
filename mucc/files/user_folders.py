"""The user's folders for data and caches of mucc."""

from __future__ import annotations

import os
import sys


def data_folder() -> str:
    """Return the folder of data that cannot be rebuilt: measurements, and calibrations of cards."""
    return _folder("Application Support", "XDG_DATA_HOME", (".local", "share"))


def cache_folder() -> str:
    """Return the folder of caches."""
    return _folder("Caches", "XDG_CACHE_HOME", (".cache",))


def _folder(on_mac: str, variable: str, otherwise: tuple[str, ...]) -> str:
    """Return the folder `mucc` in a directory of the user by the platform's convention."""
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        base = os.path.join(home, "Library", on_mac)
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        base = os.environ.get(variable) or os.path.join(home, *otherwise)
    return os.path.join(base, "mucc")
