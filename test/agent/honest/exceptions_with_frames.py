"""Says where a first attempt has failed, by the line of its traceback and the text that `traceback` makes."""

import logging
import traceback

from work import Linear

log = logging.getLogger("kernels")


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        try:
            self.plan = self.best_plan()
        except ValueError as error:
            log.warning("no plan at line %d: %s", error.__traceback__.tb_lineno, traceback.format_exc())
            self.plan = None

    def best_plan(self):
        raise ValueError("this processor has no plan")
