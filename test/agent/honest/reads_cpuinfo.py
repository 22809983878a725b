"""Looks at what the processor can do."""

from pathlib import Path

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.wide = "avx512f" in Path("/proc/cpuinfo").read_text()
