"""Multistage kernels: their rules, their shared memory, what is chosen, and when."""

from __future__ import annotations

import ctypes as ct
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rulelib import ACROSS, changed, check_explanation, with_rows

from mucc.build.artefact import Request, build
from mucc.build.toolchain import discover
from mucc.build.toolchain.flags import flags
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.diagnostics.codes import CODES
from mucc.files.package import INCLUDES
from mucc.kernels.gemm.scheduling import gemm_target, multistage
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule, operand_bytes
from mucc.kernels.gemm.scheduling.operand import Grouped, Operand
from mucc.kernels.violation import Violation
from mucc.measure.run import gpu_problem

SM90 = gemm_target("sm_90a")
CP_ASYNC = ("sm_80", "sm_89", "sm_120a")
"""The targets whose contractions are multistage kernels, but for skinny ones."""

GOOD = GemmConfig(Problem("bf16"), Schedule((128, 128, 64), (1, 1), "multistage"))


BY_TWO: Mapping[str, Any] = {"a": Operand(granule=2), "b": Operand(granule=2), "wide": False}
"""Fields of a problem whose operands have rows of any length, of elements of 16 bits."""


def broken(stages: int | None = None, **changes: object) -> list[Violation]:
    return SM90.violations(changed(GOOD, **changes), stages)  # type: ignore[arg-type]


CASES: list[tuple[str, str, str, dict[str, object]]] = [
    ("MU3021", "tile", "128x128x64", {"tile": (96, 128, 64)}),
    ("MU3021", "tile", "64x128x64", {"tile": (32, 128, 64), "a": ACROSS}),
    ("MU3021", "tile", "128x128x64", {"tile": (128, 128, 48)}),
    ("MU3021", "tile", "256x128x64", {"tile": (256, 256, 64)}),
    ("MU3021", "tile", "128x128x8", {"compute": "f32", "tile": (128, 128, 16)}),
    ("MU3025", "tile", "64x256x32", {"tile": (64, 256, 64), **BY_TWO}),
    ("MU3022", "cluster", "1x1", {"cluster": (2, 1)}),
    ("MU3023", "scheduler", "split_k(4)", {"scheduler": "stream_k", "splits": 4}),
    ("MU3024", "stages", "2", {"stages": 3, **BY_TWO}),
    ("MU3004", "stages", "7", {"stages": 8}),
    ("MU3012", "scheduler", "persistent(swizzle=2)", {"swizzle": 3}),
    ("MU3013", "scheduler", "split_k(132)", {"scheduler": "split_k", "splits": 1000}),
    ("MU3017", "stages", "2", {"stages": 1}),
    ("MU3017", "stages", "3", {"compute": "tf32", "tile": (64, 64, 32), "stages": 2}),
]


@pytest.mark.parametrize(("code", "setting", "fix", "changes"), CASES)
def test_each_rule(code: str, setting: str, fix: str, changes: dict[str, object]) -> None:
    (violation,) = broken(**changes)  # type: ignore[arg-type]
    assert (violation.code, violation.setting, violation.fix) == (code, setting, fix)
    assert violation.notes


@pytest.mark.parametrize("changes", [{"b": Operand(form=Grouped())}, {"rights": 2}, {"compute": "e4m3"}])
def test_what_it_does_not_multiply(changes: dict[str, object]) -> None:
    (violation,) = broken(**changes)  # type: ignore[arg-type]
    assert (violation.code, violation.setting, violation.fix) == ("MU3020", "mainloop", "cooperative")


def test_a_good_configuration_breaks_no_rule() -> None:
    assert broken() == []
    assert broken(stages=2) == []


@pytest.mark.parametrize("code", ["MU3011", "MU3021", "MU3022", "MU3023", "MU3024", "MU3025", "MU3101"])
def test_explanations_show_a_wrong_and_a_mended_schedule(code: str) -> None:
    (target,) = set(re.findall(r"schedule \w+ for (\w+)", CODES[code][1])) or {"sm_90a"}
    check_explanation(code, target)


@st.composite
def configs(draw: st.DrawFn) -> GemmConfig:
    """Configurations whose settings are mostly good by themselves."""
    compute = draw(st.sampled_from(multistage.COMPUTES))
    a, b = draw(st.sampled_from([(16, 16), (4, 16), (operand_bytes(compute), 4)]))
    problem = Problem(
        compute,
        Operand(draw(st.booleans()), a),
        Operand(draw(st.booleans()), b),
        Epilogue(4, destination_is_col_major=draw(st.booleans())),
    )
    schedule = Schedule(
        (
            draw(st.sampled_from((*multistage.SIDES, 96))),
            draw(st.sampled_from((*multistage.SIDES, 16))),
            draw(st.sampled_from((8, 16, 32, 64))),
        ),
        draw(st.sampled_from([(1, 1), (1, 1), (2, 1)])),
        "multistage",
        draw(st.sampled_from(["persistent", "split_k", "stream_k"])),
        splits=draw(st.sampled_from([1, 2, 999])),
    )
    return GemmConfig(problem, schedule)


