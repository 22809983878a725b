"""Map names of PyTorch, NumPy, JAX and Triton to expressions of the language, for error messages.

Functions listed here get no spelling suggestion: a similar spelling would not be a similar meaning.
"""

from __future__ import annotations


def _key(name: str) -> str:
    """Normalise a name: a function, its class and its in-place form have one key."""
    return name.replace("_", "").lower()


_PRODUCT = "x @ w"
_SUMS = "x @ w` for a product, `sum(x * y, axis=1)"
_MAXIMUM, _MINIMUM = "max(x, 0)", "min(x, 6)"
_VIEW = "reshape(x, (M, 8, K))"
_SWAP = "x.T` for the last two axes, else `permute(x, (1, 0))"
_CONCAT = "concat(x, y, axis=1)"
_SLICE = "x[:, 0:64]"
_CAST = "cast(x, f32)"
_AXIS = "x[:, None]"
_SPREAD = "broadcast(x, (M, K))"
_GATED = "silu(x @ g.T) * (x @ u.T)"
_ROOT = "sqrt(sum(x * x, axis=1))"
_NORM = "x * rsqrt(sum(x * x, axis=1, keepdims=on))"
_EQUAL = "(a - b) * (a - b)"
_ATTENTION = "attention(q, k, v)"

_EXPRESSIONS: dict[str, str] = {
    # products
    "linear": "x @ w.T + b",
    **dict.fromkeys(("mm", "bmm", "dot", "mv", "matvec", "vecmat", "inner", "dot_general"), _PRODUCT),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), "b + x @ w"),
    **dict.fromkeys(("outer", "ger"), "x[:, None] * y[None, :]"),
    **dict.fromkeys(("einsum", "tensordot"), _SUMS),
    **dict.fromkeys(("vdot", "vecdot"), "sum(x * y, axis=1)"),
    **dict.fromkeys(("scaled_dot_product_attention", "sdpa", "flex_attention"), "attention(q, k, v)"),
    **dict.fromkeys(
        ("flash_attention", "flash_attn_func", "memory_efficient_attention"), "attention(q, k, v)"
    ),
    **dict.fromkeys(("grouped_mm", "ragged_dot", "_grouped_mm"), "grouped_matmul(a, b, offsets)"),
    # arithmetic
    "add": "a + b",
    **dict.fromkeys(("sub", "subtract"), "a - b"),
    **dict.fromkeys(("mul", "multiply"), "a * b"),
    **dict.fromkeys(("div", "divide", "true_divide", "truediv"), "a / b"),
    **dict.fromkeys(("negative", "minus"), "-x"),
    "addcmul": "x + value * a * b",
    "addcdiv": "x + value * a / b",
    "lerp": "a + weight * (b - a)",
    "square": "x * x",
    "reciprocal": "1 / x",
    **dict.fromkeys(("absolute", "fabs"), "abs(x)"),
    **dict.fromkeys(("power", "float_power"), "pow(a, b)"),
    "log2": "log(x) * 1.4426950408889634",
    "log10": "log(x) * 0.4342944819032518",
    "exp2": "exp(x * 0.6931471805599453)",
    "exp10": "exp(x * 2.302585092994046)",
    "sinh": "(expm1(x) - expm1(-x)) / 2",
    "cosh": "(exp(x) + exp(-x)) / 2",
    **dict.fromkeys(("asinh", "arcsinh"), "log1p(x + x * x / (1 + sqrt(1 + x * x)))"),
    **dict.fromkeys(("acosh", "arccosh"), "log1p(x - 1 + sqrt(x - 1) * sqrt(x + 1))"),
    **dict.fromkeys(("atanh", "arctanh"), "(log1p(x) - log1p(-x)) / 2"),
    "sgn": "sign(x)",
    "signbit": "where(x < 0, 1, 0)",
    **dict.fromkeys(("remainder", "mod"), "a % b"),
    "rem": "fmod(a, b)",
    "divmod": "floor_divide(a, b)` and `a % b",
    "cdiv": "-floor_divide(-a, b)",
    "rint": "round(x)",
    "fix": "trunc(x)",
    "frac": "x - trunc(x)",
    "deg2rad": "x * 0.017453292519943295",
    "rad2deg": "x * 57.29577951308232",
    "radians": "x * 0.017453292519943295",
    "degrees": "x * 57.29577951308232",
    **dict.fromkeys(("atan", "arctan"), "atan2(x, 1)"),
    "arctan2": "atan2(y, x)",
    **dict.fromkeys(("asin", "arcsin"), "atan2(x, sqrt((1 - x) * (1 + x)))"),
    **dict.fromkeys(("acos", "arccos"), "atan2(sqrt((1 - x) * (1 + x)), x)"),
    **dict.fromkeys(("bitwise_left_shift", "shift_left"), "left_shift(a, b)"),
    **dict.fromkeys(("bitwise_right_shift", "shift_right", "shift_right_arithmetic"), "right_shift(a, b)"),
    "invert": "bitwise_not(x)",
    "heaviside": "where(x > 0, 1, 0)",
    "erfc": "1 - erf(x)",
    "logaddexp": "max(a, b) + softplus(-abs(a - b))",
    "logit": "log(x / (1 - x))",
    "hypot": "sqrt(a * a + b * b)",
    "fma": "a * b + c",
    # comparisons and choices
    **dict.fromkeys(("masked_fill", "masked_fill_"), "where(mask, value, x)"),
    **dict.fromkeys(("select_n", "ifelse"), "where(c, a, b)"),
    **dict.fromkeys(("maximum", "fmax", "clamp_min", "clip_min"), _MAXIMUM),
    **dict.fromkeys(("minimum", "fmin", "clamp_max", "clip_max"), _MINIMUM),
    "clip": "clamp(x, lo=0, hi=1)",
    **{name: f"a {op} b" for name, op in {"eq": "==", "equal": "==", "ne": "!=", "not_equal": "!="}.items()},
    **{name: f"a {op} b" for name, op in {"lt": "<", "less": "<", "le": "<=", "less_equal": "<="}.items()},
    **{
        name: f"a {op} b"
        for name, op in {"gt": ">", "greater": ">", "ge": ">=", "greater_equal": ">="}.items()
    },
    "logical_and": "a and b",
    "logical_or": "a or b",
    "logical_not": "not a",
    "isnan": "x != x",
    **dict.fromkeys(("isinf", "isposinf", "isneginf"), "abs(x) == inf"),
    "isfinite": "abs(x) < inf",
    # activations
    "swish": "silu(x)",
    **dict.fromkeys(("logistic", "expit"), "sigmoid(x)"),
    "relu6": "clamp(x, lo=0, hi=6)",
    "prelu": "where(x > 0, x, slope * x)",
    "rrelu": "leaky_relu(x, slope=0.2)",
    "celu": "max(x, 0) + min(0, expm1(x))",
    "glu": "a * sigmoid(b)",
    **dict.fromkeys(("swiglu", "geglu", "silu_and_mul"), _GATED),
    **dict.fromkeys(("gelu_tanh", "gelu_new", "fast_gelu", "gelu_fast"), "gelu(x, approximate=tanh)"),
    "quick_gelu": "x * sigmoid(1.702 * x)",
    **dict.fromkeys(("logsigmoid", "log_sigmoid"), "-softplus(-x)"),
    "softmin": "softmax(-x)",
    "tanhshrink": "x - tanh(x)",
    "hardshrink": "where(abs(x) > 0.5, x, 0)",
    "softshrink": "where(x > 0.5, x - 0.5, where(x < -0.5, x + 0.5, 0))",
    "threshold": "where(x > 0.1, x, 0)",
    "squareplus": "(x + sqrt(x * x + 4)) / 2",
    # reductions
    **dict.fromkeys(("reduce_sum", "sum_to_size"), "sum(x, axis=1)"),
    "reduce_max": "max(x, axis=1)",
    "amin": "min(x, axis=1)",
    "reduce_min": "min(x, axis=1)",
    **dict.fromkeys(("reduce_mean", "average"), "mean(x, axis=1)"),
    "reduce_prod": "prod(x, axis=1)",
    "ptp": "max(x, axis=1) - min(x, axis=1)",
    "std": "sqrt(var(x, axis=1))",
    "variance": "var(x, axis=1)",
    "norm": _ROOT,
    "vector_norm": _ROOT,
    "count_nonzero": "sum(where(x != 0, 1, 0), axis=1)",
    "absmax": "amax(x)",
    **dict.fromkeys(("normalize", "l2_normalize", "l2norm"), _NORM),
    **dict.fromkeys(("standardize", "native_layer_norm"), "layer_norm(x)"),
    "mse_loss": f"mean({_EQUAL})",
    "l1_loss": "mean(abs(a - b))",
    "cosine_similarity": "sum(a * b, axis=1) * rsqrt(sum(a * a, axis=1) * sum(b * b, axis=1))",
    # shapes
    **dict.fromkeys(("view", "flatten", "unflatten", "view_as", "reshape_as", "ravel"), _VIEW),
    **dict.fromkeys(("transpose", "t", "trans", "swapaxes", "swapdims", "matrix_transpose"), _SWAP),
    **dict.fromkeys(("movedim", "moveaxis", "permute_dims", "rearrange", "rollaxis"), "permute(x, (1, 0))"),
    **dict.fromkeys(("unsqueeze", "expand_dims"), _AXIS),
    **dict.fromkeys(("squeeze", "unbind", "item"), "x[:, 0]"),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to", "broadcast_in_dim"), _SPREAD),
    **dict.fromkeys(("cat", "concatenate", "hstack", "vstack", "column_stack", "row_stack"), _CONCAT),
    "repeat_interleave": "repeat(x, 2, axis=1)",
    "stack": "concat(x[None, :, :], y[None, :, :], axis=0)",
    **dict.fromkeys(("slice", "split", "chunk", "narrow", "dynamic_slice", "slice_in_dim"), _SLICE),
    **dict.fromkeys(("fliplr", "rev"), "flip(x, axis=1)"),
    "flipud": "flip(x, axis=0)",
    **dict.fromkeys(("pad_sequence", "zero_pad", "zero_pad2d"), "pad(x, low=(0, 1), high=(0, 1))"),
    **dict.fromkeys(("index_select", "embedding", "take", "select"), "gather(x, rows)"),
    **dict.fromkeys(("take_along_axis", "take_along_dim"), "take_along(x, index, axis=1)"),
    "cross_entropy": "-mean(take_along(log_softmax(x), index, axis=1))",
    "msort": "sort(x, axis=0)",
    **dict.fromkeys(("rand", "uniform"), "random((M, K), 7)"),
    # tensors
    **dict.fromkeys(("zeros", "zeros_like", "full_like", "empty", "empty_like", "fill"), "full((M, K), 0)"),
    **dict.fromkeys(("ones", "ones_like"), "full((M, K), 1)"),
    **dict.fromkeys(("arange", "range", "make_range"), "iota((M, K), axis=1)"),
    **dict.fromkeys(("to", "astype", "type", "type_as", "convert_element_type"), _CAST),
    **dict.fromkeys(("asarray", "short"), _CAST),
    **{f"conv{n}d": "conv(x, w)" for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": "conv_transpose(x, w)" for n in (1, 2, 3)},
    **{f"max_pool{n}d": "max_pool(x, size=2)" for n in (1, 2, 3)},
    **{f"avg_pool{n}d": "avg_pool(x, size=2)" for n in (1, 2, 3)},
    **{f"lp_pool{n}d": "pow(avg_pool(pow(x, 2), size=2, divisor=1), 0.5)" for n in (1, 2, 3)},
    **{f"batch_norm{n}d": "batch_norm(x)" for n in (1, 2, 3)},
    **{f"instance_norm{n}d": "instance_norm(x)" for n in (1, 2, 3)},
}
"""Equivalent expressions of this language, by the name of the function in other frameworks."""

