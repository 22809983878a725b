"""Layer norm of rows with weights and bias in CuTe DSL: quack's kernel."""

from quack.rmsnorm import layernorm_fwd


def layer_norm_affine(x, w, b):
    return layernorm_fwd(x, w, b, eps=1e-5)
