"""The epilogues that the fast build is held to. `python -m bench.epilogues DIR [NAME …]` writes `.mcu` files.

Every program is one product with pointwise work behind it. Programs of one family have the same operands and
results and differ in that work alone, so that they share one skeleton; that a body sees no more than floats
makes each of them a case of splicing of its own. Extents are run-time values that keep what TMA asks for.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from bench.common import run_main


@dataclass(frozen=True, slots=True)
class Family:
    """Programs of one skeleton: x and w of `dtype`, then `operands`; `h` is the first statement."""

    operands: str = ""
    results: str = "bf16[M, N]"
    h: str = "x @ w.T"
    dtype: str = "bf16"


FAMILIES: dict[str, Family] = {
    "bare": Family(),
    "plain": Family(),
    "row": Family("b: bf16[N]", h="x @ w.T + b"),
    "row_f16": Family("b: f16[N]", "f16[M, N]", "x @ w.T + b", "f16"),
    "row_f32": Family("b: f32[N]", "f32[M, N]", "x @ w.T + b", "f32"),
    "row_to_f16": Family("b: bf16[N]", "f16[M, N]", "x @ w.T + b"),
    "row_to_f32": Family("b: bf16[N]", "f32[M, N]", "x @ w.T + b"),
    "column": Family("r: f32[M]"),
    "matrix": Family("c: bf16[M, N]"),
    "scalar": Family("s: f32"),
    "seven": Family(
        "b: bf16[N], g: f32[N], r: f32[M], q: f16[M], c: bf16[M, N], s: f32", h="s * (x @ w.T) + b"
    ),
    "two_outputs": Family("b: bf16[N]", "(y: bf16[M, N], z: f32[M, N])", "x @ w.T + b"),
    "row_sums": Family("b: bf16[N]", "(y: bf16[M, N], total: f32[M])", "x @ w.T + b"),
    "square_sums": Family("b: bf16[N]", "(y: bf16[M, N], total: f32[M])", "x @ w.T + b"),
    "column_maxima": Family("b: bf16[N]", "(y: bf16[M, N], top: f32[N])", "x @ w.T + b"),
    "range": Family("b: bf16[N]", "(y: bf16[M, N], largest: f32[])", "x @ w.T + b"),
}


@dataclass(frozen=True, slots=True)
class Epilogue:
    """One program. `text` holds one kernel, `name`.

    `has_library_calls`: a function becomes a routine of CUDA's device library (exp, tanh, erf, pow, …) and
    not just instructions; a compiler may optimise such a routine otherwise when it sees it alone.
    `whole_numbers`: inputs must be small integers, since results hold sums that are added up in any order,
    and only then are they the same bits in every run.
    """

    name: str
    family: str
    text: str
    has_library_calls: bool
    whole_numbers: bool


def _epilogue(name: str, family: str, body: str, *marks: str) -> Epilogue:
    """`body` is what follows `h = …`: statements and, last, the returned expression."""
    f = FAMILIES[family]
    *statements, result = body.split("; ")
    lines = [f"h = {f.h}", *statements, f"return {result}"]
    operands = f", {f.operands}" if f.operands else ""
    text = (
        f"kernel {name}[M, N, K](x: {f.dtype}[M, K], w: {f.dtype}[N, K]{operands}) -> {f.results}\n"
        "    where K % 8 == 0, N % 8 == 0\n"
        "{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
    )
    return Epilogue(name, family, text, "library" in marks, "whole" in marks)


_DEEP = "; ".join(
    f"t{i} = {'max' if i % 5 == 4 else 'min'}(t{i - 1} * {1 + i / 16} - b, h)" for i in range(1, 11)
)
"""Ten steps of four operations, each on the result of the one before."""

EPILOGUES: tuple[Epilogue, ...] = (
    # Activations
    _epilogue("relu", "row", "relu(h)"),
    _epilogue("leaky_relu", "row", "leaky_relu(h, slope=0.2)"),
    _epilogue("elu", "row", "elu(h, alpha=0.7)", "library"),
    _epilogue("selu", "row", "selu(h)", "library"),
    _epilogue("gelu", "row", "gelu(h)"),
    _epilogue("gelu_tanh", "row", "gelu(h, approximate=tanh)"),
    _epilogue("silu", "row", "silu(h)"),
    _epilogue("sigmoid", "row", "sigmoid(h)"),
    _epilogue("tanh", "row", "tanh(h)", "library"),
    _epilogue("softplus", "row", "softplus(h)"),
    _epilogue("softplus_beta", "row", "softplus(h, beta=2.5)"),
    _epilogue("softsign", "row", "softsign(h)"),
    _epilogue("mish", "row", "mish(h)"),
    _epilogue("hardsigmoid", "row", "hardsigmoid(h)"),
    _epilogue("hardswish", "row", "hardswish(h)"),
    _epilogue("hardtanh", "row", "hardtanh(h, lo=-0.5, hi=2)"),
    # Elementary functions
    _epilogue("erf", "row", "erf(h)", "library"),
    _epilogue("exponential", "row", "exp(0.5 * h)", "library"),
    _epilogue("exponential_minus_one", "row", "expm1(0.01 * h)", "library"),
    _epilogue("logarithm", "row", "log(abs(h) + 0.1)", "library"),
    _epilogue("logarithm_of_one_more", "row", "log1p(abs(h))", "library"),
    _epilogue("waves", "row", "sin(h) + cos(2 * h) * tan(0.25 * h)", "library"),
    _epilogue("angle", "row", "atan2(h, b)", "library"),
    _epilogue("rounded", "row", "floor(h) + 0.5 * ceil(2 * h) - round(3 * h) + trunc(h) * sign(b)"),
    _epilogue("remainders", "row", "fmod(h, 0.75) + floor_divide(h, 0.5) * (h % 0.3)", "library"),
    _epilogue("square_root", "row", "sqrt(abs(h))"),
    _epilogue("reciprocal_root", "row", "rsqrt(h * h + 0.25)"),
    _epilogue("negated_magnitude", "row", "-abs(h) + neg(b)"),
    _epilogue("clamped", "row", "clamp(h, min(b, 0), max(b, 1))"),
    _epilogue("smaller_larger", "row", "max(min(h, 2 * b), -1.5)"),
    # Powers and quotients
    _epilogue("cube", "row", "pow(h, 3)"),
    _epilogue("inverse_square", "row", "pow(abs(h) + 0.5, -2)"),
    _epilogue("root_by_power", "row", "pow(abs(h), 0.5)"),
    _epilogue("fractional_power", "row", "pow(abs(h) + 0.5, 1.7)", "library"),
    _epilogue("power_of_operand", "row", "pow(abs(h) + 0.5, b)", "library"),
    _epilogue("quotients", "row", "h / 3 + b / (1 + h * h) - h / 8"),
    # Comparisons and selection; all are continuous, so that a rounding of h does not become a step
    _epilogue("inside_or_clipped", "row", "where(h > 0 and h < 1, h * h, clamp(h, 0, 1))"),
    _epilogue("cubic_inside", "row", "where(not (h < -1 or h >= 1), h * h * h, h)"),
    _epilogue("by_sign_of_operand", "row", "h * where(b == 0, 1, where(b >= 0.25, b, 0.5))"),
    _epilogue("condition_as_number", "row", "h * cast(b > 0, f32) + cast(b != 0, f32)"),
    _epilogue("huber", "row", "a = abs(h); where(a <= 1, 0.5 * h * h, a - 0.5)"),
    # Constants, roundings in the middle, depth
    _epilogue("polynomial", "row", "(((0.125 * h - 0.3) * h + 1.7) * h + 0.0071) * h - 1e-3"),
    _epilogue("extreme_constants", "row", "clamp(h, -3e38, 1e30) * 1e-30 * 1e30 + 1e-38"),
    _epilogue("rounded_to_bf16", "row", "cast(h, bf16) * b + cast(0.3 * h, bf16)"),
    _epilogue("rounded_to_f16", "row", "cast(0.5 * h, f16) - cast(cast(h, bf16), f16)"),
    _epilogue("deep_chain", "row", f"t0 = h; {_DEEP}; t10"),
    _epilogue("deep_library_chain", "row", "tanh(erf(exp(-abs(log(gelu(h) + 1.5)))) * 0.7)", "library"),
    # No operand, and each kind of operand
    _epilogue("product_alone", "bare", "h"),
    _epilogue("square_of_product", "plain", "h * h"),
    _epilogue("scaled_rows", "column", "h * r[:, None]"),
    _epilogue("column_bias_silu", "column", "silu(h + r[:, None])"),
    _epilogue("residual_relu", "matrix", "relu(h + c)"),
    _epilogue("gated_by_matrix", "matrix", "h * sigmoid(c) + (1 - sigmoid(c)) * c"),
    _epilogue("run_time_scale", "scalar", "h * s"),
    _epilogue("run_time_swish", "scalar", "h * sigmoid(s * h)"),
    _epilogue("work_on_the_scalar", "scalar", "h * sqrt(abs(s)) / (1 + s * s)"),
    _epilogue("work_on_the_row", "row", "h * sigmoid(b) - rsqrt(b * b + 1)"),
    _epilogue("seven_operands", "seven", "silu(h) * g + r[:, None] * c - q[:, None]"),
    _epilogue("seven_library", "seven", "tanh(h * g + r[:, None]) * exp(-c * c) + q[:, None]", "library"),
    # Other dtypes at either end
    _epilogue("relu_f16", "row_f16", "relu(h)"),
    _epilogue("gelu_f16", "row_f16", "gelu(h)"),
    _epilogue("hardswish_f32", "row_f32", "hardswish(h)"),
    _epilogue("tanh_f32", "row_f32", "tanh(h)", "library"),
    _epilogue("silu_to_f16", "row_to_f16", "silu(h)"),
    _epilogue("mish_to_f32", "row_to_f32", "mish(h)"),
    _epilogue("rounded_then_f32", "row_to_f32", "cast(h, bf16) + 1"),
    # Several results
    _epilogue("activation_and_its_input", "two_outputs", "silu(h), h"),
    _epilogue("gelu_and_its_input", "two_outputs", "gelu(h), h"),
    _epilogue("product_and_its_successor", "two_outputs", "z = h * b; z + 1, z"),
    _epilogue("relu_and_row_sums", "row_sums", "y = relu(h); y, sum(y, axis=1)", "whole"),
    _epilogue("slope_and_row_sums", "row_sums", "y = where(h > 0, h, 0.25 * h); y, sum(y, axis=1)", "whole"),
    _epilogue("relu_and_square_sums", "square_sums", "y = relu(h); y, sum(y * y, axis=1)", "whole"),
    _epilogue("mish_and_column_maxima", "column_maxima", "y = mish(h); y, max(y, axis=0)"),
    _epilogue("silu_and_range", "range", "y = silu(h); y, amax(y)"),
)  # fmt: skip


def write(folder: Path, names: list[str] | None = None) -> list[Path]:
    """Write the programs, all or those named, as `NAME.mcu` into a folder; their paths in order.

    Raises SystemExit for a name that there is none of.
    """
    if unknown := sorted(set(names or ()) - {e.name for e in EPILOGUES}):
        raise SystemExit(f"there is no epilogue {', '.join(unknown)}")
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for epilogue in EPILOGUES:
        if not names or epilogue.name in names:
            paths.append(folder / f"{epilogue.name}.mcu")
            paths[-1].write_text(epilogue.text, encoding="utf-8")
    return paths


def main() -> None:
    """Write the programs, and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("names", nargs="*", help="which programs (default: all)")
    args = parser.parse_args()
    print("\n".join(map(str, write(args.folder, args.names))))


if __name__ == "__main__":
    run_main(main)