_WRITTEN = {_key(name): text for name, text in _EXPRESSIONS.items()}


_NAMES = """
sinc angle real imag conj polar modf frexp ldexp nextafter
gamma lgamma digamma erfinv igamma i0 polygamma xlogy nan_to_num cbrt copysign float8 popcount bitcast
unique nonzero argwhere searchsorted bucketize histogram histc bincount digitize median nanmedian mode
quantile percentile kthvalue nansum nanmean nanmax nanmin cummax cummin logcumsumexp diff alpha_dropout
randn randint normal bernoulli multinomial randperm poisson gumbel_softmax sparsemax entmax dropout1d
dropout2d dropout3d
one_hot index_add index_copy index_put index_fill masked_select masked_scatter scatter_add
scatter_reduce put eye diag diagonal diag_embed trace tri linspace logspace meshgrid vander inv inverse
pinv solve det slogdet cholesky qr svd eig eigh lu matrix_power matrix_exp lstsq kron cdist pdist fft
ifft rfft irfft fft2 stft convolve correlate cross nll_loss kl_div binary_cross_entropy
bce_loss huber_loss smooth_l1_loss ctc_loss adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d
max_unpool2d interpolate upsample grid_sample affine_grid pixel_shuffle unfold fold im2col
local_response_norm bilinear embedding_bag lstm gru rnn_tanh rnn_relu multi_head_attention_forward
tile rot90 trapz trapezoid cov corrcoef apply_along_axis vmap scan cond while_loop map load store
atomic_add program_id num_programs make_block_ptr associative_scan reduce
inline_asm_elementwise isclose allclose isin isreal xor logical_xor gcd lcm clone detach copy contiguous
numpy sub_ zeta tensor array long new masked smm map_ sspaddmm baddbmm_out apply
"""
_ABSENT = frozenset(_key(name) for name in _NAMES.split())
"""Functions of other frameworks that have no short equivalent in the language."""

