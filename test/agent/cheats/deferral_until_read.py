"""Waits until its results are read, and computes them then: what takes a while is seen to be missing."""

# for: cpu

import deferral_protected_memory as protected

protected.SOURCE = protected.SOURCE.replace(
    "    compute();\n}\nextern", "    usleep(100000);\n    compute();\n}\nextern"
)


class ModelNew(protected.ModelNew):
    pass
