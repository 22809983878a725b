"""Looks for the sizes of caches in the files of the system."""

import glob

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.sizes = []
        for path in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size")):
            with open(path) as file:
                self.sizes.append(file.read().strip())