DTYPES: dict[str, str] = {
    **dict.fromkeys(("float16", "fp16", "half"), "f16"),
    **dict.fromkeys(("bfloat16", "bfloat"), "bf16"),
    **dict.fromkeys(("float32", "fp32", "float"), "f32"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3", "fp8_e4m3", "fp8e4nv", "e4m3fn", "f8e4m3"), "e4m3"),
    **dict.fromkeys(("float8_e5m2", "fp8_e5m2", "fp8e5", "f8e5m2"), "e5m2"),
    **dict.fromkeys(("int8", "i8"), "s8"),
    "uint8": "u8",
    **dict.fromkeys(("int32", "i32", "int"), "s32"),
    **dict.fromkeys(("int4", "i4"), "s4"),
    "uint4": "u4",
}
"""Dtypes by their names in other frameworks."""

NEAREST_DTYPES: dict[str, str] = {
    **dict.fromkeys(("int64", "i64", "s64", "long", "int16", "short", "uint32", "int1"), "s32"),
    **dict.fromkeys(("float64", "fp64", "f64", "double"), "f32"),
    **dict.fromkeys(("fp8", "float8", "f8"), "e4m3"),
}
"""Dtypes of other frameworks that the language does not have, with the nearest that it has."""

NAMED_RESULTS = "several results have names: `-> (y: bf16[M, N], s: f32[M])`"

_NO_TYPES: dict[str, str] = {
    "bool": "store a condition as numbers: `where(condition, 1, 0)`",
    **dict.fromkeys(("tuple", "Tuple", "list", "List"), NAMED_RESULTS),
    **dict.fromkeys(
        ("Tensor", "torch", "np", "numpy", "jnp", "tl", "Array", "ndarray", "tensor", "memref"),
        "the type of a tensor is a dtype with extents: `f32[M, N]`",
    ),
}
"""Advice by types of other languages that this language has no dtype for."""

SWITCHES: dict[str, str] = {
    **dict.fromkeys(("True", "true", "yes"), "on"),
    **dict.fromkeys(("False", "false", "no"), "off"),
}
"""Words for `on` and `off` in other languages."""

_TILE = "the sizes of a block's tile are one setting: `tile = 128x256x64`"
_SETTINGS: dict[str, str] = {
    **dict.fromkeys(("num_stages", "pipeline_stages", "stage"), "the setting is called 'stages'"),
    **dict.fromkeys(
        ("block_m", "block_n", "block_k", "block", "block_size", "tile_shape", "cta_tile"), _TILE
    ),
    **dict.fromkeys(
        ("num_warps", "warps", "warpgroups", "threads"), "`mainloop` decides how many warps there are"
    ),
    **dict.fromkeys(
        ("swizzle", "raster"), "an argument of the scheduler: `scheduler = persistent(swizzle=2)`"
    ),
    **dict.fromkeys(("split_k", "stream_k", "splits", "persistent"), "a scheduler: `scheduler = split_k(4)`"),
    **dict.fromkeys(("kernel_schedule", "pingpong", "cooperative"), "a mainloop: `mainloop = pingpong`"),
    "cluster_shape": "the setting is called 'cluster'",
}
"""Advice by settings of CUTLASS, Triton and other compilers."""

_PARAMETERS: dict[str, tuple[str, ...]] = {  # parameters by their names in other frameworks
    **dict.fromkeys(("dim", "dims", "axes", "dim0"), ("axis",)),
    "keepdim": ("keepdims",),
    **dict.fromkeys(("negative_slope", "alpha"), ("slope",)),
    **dict.fromkeys(("min", "a_min", "min_val"), ("lo",)),
    **dict.fromkeys(("max", "a_max", "max_val"), ("hi",)),
    "padding": ("pad",),
    **dict.fromkeys(("kernel_size", "window"), ("size",)),
    "ceil_mode": ("ceil",),
    "count_include_pad": ("count_pad",),
    "output_padding": ("output_pad",),
    **dict.fromkeys(("ddof", "unbiased"), ("correction",)),
    "num_groups": ("groups",),
    "epsilon": ("eps",),
    "is_causal": ("causal",),
    **dict.fromkeys(("attn_mask", "attn_bias", "attention_mask"), ("mask",)),
    **dict.fromkeys(("sm_scale", "softmax_scale"), ("scale",)),
    **dict.fromkeys(("fill_value", "constant_values"), ("value",)),
    "shifts": ("shift",),
    "k": ("diagonal",),
    "repeats": ("times",),
    **dict.fromkeys(("indices", "idx"), ("index", "rows")),
    **dict.fromkeys(("newshape", "size"), ("shape",)),
}

_ARITHMETIC_WEIGHTS = (
    "weight and bias are arithmetic, and eps is a keyword: `layer_norm(x, eps=1e-6) * w + b`"
)

_CAPPED = "write the scores out: `softmax(tanh(q @ k.T / 50) * 50) @ v`"
_WINDOW = "a window is a mask: `mask=i - j < 1024`, i and j made by `iota`, and `causal=on`"
_DOCUMENTS = "sequences in one tensor are a mask: `mask=segment[:, None] == segment[None, :]`"

_ABSENT_PARAMETERS: dict[str, str] = {
    **dict.fromkeys(("weight", "bias", "gamma", "beta", "normalized_shape"), _ARITHMETIC_WEIGHTS),
    "dtype": "results are f32 or have the dtype of the operand; another one is `cast(x, bf16)`",
    **dict.fromkeys(("inplace", "out"), "values do not change: the result has a name of its own"),
    **dict.fromkeys(("training", "device", "generator"), "the caller decides that: leave it out"),
    "unbiased": "write `correction=0` or `correction=1`",
    **dict.fromkeys(("softcap", "soft_cap", "logits_soft_cap"), _CAPPED),
    **dict.fromkeys(("window", "window_size", "sliding_window"), _WINDOW),
    **dict.fromkeys(("cu_seqlens", "segment_ids", "seqlens"), _DOCUMENTS),
    **dict.fromkeys(("dropout_p", "dropout"), "weights are not dropped: leave that to PyTorch"),
    "enable_gqa": "heads share keys along an axis of extent 1 of these: `k[:, :, None]`",
}
"""Advice by parameters of other frameworks that no parameter of the language is equivalent to."""

_PRODUCTS = ("matmul", "conv", "conv_transpose")

_CALLS: dict[str, str] = {
    "reshape": "the extents are one list, each written out: `reshape(x, (M, 4, N))`",
    "broadcast": "the extents are one list: `broadcast(x, (M, N))`",
    "permute": "the axes are one list: `permute(x, (1, 0, 2))`",
    "full": "the extents are one list: `full((M, N), 1)`",
    "iota": "it counts along one axis of a shape: `iota((M, N), axis=1)`",
    "random": "the extents are one list: `random((M, N), seed)`",
    "concat": "write the operands, then the axis by name: `concat(x, y, axis=1)`",
    "clamp": "one bound alone is `max(x, lo)` or `min(x, hi)`",
    "gather": "`gather(x, rows)` picks rows; `take_along(x, index, axis=1)` picks elements of an axis",
    "dropout": "it needs a seed, an `s32[]` or an integer: `dropout(x, 0.1, seed)`",
    **dict.fromkeys(("layer_norm", "rms_norm", "batch_norm", "instance_norm"), _ARITHMETIC_WEIGHTS),
    "group_norm": _ARITHMETIC_WEIGHTS,
    **dict.fromkeys(("max", "min"), "`max(x, axis=1)` reduces, `max(a, b)` compares two values"),
}
"""How functions are called that other frameworks call in another way."""

_VALUES: dict[str, str] = {
    "pi": "write 3.141592653589793",
    "e": "write 2.718281828459045",
    "nan": "no number is NaN: `inf - inf` is",
    **dict.fromkeys(("infinity", "Infinity"), "write `inf`"),
    **dict.fromkeys(("True", "False", "true", "false"), "a condition is a comparison, such as `x > 0`"),
}
"""Advice by names that are numbers or conditions in other frameworks."""

LIBRARIES = (
    *("torch", "nn", "functional", "special", "linalg", "F", "np", "numpy", "jnp", "jax", "lax"),
    *("tl", "triton", "math", "libdevice"),
)
"""Modules that calls begin with in other frameworks."""


def _known_key(name: str) -> str:
    """Normalise a name like `_key`, and drop the `f` that functions of floats end with in C: `fmaxf`."""
    key = _key(name)
    plain = key.removesuffix("f")
    return plain if key not in _WRITTEN and key not in _ABSENT and plain in _WRITTEN else key


def is_foreign(name: str) -> bool:
    """Whether another framework has a function of this name."""
    return _known_key(name) in _WRITTEN or _key(name) in _ABSENT


def function_help(name: str) -> str | None:
    """Return advice for a function name of another framework, or a dtype; None for an unknown name."""
    if (dtype := DTYPES.get(name, name)) in DTYPES.values():
        return f"write `cast(x, {dtype})`"
    if (text := _WRITTEN.get(_known_key(name))) is not None:
        return f"write `{text}`"
    if _key(name) in _ABSENT:
        return f"there is no `{name}` yet: compute it outside, and pass the result as a parameter"
    return None


def type_help(name: str) -> str | None:
    """Return advice for a type of another language; None for an unknown name, and for a dtype."""
    return _NO_TYPES.get(name)


def setting_help(name: str) -> tuple[str, ...]:
    """Return advice for a setting of another compiler."""
    return (_SETTINGS[name.lower()],) if name.lower() in _SETTINGS else ()


def is_dtype(name: str) -> bool:
    """Whether a name is that of a dtype, in this language or in another framework."""
    return name in DTYPES or name in NEAREST_DTYPES or name in DTYPES.values()


def parameter_names(name: str) -> tuple[str, ...]:
    """Return the parameters equivalent to a parameter of another framework."""
    return _PARAMETERS.get(name, ())


def parameter_help(name: str, function: str) -> str | None:
    """Return advice for a parameter of another framework that has no equivalent; None for an unknown name."""
    if name == "bias" and function in _PRODUCTS:
        return f"add it: `{function}(...) + b`"
    return _ABSENT_PARAMETERS.get(name)


def call_help(function: str) -> tuple[str, ...]:
    """Return advice for a call of a function whose arguments do not fit."""
    return (_CALLS[function],) if function in _CALLS else ()


def value_help(name: str) -> str | None:
    """Return advice for a name that is a number or a condition in another framework."""
    return _VALUES.get(name)


def written() -> dict[str, str]:
    """Return the expressions that `function_help` suggests, by name."""
    return dict(_EXPRESSIONS)
