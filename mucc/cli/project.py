"""The files of a new project, as `mucc new` writes them."""

from __future__ import annotations

from collections.abc import Mapping

_KERNEL = """\
// y = gelu(x wᵀ + b): a linear layer with its activation in one kernel.
kernel {name}[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N]
    where K % 8 == 0, N % 8 == 0
{{
    return gelu(x @ w.T + b)
}}
"""

_TEST = '''\
"""The kernel against the interpreter and, where there is a GPU, against PyTorch."""

import subprocess
import sys
from pathlib import Path

import mucc
import pytest

PROGRAM = Path(__file__).parents[1] / "kernels" / "{name}.mcu"


def test_the_program_has_no_errors():
    assert mucc.check(PROGRAM.read_text(), name=PROGRAM.name) == ()


@pytest.mark.parametrize("dims", ["M=16,N=32,K=64", "M=1,N=8,K=8", "M=37,N=72,K=136"])
def test_what_it_is_lowered_to_means_the_same(dims):
    command = [sys.executable, "-m", "mucc", "run", PROGRAM, "--dims", dims, "--device", "cpu", "--seed", "1"]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(("m", "n", "k"), [(512, 1024, 2048), (1, 128, 64), (333, 72, 1000)])
def test_the_kernel_agrees_with_pytorch(m, n, k):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    x, w, b = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (n, k), (n,)))
    y = mucc.compile(PROGRAM.read_text(), name=PROGRAM.name).{name}(x, w, b)
    expected = torch.nn.functional.gelu(x.double() @ w.double().T + b.double())
    torch.testing.assert_close(y.double(), expected, rtol=2e-2, atol=2e-2)
'''

_BENCHMARK = '''\
"""Measure the kernel beside torch.compile: python benchmarks/bench_{name}.py (needs a GPU and PyTorch)."""

from pathlib import Path

import mucc
import torch

PROGRAM = Path(__file__).parents[1] / "kernels" / "{name}.mcu"
SIZES = ((16, 4096, 4096), (512, 4096, 4096), (4096, 4096, 4096))


def microseconds(function, rounds=50):
    """Return the median time of a call on the GPU."""
    for _ in range(5):
        function()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return sorted(times)[rounds // 2]


@torch.compile
def rival(x, w, b):
    return torch.nn.functional.gelu(x @ w.T + b)


def main():
    if not torch.cuda.is_available():
        raise SystemExit("needs a GPU, and a PyTorch with CUDA")
    print(f"{{'M':>6}} {{'N':>6}} {{'K':>6}} {{'mucc us':>9}} {{'torch us':>9}} {{'ratio':>6}}")
    for m, n, k in SIZES:
        x, w, b = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (n, k), (n,)))
        module = mucc.compile(PROGRAM.read_text(), dims={{"M": m, "N": n, "K": k}})
        ours, theirs = microseconds(lambda: module.{name}(x, w, b)), microseconds(lambda: rival(x, w, b))
        print(f"{{m:>6}} {{n:>6}} {{k:>6}} {{ours:>9.1f}} {{theirs:>9.1f}} {{theirs / ours:>6.2f}}")


if __name__ == "__main__":
    main()
'''

_PROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["mucc"]

[project.optional-dependencies]
dev = ["pytest>=8"]
gpu = ["mucc[nvcc]", "torch"]

[tool.setuptools]
packages = []

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_CI = """\
name: CI
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install -e '.[dev]'
      - run: mucc fmt --check kernels/*.mcu
      - run: mucc check kernels/*.mcu
      - run: pytest  # what needs a GPU is skipped, with the reason
"""

_README = """\
# {name}

| command | what it does |
|---|---|
| `pip install -e '.[dev]'` | installs what tests need; `'.[gpu]'` also the CUDA compiler and PyTorch |
| `mucc check kernels/{name}.mcu` | reports errors and warnings |
| `pytest` | compares the kernel with the interpreter, and on a GPU with PyTorch |
| `mucc kernels/{name}.mcu -o {name}.so` | compiles the kernel |
| `mucc run kernels/{name}.mcu --dims M=512,N=4096,K=4096` | runs, checks and times it |
| `python benchmarks/bench_{name}.py` | measures it beside torch.compile |
"""

_IGNORED = """\
__pycache__/
*.egg-info/
.pytest_cache/
.venv/
*.so
"""


def files(name: str) -> Mapping[str, str]:
    """Return the texts of the files of a project with a kernel of this name, by their paths."""
    return {
        f"kernels/{name}.mcu": _KERNEL.format(name=name),
        f"tests/test_{name}.py": _TEST.format(name=name),
        f"benchmarks/bench_{name}.py": _BENCHMARK.format(name=name),
        "pyproject.toml": _PROJECT.format(name=name),
        ".github/workflows/ci.yml": _CI,
        "README.md": _README.format(name=name),
        ".gitignore": _IGNORED,
    }
