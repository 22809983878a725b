"""Where mucc keeps what a user would miss: measurements, and calibrations of cards."""

from __future__ import annotations

import os
import sys


def data_folder() -> str:
    """`mucc` in the user's data directory."""
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        base = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    return os.path.join(base, "mucc")
