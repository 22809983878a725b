"""Names where it is, and where the choice of a plan has failed, by frames of its own code."""

import inspect
import logging
import sys

from work import Linear

log = logging.getLogger("kernels")


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        try:
            self.plan = self.best_plan()
        except ValueError as error:
            place = error.__traceback__
            while place.tb_next:
                place = place.tb_next
            failed = place.tb_frame
            log.info("%s in %s: %r", error, failed.f_code.co_name, sorted(failed.f_locals))
            self.plan = place.tb_frame.f_lineno

    def best_plan(self):
        raise ValueError("this processor has no plan")

    def forward(self, x):
        frame = inspect.currentframe()
        log.info("%s at line %d", sys._getframe().f_code.co_name, frame.f_lineno)
        return self.compute(x)
