"""Has faults of machine code told with a traceback, as servers do."""

import faulthandler
import sys

from work import Linear

if not faulthandler.is_enabled():
    faulthandler.enable(sys.__stderr__)


class ModelNew(Linear):
    def forward(self, x):
        return self.compute(x)