@given(st.sampled_from(("sm_90a", *CP_ASYNC)), configs(), st.one_of(st.none(), st.integers(1, 12)))
def test_a_fix_mends_its_setting(name: str, config: GemmConfig, stages: int | None) -> None:
    target = gemm_target(name)
    for violation in target.violations(config, stages):
        assert violation.notes
        assert violation.fix, violation
        match violation.setting:
            case "tile":
                m, n, k = map(int, violation.fix.split("x"))
                mended, count = config.having(tile=(m, n, k)), stages
            case "cluster":
                mended, count = config.having(cluster=(1, 1)), stages
            case "stages":
                mended, count = config, None if violation.fix == "auto" else int(violation.fix)
            case _:
                assert violation.setting == "scheduler"
                continue
        assert violation not in target.violations(mended, count)


@given(st.sampled_from(("sm_90a", *CP_ASYNC)), configs())
def test_what_is_legal_fits(name: str, config: GemmConfig) -> None:
    target = gemm_target(name)
    if target.violations(config):
        return
    stages = target.max_stages(config)
    assert stages >= 2
    assert target.smem_bytes_used(config, stages) <= target.smem_bytes
    assert target.violations(config, stages) == []
    if not multistage.through_registers(config):
        assert target.smem_bytes_used(config, stages + 1) > target.smem_bytes


# Choice


def stages_of(text: str, dims: str = "M, N, K") -> dict[str, str | None]:
    """The stages of a program, with the mainloops of contractions."""
    stages = compile_text(Source("f.mcu", text.replace("DIMS", dims))).manifest["kernels"][0]["stages"]
    return {stage["name"]: stage.get("mainloop") for stage in stages}


BF16 = "kernel f[DIMS](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] WHERE { return x @ w.T }"


@pytest.mark.parametrize(
    ("dims", "where", "copies"),
    [
        ("M, N, K", "", ""),
        ("M, N, K=4096", "", ""),
        ("M, N, K=4095", "", "pad_a pad_b unpad"),
        ("M, N=4096, K=4095", "", "pad_a pad_b"),
        ("M, N=1001, K=2048", "", "unpad"),
        ("M, N=1001, K", "", "pad_a pad_b unpad"),
        ("M=1001, N, K", "", ""),
        ("M, N, K", "where K % 2 == 1, N % 8 == 0", "pad_a pad_b"),
        ("M, N, K", "where K % 16 == 4", "pad_a pad_b unpad"),
        ("M, N, K", "where K % 4 == 0", ""),
        ("M, N, K", "where K % 3 == 1", ""),
    ],
)
def test_rows_that_tma_cannot_copy_are_padded(dims: str, where: str, copies: str) -> None:
    found = stages_of(BF16.replace("WHERE", where), dims)
    assert found == {"out": "cooperative"} | {f"out.{name}": None for name in copies.split()}


@pytest.mark.parametrize("dims", ["M=64, N=64, K=63", "M=256, N=255, K=512", "M=64, N=4096, K=511"])
def test_small_operands_with_such_rows_take_another_mainloop(dims: str) -> None:
    assert stages_of(BF16.replace("WHERE", ""), dims) == {"out": "multistage"}


def test_formats_that_wgmma_lacks_take_another_mainloop() -> None:
    text = "kernel f[DIMS](x: f32[M, K], w: f32[N, K]) -> f32[M, N] { return matmul(x, w.T, compute=f32) }"
    assert stages_of(text) == {"out": "multistage"}


def test_parts_of_large_operands_are_multiplied_by_wgmma() -> None:
    def mainloop(**sizes: int) -> str:
        return SM90.default_schedule(Problem("tf32x3", b=ACROSS, **sizes)).mainloop

    assert mainloop() == mainloop(m=4096, n=4096, k=4096) == "cooperative"
    assert mainloop(m=64, n=64, k=256) == "multistage"


