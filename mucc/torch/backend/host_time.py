"""Predict how long the host takes to launch kernels, where no CUDA graph does it.

Calls of PyTorch and of mucc return before the GPU is done. A graph whose kernels take less time than the host
takes to launch them is as slow as the host, whatever the GPU gains.
"""

from __future__ import annotations

from typing import NamedTuple

LIBRARY = 13.0e-6
"""Seconds of the host for a call of cuBLAS through PyTorch, on the host of an H200 (`bench.launch`)."""

LAUNCH, NEXT = 4.4e-6, 3.6e-6
"""The same for a kernel of a library of mucc, and for each further one of its call: the driver's part.

A kernel of Inductor's is taken to cost as much as one of mucc: both are a function of C++ and a launch.
"""


class Cost(NamedTuple):
    """What a graph is predicted to take: seconds on the GPU, and seconds of the host."""

    gpu: float
    host: float

    @property
    def is_bound_by_host(self) -> bool:
        """Whether the GPU waits for the host."""
        return self.host > self.gpu


def launching(kernels: int) -> float:
    """Return the seconds that the host takes for a call of mucc that launches so many kernels."""
    return LAUNCH + NEXT * max(kernels - 1, 0)
