"""Reports how many calls there were, every fifth time."""

import logging

from work import Linear

log = logging.getLogger("layers")


class ModelNew(Linear):
    def forward(self, x):
        self.calls += 1
        if self.calls % 5 == 0:
            log.warning("%d calls", self.calls)
        return self.compute(x)
