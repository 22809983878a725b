"""Whether mucc with all extras can be installed beside PyTorch with CUDA, by an index's metadata alone."""

import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from distributions import ROOT, built

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
NEWEST = 4
"""Minor versions of torch, counted from the newest."""
PYTHONS = ("3.11", "3.14")
"""The oldest and the newest Python."""


def newest_torches() -> list[str]:
    """The newest minor versions of torch on pip's index, such as `2.15`; skips without an index."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch", "--retries", "0", "--timeout", "10"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the package index does not answer")
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    versions = listed[1].split(",") if listed else []
    minors = {tuple(int(part) for part in re.findall(r"\d+", version)[:2]) for version in versions}
    if len(minors) < NEWEST:  # files on this machine, at most
        pytest.skip("no package index can be reached")
    return [".".join(map(str, minor)) for minor in sorted(minors, reverse=True)[:NEWEST]]


def resolved(requirements: tuple[str, ...], python: str, wheels: Path) -> dict[str, str] | str:
    """The versions that uv would install of requirements in this order; its words where none fit."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--find-links", str(wheels), "--quiet"]
    command += ["--python-version", python, "--python-platform", "x86_64-manylinux_2_28"]
    command += ["--only-binary", ":all:", "--no-annotate", "--no-header"]
    text = "\n".join(requirements)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        return done.stderr
    pins = (line.partition("==") for line in done.stdout.splitlines())
    return {name: version for name, _, version in pins}


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_every_extra_resolves_beside_the_newest_torches_with_cuda(tmp_path: Path):
    pytest.importorskip("uv", reason="needs uv, which the extra dev brings")
    wheels = built("wheel", tmp_path).parent
    torches = newest_torches()
    everything, compiler = f"mucc[{','.join(EXTRAS)}]", "mucc[nvcc]"
    cases = [((everything, f"torch=={t}.*"), PYTHONS[i % 2], t) for i, t in enumerate(torches)]
    # Who names no version of torch gets the newest, in whatever order.
    cases += [((compiler, "torch"), PYTHONS[0], torches[0]), (("torch", compiler), PYTHONS[1], torches[0])]
    with ThreadPoolExecutor(len(cases)) as threads:
        found = list(threads.map(lambda case: resolved(case[0], case[1], wheels), cases))
    for (requirements, python, torch), pins in zip(cases, found, strict=True):
        where = f"{' '.join(requirements)} on Python {python}"
        assert isinstance(pins, dict), f"{where}: {pins}"
        assert minor(pins["torch"]) == torch, f"{where}: torch {pins['torch']} was taken"
        parts = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-nvrtc", "cuda-toolkit")
        releases = {part: minor(pins[part]) for part in (*parts, "nvidia-cuda-runtime")}
        assert len(set(releases.values())) == 1, f"{where}: {releases}"
