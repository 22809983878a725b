"""Check that the parts of a CUDA toolkit are of one release.

The pip packages of a toolkit can be upgraded one by one: PyTorch pins the run-time library and NVRTC, so
upgrading PyTorch leaves nvcc at an older release. Mixed releases fail: ptxas rejects the PTX of a newer nvvm,
headers of CUDA reject another nvcc.
"""

from __future__ import annotations

import os
import re

from mucc.build.toolchain import discover
from mucc.build.toolchain.discover import Tool
from mucc.diagnostics.core import Diagnostic

PARTS = {"cuda_nvcc": "nvcc", "cuda_crt": "crt", "nvvm": "nvvm", "cuda_runtime": "cudart"}
"""The parts of one release by what their packages are called after `nvidia_`. NVRTC may differ (MU5207)."""

TOOLKIT = "cuda-toolkit[cccl,crt,cudart,nvcc,nvrtc,nvvm]"
"""The package that installs all parts of a release."""

_PACKAGE = re.compile(rf"nvidia_({'|'.join(PARTS)})(?:_cu\d+)?-(\d+\.\d+)[\d.]*\.dist-info")


def releases(nvcc: Tool) -> dict[str, str]:
    """Find the releases of the parts, such as `13.0`, from packages, a header and nvcc."""
    found: dict[str, set[str]] = {}
    root = discover.root(nvcc)
    if packages := _packages(root):
        for name in os.listdir(packages):
            if match := _PACKAGE.fullmatch(name):
                found.setdefault(PARTS[match[1]], set()).add(match[2])
    if runtime := _runtime_release(root):
        found["cudart"] = {runtime}
    if version := re.match(r"\d+\.\d+", discover.nvcc_version(nvcc.path)):
        found["nvcc"] = {version[0]}
    # Parts with packages of several versions are skipped.
    return {part: found[part].pop() for part in PARTS.values() if len(found.get(part, ())) == 1}


def _packages(root: str) -> str | None:
    """Return the site-packages directory of a toolkit from pip packages; None for other toolkits."""
    parent = os.path.dirname(root)
    return os.path.dirname(parent) if os.path.basename(parent) == "nvidia" else None


def _runtime_release(root: str) -> str | None:
    """Read the release of the run-time library from the headers of a toolkit."""
    path = os.path.join(root, "include", "cuda_runtime_api.h")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", file.read())
    except OSError:
        return None
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else None


def inconsistency(nvcc: Tool) -> Diagnostic | None:
    """Build MU5112 with a fix if the parts of a toolkit are of different releases; None otherwise."""
    found = releases(nvcc)
    if len(set(found.values())) <= 1:
        return None
    wanted = found.get("cudart", found.get("nvcc", ""))
    pip = _packages(discover.root(nvcc)) is not None
    return Diagnostic(
        "MU5112",
        f"the parts of the CUDA compiler are of different releases: {listed(found)}",
        notes=("PyTorch decides which cudart there is, and nvcc has to be of its release",) if pip else (),
        helps=(
            f"pip install '{TOOLKIT}=={wanted}.*'"
            if pip
            else "--nvcc and MUCC_NVCC take the path of a complete CUDA toolkit",
        ),
    )


def listed(found: dict[str, str]) -> str:
    """`nvcc 13.0, cudart 13.2`."""
    return ", ".join(f"{part} {release}" for part, release in found.items())
