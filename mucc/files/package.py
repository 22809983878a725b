"""Where the package itself lies."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder `mucc`."""
