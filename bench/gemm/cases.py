"""What is computed: a program of the language, and PyTorch's way to the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.gemm.shapes import FUSED, MIXED, ODD, PLAIN, SKINNY, SPARSE, Shape

Tensors = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One kind of contraction.

    `program` has a kernel of this name over dims M, N, K. `tensors(torch, shape)` makes random inputs by
    parameter name, `eager(torch, tensors)` is what PyTorch users write, `exact` the same in float64.
    `rate` names the tensor-core rate that it is held against. `bytes` are those of an element of an operand
    and of a result.
    `others` are further ways of PyTorch's to the same result, by name. `work` counts the products of matrices
    that are computed.
    """

    name: str
    program: str
    tensors: Callable[[Any, Shape], Tensors]
    eager: Callable[[Any, Tensors], Any]
    exact: Callable[[Any, Tensors], Any]
    shapes: tuple[Shape, ...]
    group: str
    rate: str
    bytes: tuple[int, int] = (2, 2)
    tolerance: float = 8e-3
    tf32: bool = False
    compiled: bool = False
    others: tuple[tuple[str, Callable[[Any, Tensors], Any]], ...] = ()
    work: float = 1.0

    def fits(self, shape: Shape) -> bool:
        """Whether PyTorch can run it: its 8-bit integer product wants more than 16 rows."""
        return self.rate != "s8" or shape.m > 16


def _random(torch: Any, *shape: int, dtype: str, scale: float = 1.0) -> Any:
    if dtype in ("int8", "uint8"):
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    values = torch.randn(*shape, device="cuda", dtype=torch.float32) * scale
    return values.to(getattr(torch, dtype))


def _linear(dtype: str) -> Callable[[Any, Shape], Tensors]:
    def make(torch: Any, shape: Shape) -> Tensors:
        # Weights that keep the result near 1. Eight-bit floats have too few small values: they stay near 1.
        scale = 1.0 if dtype.startswith("float8") else shape.k**-0.5
        x = _random(torch, shape.m, shape.k, dtype=dtype)
        return {"x": x, "w": _random(torch, shape.n, shape.k, dtype=dtype, scale=scale)}

    return make


def _double(t: Tensors, *names: str) -> list[Any]:
    return [t[name].double() for name in names]


def _product(torch: Any, t: Tensors) -> Any:
    x, w = _double(t, "x", "w")
    return x @ w.T


def _matmul(torch: Any, t: Tensors) -> Any:
    return torch.matmul(t["x"], t["w"].T)


def _int_mm(torch: Any, t: Tensors) -> Any:
    return torch._int_mm(t["x"], t["w"].T)


