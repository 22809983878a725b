"""Call a mucc kernel with CuPy's arrays, without torch.

pip install cupy-cuda13x
python examples/frameworks/cupy_norm.py
"""

from pathlib import Path

import cupy
import tvm_ffi

import mucc

module = mucc.compile((Path(__file__).parents[1] / "rms_norm.mcu").read_text())
rms_norm = module.rms_norm_gain

x = cupy.random.standard_normal((37, 1000), dtype=cupy.float32)
gain = cupy.linspace(1, 2, 1000, dtype=cupy.float32)
y = cupy.empty_like(x)

rms_norm.launch(x, gain, y)  # on the default stream, which is CuPy's current one unless it says otherwise
wanted = x / cupy.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * gain
error = float(abs(y - wanted).max())

stream = cupy.cuda.Stream(non_blocking=True)
with stream, tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", x.device.id), stream.ptr):
    y[...] = 0
    rms_norm.launch(x, gain, y)  # on CuPy's stream, which tvm-ffi is told of
    on_stream = float(abs(y - wanted).max())
print(f"largest error {error:.1e}, on a stream {on_stream:.1e}")
assert error < 1e-4 and on_stream < 1e-4
