"""What the compiler and the loader know of signatures is what the headers of libraries have."""

from __future__ import annotations

import re
from pathlib import Path

from mucc.files.package import header_path
from mucc.library.signature import MOST_ARGS, MOST_AXES, MOST_DIMS


def test_limits_of_signatures_are_those_of_the_header() -> None:
    text = Path(header_path("spec.h")).read_text()
    found = dict(re.findall(r"constexpr int kMax(Rank|Dims|Args) = (\d+);", text))
    assert found == {"Rank": f"{MOST_AXES}", "Dims": f"{MOST_DIMS}", "Args": f"{MOST_ARGS}"}
