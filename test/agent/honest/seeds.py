"""Sets seeds of generators that it does not use."""

import random

import numpy as np
from work import Linear

random.seed(1)
np.random.seed(1)


class ModelNew(Linear):
    pass
