"""Writes to the log."""

import logging

from work import Linear

log = logging.getLogger(__name__)
logging.basicConfig(level=logging.INFO)


class ModelNew(Linear):
    def forward(self, x):
        log.info("rows: %d", x.shape[0])
        return self.compute(x)
