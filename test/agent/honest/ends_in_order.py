"""Closes what it has opened when the interpreter ends."""

import atexit
import contextlib
import tempfile

from work import Linear

resources = contextlib.ExitStack()
atexit.register(resources.close)
notes = resources.enter_context(tempfile.TemporaryFile("w+"))


class ModelNew(Linear):
    def forward(self, x):
        self.calls += 1
        notes.write(f"{self.calls}\n")
        return self.compute(x)
