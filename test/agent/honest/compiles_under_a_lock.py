"""Compiles once for all processes of a user: under a lock, beside a file that names the source."""

# for: cpu

import contextlib
import ctypes
import fcntl
import hashlib
import os
import pathlib
import subprocess

import torch
from native import LINEAR_RELU
from work import Linear

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "layers"


@contextlib.contextmanager
def locked(path):
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compiled():
    CACHE.mkdir(parents=True, exist_ok=True)
    made = CACHE / f"{hashlib.sha1(LINEAR_RELU.encode()).hexdigest()}.so"
    with locked(made.with_suffix(".lock")):
        if not made.exists():
            text, draft = made.with_suffix(".cc"), made.with_suffix(".draft")
            text.write_text(LINEAR_RELU)
            subprocess.run(["c++", "-O3", "-shared", "-fPIC", "-o", draft, text], check=True)
            draft.replace(made)
    return ctypes.CDLL(str(made))


class ModelNew(Linear):
    library = None

    def forward(self, x):
        self.library = self.library or compiled()
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0])
        pointers = (ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y))
        self.library.linear_relu(*pointers, *map(ctypes.c_long, (*y.shape, x.shape[1])))
        return y
