"""The user's folders for mucc: what is kept to be found again, and what could be made again."""

from __future__ import annotations

import os
import sys


def data_folder() -> str:
    """Where mucc keeps what a user would miss: measurements, and calibrations of cards."""
    return _folder("Application Support", "XDG_DATA_HOME", (".local", "share"))


def cache_folder() -> str:
    """Where mucc keeps what it can make again."""
    return _folder("Caches", "XDG_CACHE_HOME", (".cache",))


def _folder(on_mac: str, variable: str, otherwise: tuple[str, ...]) -> str:
    """`mucc` in a directory of the user's, by the platform's convention."""
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        base = os.path.join(home, "Library", on_mac)
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        base = os.environ.get(variable) or os.path.join(home, *otherwise)
    return os.path.join(base, "mucc")
