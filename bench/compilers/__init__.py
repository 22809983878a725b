"""Other compilers, each of which compiles the same fused linear layer, to compare their times with mucc's.

y = activation(x wT + b) in bf16 with sums in f32, tiles of 128x256x64 where the compiler lets one choose. The
activation makes a variant: a new one is a new epilogue for a GEMM that stays the same.

A compiler is a module with two functions, which import it when called:

* `compile_once(variant, cache_dir, **options)` compiles one variant and returns the seconds that it took;
  `cache_dir` is an empty folder in a process's first call, and the same one in later calls.
* `launch(variant, **options)` runs what was compiled on the tensors of `bench.compilers.problem`, returns y.

`python -m bench.compilers NAME CACHE_DIR` measures one of them in a process of its own; such processes are
started by `bench.compilers.times`.
"""

from __future__ import annotations

RIVALS: dict[str, tuple[str, dict[str, str]]] = {
    "triton": ("triton_gemm", {}),
    "cute_dsl": ("cute_dsl_gemm", {}),
    "torch_compile": ("torch_compile", {"mode": "default"}),
    "torch_compile_max_autotune": ("torch_compile", {"mode": "max-autotune-no-cudagraphs"}),
}
"""Module and options of each compiler, by name."""

DISTRIBUTIONS = ("torch", "triton", "nvidia-cutlass-dsl")
"""What the compilers come in."""
