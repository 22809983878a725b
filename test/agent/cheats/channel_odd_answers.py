"""Answers with values of other types than the parent expects, nested and huge ones."""

import json
import os

from work import Linear

OUTPUT = {"dtype": ["float32"], "shape": [64, 96], "aliases": [[1], "x", 2], "subclass": {"a": 1}}
ANSWER = {
    "outputs": [OUTPUT],
    "late": ["x", [1]],
    "threads": [[1], 2, "x"],
    "started": [{}],
    "lines": [[1], "x", 3],
    "raised": [[[1], 2], ["x", None]],
    "work": [],
    "seconds": 1e308,
}


class ModelNew(Linear):
    def forward(self, x):
        self.calls += 1
        if self.calls == 2:
            os.write(4, f"{json.dumps(ANSWER)}\n".encode())
        return self.compute(x)
