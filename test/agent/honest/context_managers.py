"""Does its work within a context."""

from contextlib import contextmanager

from work import Linear


@contextmanager
def entered(layer):
    layer.busy = True
    try:
        yield layer
    finally:
        layer.busy = False


class ModelNew(Linear):
    def forward(self, x):
        with entered(self) as layer:
            return layer.compute(x)
