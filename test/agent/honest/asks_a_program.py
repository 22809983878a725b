"""Asks a program about the machine when it is loaded."""

import shutil
import subprocess

from work import Linear

found = shutil.which("uname")
machine = subprocess.run([found, "-m"], capture_output=True, text=True).stdout.strip() if found else ""


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x, rows=x.shape[0] if machine else None)