def _scaled_mm(torch: Any, t: Tensors) -> Any:
    one = t.setdefault("_one", torch.ones((), device="cuda"))
    return torch._scaled_mm(
        t["x"], t["w"].T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _program(name: str, operand: str, result: str, options: str = "") -> str:
    product = f"matmul(x, w.T{options})" if options else "x @ w.T"
    return (
        f"kernel {name}[M, N, K](x: {operand}[M, K], w: {operand}[N, K]) -> {result}[M, N] {{\n"
        f"    return {product}\n}}\n"
    )


def _plain(name: str, operand: str, torch_name: str, result: str, **options: Any) -> Case:
    return Case(
        name=name,
        program=_program(name, operand, result, options.pop("arguments", "")),
        tensors=_linear(torch_name),
        eager=options.pop("eager", _matmul),
        exact=_product,
        shapes=tuple(options.pop("shapes", PLAIN)),
        group=options.pop("group", "plain"),
        rate=options.pop("rate", name),
        **options,
    )


PLAIN_CASES = (
    _plain("bf16", "bf16", "bfloat16", "bf16"),
    _plain("f16", "f16", "float16", "f16", tolerance=1e-3),
    _plain("tf32", "f32", "float32", "f32", bytes=(4, 4), tolerance=1e-3, tf32=True),
    _plain("e4m3", "e4m3", "float8_e4m3fn", "bf16", bytes=(1, 2), eager=_scaled_mm, arguments=", acc=fast"),
    _plain("s8", "s8", "int8", "s32", bytes=(1, 4), eager=_int_mm, tolerance=0.0),
)
F32_CASES = (
    _plain(
        "f32",
        "f32",
        "float32",
        "f32",
        bytes=(4, 4),
        tolerance=1e-5,
        arguments=", compute=f32",
        shapes=(Shape("square", 4096, 4096, 4096), Shape("square", 8192, 8192, 8192)),
        group="f32",
    ),
    _plain(
        "tf32x3",
        "f32",
        "float32",
        "f32",
        bytes=(4, 4),
        tolerance=1e-5,
        arguments=", compute=tf32x3",
        shapes=(Shape("square", 4096, 4096, 4096), Shape("square", 8192, 8192, 8192)),
        group="f32",
        rate="f32",
    ),
)


def _odd(shape: Shape) -> Case:
    """Rows of no whole 16 bytes, known when the program is compiled."""
    name = f"odd_{shape.name}"
    case = _plain(name, "bf16", "bfloat16", "bf16", shapes=(shape,), group="odd", rate="bf16")
    program = case.program.replace("[M, N, K]", f"[M, N={shape.n}, K={shape.k}]", 1)
    return replace(case, program=program)


ODD_CASES = tuple(map(_odd, ODD))
SKINNY_CASES = (
    _plain("skinny_bf16", "bf16", "bfloat16", "bf16", shapes=SKINNY, group="skinny", rate="bf16"),
)


def _sparse(torch: Any, shape: Shape) -> Tensors:
    """Weights with the 2:4 pattern: packed for mucc, and with their zeros for PyTorch."""
    from mucc import densify, sparsify

    made = _linear("bfloat16")(torch, shape)
    packed = sparsify(made["w"], prune=True)
    return {"x": made["x"], "w": packed, "_dense": densify(packed)}


def _sparse_exact(torch: Any, t: Tensors) -> Any:
    x, w = _double(t, "x", "_dense")
    return x @ w.T


def _semi_structured(torch: Any, t: Tensors) -> Any:
    """PyTorch's own 2:4 weights, by cuSPARSELt where the wheel has it."""
    if "_packed" not in t:
        t["_packed"] = torch.sparse.to_sparse_semi_structured(t["_dense"])
    return torch.nn.functional.linear(t["x"], t["_packed"])


SPARSE_CASES = (
    Case(
        name="sparse_bf16",
        program=_program("sparse_bf16", "bf16", "bf16").replace("w: bf16[N, K]", "w: bf16[N, K] sparse"),
        tensors=_sparse,
        eager=lambda torch, t: torch.matmul(t["x"], t["_dense"].T),
        exact=_sparse_exact,
        shapes=tuple(SPARSE),
        group="sparse",
        rate="bf16",
        others=(("semi_structured", _semi_structured),),
        work=0.5,
    ),
)


GROUP = 128
"""Weights that share a scale."""


def _narrow(dtype: str) -> Callable[[Any, Shape], Tensors]:
    """Activations, weights as a call takes them, scales; and the weights as they are, for the others."""

    def make(torch: Any, shape: Shape) -> Tensors:
        import mucc

        most = 8 if dtype == "s4" else 128
        whole = torch.randint(-most, most, (shape.n, shape.k), device="cuda", dtype=torch.int8)
        scales = (torch.rand(shape.n, shape.k // GROUP, device="cuda") + 0.5) / (most * shape.k**0.5)
        return {
            "x": _random(torch, shape.m, shape.k, dtype="bfloat16"),
            "w": mucc.pack_s4(whole) if dtype == "s4" else whole,
            "s": scales.to(torch.bfloat16),
            "_whole": whole,
        }

    return make


def _dequantised(t: Tensors, dtype: Any) -> Any:
    whole = t["_whole"].to(dtype)
    return (whole.view(*t["s"].shape, GROUP) * t["s"].to(dtype)[..., None]).view(whole.shape)


def _int4pack(torch: Any, t: Tensors) -> Any:
    """PyTorch's own product with weights of 4 bits: numbers from 0 to 15, of which it takes 8 away."""
    if "_packed" not in t:
        raised = t["_whole"].to(torch.int32) + 8
        bytes = (raised[:, ::2] << 4 | raised[:, 1::2]).to(torch.uint8)
        factors = torch.stack((t["s"].T, torch.zeros_like(t["s"].T)), -1).contiguous()
        t["_packed"] = torch._convert_weight_to_int4pack(bytes, 8), factors
    weights, factors = t["_packed"]
    return torch._weight_int4pack_mm(t["x"], weights, GROUP, factors)


def _mixed(dtype: str) -> Case:
    """A layer whose weights are dequantised by groups; PyTorch does so in a kernel of its own."""
    name = f"{dtype}_bf16"
    (k,) = {shape.k for shape in MIXED}
    return Case(
        name=name,
        program=(
            f"kernel {name}[M, N, K={k}](x: bf16[M, K], w: {dtype}[N, K], s: bf16[N, K/{GROUP}])"
            " -> bf16[M, N] {\n    return x @ dequantize(w, s).T\n}\n"
        ),
        tensors=_narrow(dtype),
        eager=lambda torch, t: t["x"] @ _dequantised(t, torch.bfloat16).T,
        exact=lambda torch, t: t["x"].double() @ _dequantised(t, torch.float64).T,
        shapes=tuple(MIXED),
        group="mixed",
        rate="bf16",
        others=(("int4pack", _int4pack),) if dtype == "s4" else (),
    )


MIXED_CASES = (_mixed("s4"), _mixed("s8"))


def _fused(
    name: str,
    parameters: str,
    expression: str,
    extra: Callable[[Any, Shape], Tensors],
    eager: Callable[[Any, Tensors], Any],
    exact: Callable[[Any, Tensors], Any],
    results: str = "bf16[M, N]",
    work: float = 1.0,
) -> Case:
    """A layer in bf16 with more than a product; `x` and `w` are there already."""
    make = _linear("bfloat16")
    return Case(
        name=name,
        program=(
            f"kernel {name}[M, N, K](x: bf16[M, K], w: bf16[N, K]{parameters}) -> {results} {{\n"
            f"{expression}\n}}\n"
        ),
        tensors=lambda torch, shape: make(torch, shape) | extra(torch, shape),
        eager=eager,
        exact=exact,
        shapes=tuple(FUSED),
        group="fused",
        rate="bf16",
        compiled=True,
        work=work,
    )


def _bias(torch: Any, shape: Shape) -> Tensors:
    return {"b": _random(torch, shape.n, dtype="bfloat16")}


def _residual(torch: Any, shape: Shape) -> Tensors:
    return {"r": _random(torch, shape.m, shape.n, dtype="bfloat16")}


def _second(torch: Any, shape: Shape) -> Tensors:
    return {"v": _random(torch, shape.n, shape.k, dtype="bfloat16", scale=shape.k**-0.5)}


def _vectors(torch: Any, shape: Shape) -> Tensors:
    return {"sx": torch.rand(shape.m, device="cuda") + 0.5, "sw": torch.rand(shape.n, device="cuda") + 0.5}


def _scaled(torch: Any, t: Tensors) -> Any:
    return (torch.nn.functional.linear(t["x"], t["w"]) * t["sx"][:, None] * t["sw"]).to(torch.bfloat16)


def _row_sum(torch: Any, t: Tensors) -> Any:
    y = torch.relu(torch.nn.functional.linear(t["x"], t["w"]))
    return y, y.float().sum(-1)


def _row_sum_exact(torch: Any, t: Tensors) -> Any:
    y = torch.relu(_product(torch, t))
    return y, y.sum(-1)


FUSED_CASES = (
    _fused(
        "bias_gelu",
        ", b: bf16[N]",
        "    return gelu(x @ w.T + b)",
        _bias,
        lambda torch, t: torch.nn.functional.gelu(torch.nn.functional.linear(t["x"], t["w"], t["b"])),
        lambda torch, t: torch.nn.functional.gelu(_product(torch, t) + t["b"].double()),
    ),
    _fused(
        "bias_silu",
        ", b: bf16[N]",
        "    return silu(x @ w.T + b)",
        _bias,
        lambda torch, t: torch.nn.functional.silu(torch.nn.functional.linear(t["x"], t["w"], t["b"])),
        lambda torch, t: torch.nn.functional.silu(_product(torch, t) + t["b"].double()),
    ),
    _fused(
        "residual",
        ", r: bf16[M, N]",
        "    return x @ w.T + r",
        _residual,
        lambda torch, t: torch.nn.functional.linear(t["x"], t["w"]) + t["r"],
        lambda torch, t: _product(torch, t) + t["r"].double(),
    ),
    _fused(
        "gated",
        ", v: bf16[N, K]",
        "    return silu(x @ w.T) * (x @ v.T)",
        _second,
        lambda torch, t: (
            torch.nn.functional.silu(torch.nn.functional.linear(t["x"], t["w"]))
            * torch.nn.functional.linear(t["x"], t["v"])
        ),
        lambda torch, t: torch.nn.functional.silu(_product(torch, t)) * (t["x"].double() @ t["v"].double().T),
        work=2.0,
    ),
    _fused(
        "scales",
        ", sx: f32[M], sw: f32[N]",
        "    return (x @ w.T) * sx[:, None] * sw",
        _vectors,
        _scaled,
        lambda torch, t: _product(torch, t) * t["sx"].double()[:, None] * t["sw"].double(),
    ),
    _fused(
        "row_sum",
        "",
        "    y = relu(x @ w.T)\n    return y, sum(y, axis=-1)",
        lambda torch, shape: {},
        _row_sum,
        _row_sum_exact,
        "(y: bf16[M, N], total: f32[M])",
    ),
)

CASES: Mapping[str, Case] = {
    c.name: c
    for c in (
        *PLAIN_CASES,
        *F32_CASES,
        *ODD_CASES,
        *SKINNY_CASES,
        *SPARSE_CASES,
        *MIXED_CASES,
        *FUSED_CASES,
    )
}
"""Every case by name."""
