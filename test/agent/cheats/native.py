"""C++ compiled by the host's compiler and called through ctypes: kernels for samples that run on a CPU."""

import ctypes
import hashlib
import subprocess
import tempfile
from pathlib import Path


def build(source: str) -> ctypes.CDLL:
    """A library of a C++ source, built once."""
    folder = Path(tempfile.gettempdir())
    library = folder / f"sample-{hashlib.sha256(source.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        text = library.with_suffix(".cpp")
        text.write_text(source)
        subprocess.run(["g++", "-O2", "-shared", "-fPIC", "-o", str(library), str(text)], check=True)
    return ctypes.CDLL(str(library))


def call(function, *args):
    """Call a function with tensors as pointers and whole numbers as `long`."""
    function(*(ctypes.c_long(a) if isinstance(a, int) else ctypes.c_void_p(a.data_ptr()) for a in args))


LINEAR_RELU = """
extern "C" void linear_relu(
        const float *x, const float *w, const float *b, float *y, long m, long n, long k) {
    for (long i = 0; i < m; ++i)
        for (long j = 0; j < n; ++j) {
            float sums[8] = {};
            for (long l = 0; l < k; l += 8)
                for (long p = 0; p < 8; ++p) sums[p] += x[i * k + l + p] * w[j * k + l + p];
            float sum = b[j];
            for (float s : sums) sum += s;
            y[i * n + j] = sum > 0 ? sum : 0;
        }
}
"""
