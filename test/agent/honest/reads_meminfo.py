"""Looks at how much memory there is."""

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        with open("/proc/meminfo") as file:
            self.kib = int(file.readline().split()[1])
