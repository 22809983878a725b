"""Write the table of a run's results."""

from __future__ import annotations

import os

from mucc.agent.report import plain, text
from mucc.agent.report.reading import read_run
from mucc.api.files import json_text, replace_file


def write_table(folder: str) -> tuple[str, str]:
    """Write `table.txt` and `table.json` of the run in a folder, and return their texts."""
    run = read_run(folder)
    shown, data = text.text(run), json_text(plain.as_json(run), 1)
    replace_file(os.path.join(folder, "table.txt"), shown.encode("utf-8", "replace"))
    replace_file(os.path.join(folder, "table.json"), data.encode("utf-8", "replace"))
    return shown, data
