"""Leaves a file in the user's home."""

import pwd
from pathlib import Path

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        home = Path(pwd.getpwuid(0).pw_dir)
        (home / "was_here").write_text("yes")
        return self.compute(x)
