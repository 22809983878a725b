"""Closes what it has opened when the interpreter ends."""

import atexit
import contextlib
import os
import tempfile

from work import Linear

resources = contextlib.ExitStack()
atexit.register(resources.close)
folder = resources.enter_context(tempfile.TemporaryDirectory())


class ModelNew(Linear):
    def forward(self, x):
        self.calls += 1
        with open(os.path.join(folder, "calls"), "a") as file:
            file.write(f"{self.calls}\n")
        return self.compute(x)
