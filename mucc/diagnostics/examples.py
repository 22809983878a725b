"""Helpers for explanations of codes: two example programs each, and kernels they share."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo


def entry(title: str, cause: str, wrong: str, mended: str) -> CodeInfo:
    """Build the entry of a code about programs; the explanation ends with two example programs."""
    wrong, mended = wrong.strip("\n"), mended.strip("\n")
    programs = f"Wrong:\n\n```mcu\n{wrong}\n```\n\nMended:\n\n```mcu\n{mended}\n```\n"
    return CodeInfo(title, f"{cause}\n\n{programs}")


def body(text: str) -> str:
    """Build a program around a body with x, y: bf16[M, K], w: bf16[N, K], a vector b and a scalar s."""
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    signature = "x: bf16[M, K], y: bf16[M, K], w: bf16[N, K], b: bf16[M], s: f32"
    return f"kernel f[M, N, K]({signature}) -> bf16[M, K] {{\n{lines}\n}}"


GOOD = "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x\n}"


def functions(text: str, call: str) -> str:
    """Build a program of functions and a kernel with x: bf16[M] that returns a call."""
    return f"{text}\n\nkernel f[M](x: bf16[M]) -> bf16[M] {{\n    return {call}\n}}"


def schedule(setting: str, head: str = "schedule f for sm_90a") -> str:
    """Build a product with one schedule setting."""
    return f"{GEMM}\n{head} {{\n    {setting}\n}}"


def kernel(dtype: str = "bf16", x: str = "M, K", w: str = "N, K", body: str = "x @ w.T") -> str:
    """Build a product, by default of bf16 matrices contiguous along K."""
    return f"kernel f[M, N, K](x: {dtype}[{x}], w: {dtype}[{w}]) -> {dtype}[M, N] {{\n    return {body}\n}}"


GEMM = kernel()
ODD = GEMM.replace("K](", "K=101](")
F32 = kernel("f32", body="matmul(x, w.T, compute=f32)")
SCALED = "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K], s: f32) -> bf16[M, N] {\n    return x @ w.T * s\n}"
B_BY_ROWS = kernel("f32", w="K, N", body="x @ w")
GATED = (
    "kernel f[M, N, K](x: bf16[M, K], g: bf16[N, K], u: bf16[N, K]) -> bf16[M, N] {\n"
    "    return silu(x @ g.T) * (x @ u.T)\n}"
)
QKV = (
    "kernel f[M, N, K](x: bf16[M, K], w: bf16[2*N, K]) -> (k: bf16[M, N], v: bf16[M, N]) {\n"
    "    y = x @ w.T\n    return y[:, :N], y[:, N:]\n}"
)
SPARSE = GEMM.replace("[N, K]", "[N, K] sparse")
MIXED = (
    "kernel f[M, N, K](x: bf16[M, K], w: s8[N, K], s: bf16[N, K/128]) -> bf16[M, N] {\n"
    "    return x @ dequantize(w, s).T\n}"
)
A_BY_COLUMNS = "kernel f[M, N, K](x: f32[K, M], w: f32[N, K]) -> f32[M, N] {\n    return x.T @ w.T\n}"
PICKED = (
    "kernel f[T, M, N, K](x: bf16[T, K], rows: s32[M], w: bf16[K, N]) -> bf16[M, N] {\n"
    "    return gather(x, rows) @ w\n}"
)
BYTES = "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K], s: f32) -> e4m3[M, N] {\n    return s * (x @ w.T)\n}"
"""A product with a result of 8 bits."""

ROW_SUMS = (
    "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N], s: f32[N]) {\n"
    "    y = x @ w.T\n    return y, sum(y, axis=0)\n}"
)


ATTENTION = (
    "kernel f[B, S, T](q: bf16[B, S, 64], k: bf16[B, T, 64], v: bf16[B, T, 64]) -> bf16[B, S, 64] {\n"
    "    return attention(q, k, v)\n}"
)


def scheduled(*settings: str, kernel: str = GEMM, target: str = "sm_90a") -> str:
    """Build a program with the settings of a schedule."""
    lines = "\n".join(f"    {setting}" for setting in settings)
    return f"{kernel}\n\nschedule f for {target} {{\n{lines}\n}}"