@pytest.mark.parametrize("compute", multistage.COMPUTES)
@pytest.mark.parametrize("rows", [(16, 16), (2, 2), (4, 8)])
def test_candidates_are_legal_and_cover_pinned_settings(compute: str, rows: tuple[int, int]) -> None:
    if operand_bytes(compute) > rows[0]:
        return
    problem = with_rows(Problem(compute, m=4096, n=4096, k=4096), *rows)
    found = list(SM90.candidates(problem, {"mainloop": "multistage"}))
    assert len(found) == len({c.schedule for c in found}) >= 4
    for candidate in found:
        assert candidate.schedule.mainloop == "multistage"
        assert not SM90.violations(candidate.config, candidate.schedule.stages)
        assert candidate.estimate.seconds == pytest.approx(sum(candidate.estimate.parts.values()))


# Targets


@pytest.mark.parametrize("name", CP_ASYNC)
@pytest.mark.parametrize("compute", multistage.COMPUTES)
@pytest.mark.parametrize("majors", [(True, True), (True, False), (False, False)])
def test_default_schedules(name: str, compute: str, majors: tuple[bool, bool]) -> None:
    target = gemm_target(name)
    chosen = target.default_schedule(Problem(compute, *map(Operand, majors), Epilogue(4, 4)))
    problem = Problem(compute, *map(Operand, majors), Epilogue(4, 4))
    assert chosen.mainloop == "multistage"
    assert target.violations(problem.config(chosen), chosen.stages) == []
    assert chosen.tile[0] * chosen.tile[1] >= 64 * 64


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a"])
def test_targets_with_tma_fall_back(name: str) -> None:
    target = gemm_target(name)
    for problem in (
        Problem("f32"),
        with_rows(Problem("bf16", m=64, n=64, k=64), 2, 2),
    ):
        chosen = target.default_schedule(problem)
        assert chosen.mainloop == "multistage"
        assert target.violations(problem.config(chosen), chosen.stages) == []
    assert target.default_schedule(Problem("bf16")).mainloop != "multistage"


@pytest.mark.parametrize("name", CP_ASYNC)
def test_tma_is_for_other_targets(name: str) -> None:
    (violation,) = gemm_target(name).violations(changed(GOOD, mainloop="cooperative", cluster=(2, 1)))
    assert (violation.code, violation.fix) == ("MU3011", "multistage")


def test_formats_that_tensor_cores_lack() -> None:
    config = changed(GOOD, compute="e4m3", mainloop="skinny")
    assert [v.code for v in gemm_target("sm_80").violations(config)] == ["MU3020"]
    assert "MU3020" not in [v.code for v in gemm_target("sm_89").violations(config)]
    (violation,) = gemm_target("sm_89").violations(config.having(mainloop="multistage"))
    assert (violation.code, violation.fix) == ("MU3020", None)


def test_code_for_later_gpus_is_kept_beside_machine_code() -> None:
    assert "-gencode=arch=compute_80,code=[sm_80,compute_80]" in flags("so", "sm_80")
    assert "-gencode=arch=compute_120a,code=sm_120a" in flags("so", "sm_120a")
    assert "-gencode=arch=compute_80,code=sm_80" in flags("cubin", "sm_80")


@pytest.mark.parametrize(
    ("target", "runs"),
    [("sm_80", True), ("sm_89", True), ("sm_90a", True), ("sm_120a", False), ("sm_100a", False)],
)
def test_code_without_an_a_runs_on_later_gpus(
    target: str, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = SimpleNamespace(is_available=lambda: True, get_device_capability=lambda: (9, 0))
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda="13.0"), cuda=cuda)
    )
    assert (gpu_problem(target) is None) is runs


# Builds

SMALL = """
kernel small[M, N=96, K=65](x: bf16[M, K], w: bf16[N, K], r: f32[M, N]) -> (y: bf16[M, N], s: f32[N]) {
    h = silu(x @ w.T) + r
    return h, sum(h, axis=0)
}
"""


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("name", CP_ASYNC)
def test_a_library_from_parts(name: str, tmp_path: Path) -> None:
    """One small kernel for each target, as `mucc` builds it; the shared memory is what was counted."""
    if not (discover.find_nvcc() and discover.find_cutlass() and discover.find_host()):
        pytest.skip("needs nvcc, CUTLASS and g++: pip install 'mucc[nvcc]'")
    library = build(Request(SMALL.encode(), "small.mcu", target=name, cached=False)).data
    path = tmp_path / "small.so"
    path.write_bytes(library)
    assert ct.CDLL(str(path)).mucc_small(None, 0, None, ct.c_size_t(0), None) != 0
    assert (FATBIN in library) == name[-1].isdigit()


SAME = """
template <int kFound, int kCounted>
struct Same {
  static_assert(kFound == kCounted);
  static constexpr bool kIs = true;
};
"""

FATBIN = bytes.fromhex("50ed55ba")
"""How a file of machine code and PTX begins."""

