"""Keeps a cache below the home folder that it is given."""

import os
from pathlib import Path

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        folder = Path(os.path.expanduser("~")) / ".cache" / "sample"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "seen").write_text("1")
