"""Has a program that it starts in each call do the work."""

import subprocess
import sys

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)
        return self.compute(x)
