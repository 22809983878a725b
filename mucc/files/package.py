"""Where the package itself lies."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder `mucc`."""

SUPPORT = os.path.join(PACKAGE, "support")
"""Our own C++: `include`, `src`, and `shim`, which stands in for nvcc where g++ compiles CUTLASS."""