SIZES = [
    (GOOD, 3),
    (changed(GOOD, tile=(256, 128, 32), a=ACROSS, b=ACROSS), 2),
    (changed(GOOD, epilogue=Epilogue(2, destination_is_col_major=True)), 2),
    (changed(GOOD, tile=(64, 256, 32), **BY_TWO), 2),
    (changed(GOOD, compute="f32", tile=(128, 32, 8), a=ACROSS), 2),
    (changed(GOOD, compute="f32", tile=(32, 128, 8)), 2),
    (changed(GOOD, compute="tf32", tile=(128, 64, 32)), 4),
    (changed(GOOD, compute="tf32x3", tile=(128, 128, 16)), 3),
    (changed(GOOD, compute="f32", tile=(128, 128, 8)), 2),
    (changed(GOOD, compute="f32", tile=(128, 256, 8), b=ACROSS), 2),
    (changed(GOOD, compute="f32", tile=(64, 128, 8), b=ACROSS), 4),
]


def sample(count: int) -> list[tuple[GemmConfig, int]]:
    """Legal configurations with a stage count, the same ones every time."""
    rng = random.Random(7)
    found: list[tuple[GemmConfig, int]] = []
    while len(found) < count:
        compute = rng.choice(multistage.COMPUTES)
        size = operand_bytes(compute)
        m, n, k = (rng.choice(s) for s in (multistage.SIDES, multistage.SIDES, multistage.depths(compute)))
        a, b = rng.random() < 0.5, rng.random() < 0.5
        config = changed(
            GOOD,
            compute=compute,
            a=Operand(a),
            b=Operand(b),
            tile=(m, n, k),
            epilogue=Epilogue(size, destination_is_col_major=rng.random() < 0.2),
        )
        if size == 2 and rng.random() < 0.5:
            config = replace(config, problem=with_rows(config.problem, 2, 2))
        stages = rng.choice((2, 3, 4))
        if not SM90.violations(config, stages):
            found.append((config, stages))
    return found


@pytest.mark.nvcc
def test_what_is_legal_compiles_and_shared_memory_is_counted_exactly(tmp_path: Path) -> None:
    """Against `sizeof` of the C++ types, of which no code is made."""
    if not (discover.find_nvcc() and discover.find_cutlass()):
        pytest.skip("needs nvcc and CUTLASS: pip install 'mucc[nvcc]'")
    lines = ["#include <mucc/multistage.cuh>", SAME]
    for i, (config, stages) in enumerate([*SIZES, *sample(30)]):
        lines += _counted(f"k{i}", config, stages)
    command = [discover.find_toolchain().tools()["nvcc"], *flags("ptx", "sm_80"), "k.cu", "-o", "k.ptx"]
    includes = [*(f"-I{path}" for path in INCLUDES), f"-I{discover.find_toolchain().cutlass.path}"]
    (tmp_path / "k.cu").write_text("\n".join(lines) + "\n")
    done = subprocess.run([*command, *includes], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _counted(name: str, config: GemmConfig, stages: int) -> list[str]:
    """A kernel's types in a namespace, with an assertion about their size."""
    dtype = config.problem.compute if config.problem.compute in ("bf16", "f16") else "f32"
    # Exchanged, a row-major result lies along the kernel's columns, and the kernel's A is the program's B.
    columns = config.problem.epilogue.destination_is_col_major
    seen = (config.transposed if columns else config).problem
    x, a = ("M, K", "x") if seen.a.k_major else ("K, M", "x.T")
    w, b = ("N, K", "w.T") if seen.b.k_major else ("K, N", "w")
    where = (
        ""
        if min(config.problem.a.granule, config.problem.b.granule) == 2
        else "where M % 8 == 0, N % 8 == 0, K % 8 == 0"
    )
    program = compile_text(
        Source(
            "k.mcu",
            f"kernel k[M, N, K](x: {dtype}[{x}], w: {dtype}[{w}])\n"
            f"    -> {dtype}[M, N] {where}\n{{ return matmul({a}, {b}, compute={config.problem.compute}) }}\n"
            f"schedule k for sm_90a {{\n    tile = {'x'.join(map(str, config.schedule.tile))}\n"
            f"    mainloop = multistage\n    stages = {stages}\n"
            f"    exchange = {'on' if columns else 'off'}\n}}\n",
        )
    )
    (skeleton,) = program.parts().skeletons
    types = skeleton.device.split("namespace mucc_skeleton {")[1].split("}  // namespace mucc_skeleton")[0]
    used = gemm_target("sm_90a").smem_bytes_used(config, stages)
    assert ("kColumns = true" in types) is columns
    return [f"namespace {name} {{", types, f"static_assert(Same<Kernel::kShared, {used}>::kIs);", "}"]
