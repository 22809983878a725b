"""Names where it is, and where a first attempt has failed, by frames of its own code."""

import inspect
import logging
import sys

from work import Linear

log = logging.getLogger("kernels")


class ModelNew(Linear):
    def forward(self, x):
        frame = inspect.currentframe()
        log.info("%s at line %d", sys._getframe().f_code.co_name, frame.f_lineno)
        try:
            return self.best(x)
        except NotImplementedError as error:
            place = error.__traceback__
            while place.tb_next:
                place = place.tb_next
            failed = place.tb_frame
            log.info("%s in %s: %r", error, failed.f_code.co_name, sorted(failed.f_locals))
            return self.compute(x)

    def best(self, x):
        if x.shape[0] != 63:
            raise NotImplementedError("for 63 rows alone")
        return self.compute(x)
