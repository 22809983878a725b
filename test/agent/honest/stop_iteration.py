"""Ends a loop by an exception."""

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        ways = iter((self.compute,))
        y = None
        while True:
            try:
                y = next(ways)(x)
            except StopIteration:
                return y
