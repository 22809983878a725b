"""Call a mucc kernel from JAX, by itself and in the middle of jitted code.

pip install "jax[cuda13]" jax-tvm-ffi
python examples/frameworks/jax_norm.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp

import mucc

module = mucc.compile((Path(__file__).parents[1] / "rms_norm.mcu").read_text())
rms_norm = module.rms_norm_gain.jax


def in_jax(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-5) * gain


@jax.jit
def block(x, gain):
    return jnp.tanh(rms_norm(x + 1, gain)) * 2


x = jax.random.normal(jax.random.key(0), (37, 1000))
gain = jnp.linspace(1, 2, 1000)
error = jnp.abs(rms_norm(x, gain) - in_jax(x, gain)).max()
in_jit = jnp.abs(block(x, gain) - jnp.tanh(in_jax(x + 1, gain)) * 2).max()
print(f"largest error {error:.1e}, in jitted code {in_jit:.1e}")
assert error < 1e-4 and in_jit < 1e-4
