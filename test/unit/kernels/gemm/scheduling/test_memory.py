"""Shared memory of sm_90a kernels against what the compiler says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from rulelib import changed

from mucc.build.toolchain.assembly import host_flags
from mucc.build.toolchain.discover import find_toolchain
from mucc.compiler.program import compile_source
from mucc.compiler.source import decode
from mucc.diagnostics.core import DiagnosticError
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Operand, Sparse
from mucc.kernels.gemm.scheduling.sm90_memory import epilogue_storage

SM90 = gemm_target("sm_90a")


def gemm(
    compute: str,
    major: str,
    tile: str,
    cluster: str,
    mainloop: str,
    epilogue: Epilogue = Epilogue(),  # noqa: B008 (frozen)
    scheduler: str = "persistent",
) -> GemmConfig:
    """A configuration in short; `major` names the contiguous axes of A and B."""
    m, n, k = map(int, tile.split("x"))
    cluster_m, cluster_n = map(int, cluster.split("x"))
    problem = Problem(compute, Operand(major[0] == "k"), Operand(major[1] == "k"), epilogue)
    return GemmConfig(problem, Schedule((m, n, k), (cluster_m, cluster_n), mainloop, scheduler))


# Measured with CUTLASS 4.2.0 and g++ 13 on x86-64: the types that CollectiveBuilder makes (automatic
# epilogue tile, one visitor node per entry of the epilogue), in a host program that prints
#   MainloopWithStageCountAutoCarveout<sizeof(Epilogue::SharedStorage)>::DispatchPolicy::Stages,
#   sizeof(Epilogue::SharedStorage), sizeof(Kernel::SharedStorage) with that many stages, and with 3.
MEASURED = [
    (gemm("bf16", "kk", "128x256x64", "2x1", "cooperative"), 4, 17408, 214016, 164864),
    (
        gemm("bf16", "kk", "128x256x64", "2x1", "cooperative", Epilogue(row_broadcasts=(2,))),
        4,
        17408,
        214016,
        164864,
    ),
    (gemm("f16", "kn", "128x128x64", "1x1", "pingpong", Epilogue(source=2)), 6, 17408, 214016, 115712),
    (
        gemm("bf16", "mk", "64x64x64", "1x1", "warpspecialized", Epilogue(destination=4)),
        13,
        18432,
        214016,
        50176,
    ),
    (
        gemm(
            "bf16",
            "kk",
            "256x128x64",
            "2x1",
            "cooperative",
            Epilogue(source=2, row_broadcasts=(4,)),
            "stream_k",
        ),
        4,
        33792,
        230400,
        181248,
    ),
    (
        gemm("bf16", "kk", "128x128x64", "1x2", "cooperative", Epilogue(aux_loads=(2,))),
        5,
        49664,
        213504,
        147968,
    ),
    (
        gemm("bf16", "kk", "128x128x64", "1x1", "pingpong", Epilogue(aux_stores=(4,), row_broadcasts=(2,))),
        6,
        26624,
        223232,
        124928,
    ),
    (
        gemm(
            "bf16", "kk", "64x128x128", "1x1", "pingpong", Epilogue(destination=4, source=2, row_reductions=1)
        ),
        4,
        34816,
        231424,
        182272,
    ),
    (
        gemm(
            "f16", "kk", "128x192x64", "1x1", "cooperative", Epilogue(row_broadcasts=(4, 4), col_reductions=1)
        ),
        5,
        18432,
        223232,
        141312,
    ),
    (
        gemm("bf16", "kk", "128x64x64", "1x1", "warpspecialized", Epilogue(source=4, row_broadcasts=(2,))),
        7,
        43008,
        173056,
        74752,
    ),
    (
        gemm("tf32", "kk", "128x128x32", "2x1", "cooperative", Epilogue(destination=4, row_broadcasts=(4,))),
        6,
        34816,
        231424,
        133120,
    ),
    (
        gemm("tf32", "mk", "128x128x32", "2x1", "cooperative", Epilogue(destination=4)),
        6,
        34816,
        231424,
        133120,
    ),
    (
        gemm("tf32", "mn", "64x128x32", "1x1", "pingpong", Epilogue(destination=4, source=4)),
        8,
        34816,
        231424,
        108544,
    ),
    (gemm("tf32", "mk", "64x96x64", "1x1", "warpspecialized", Epilogue(source=2)), 5, 13312, 205824, 123904),
    (
        gemm("bf16", "kk", "128x24x48", "1x1", "cooperative", Epilogue(row_broadcasts=(2,))),
        15,
        6400,
        225536,
        50176,
    ),
    (gemm("bf16", "kn", "128x16x32", "1x1", "cooperative", Epilogue(destination=4)), 24, 9216, 230400, 36864),
    (
        gemm("bf16", "kk", "128x128x64", "1x1", "cooperative", Epilogue(destination_is_col_major=True)),
        6,
        18432,
        215040,
        116736,
    ),
    (
        gemm(
            "bf16",
            "kk",
            "64x256x64",
            "1x1",
            "pingpong",
            Epilogue(destination=4, source=4, aux_loads=(2, 4), row_broadcasts=(2, 4)),
        ),
        3,
        84992,
        207872,
        207872,
    ),
    (
        gemm(
            "bf16", "kk", "128x128x64", "1x1", "cooperative", Epilogue(destination=None, scalar_reductions=1)
        ),
        6,
        17408,
        214016,
        115712,
    ),
    (
        gemm(
            "bf16",
            "kk",
            "128x128x64",
            "1x1",
            "cooperative",
            Epilogue(destination=None, source=2, scalar_reductions=1),
        ),
        5,
        50176,
        214016,
        148480,
    ),
    (gemm("bf16", "kk", "64x8x16", "1x1", "warpspecialized"), 99, 1280, 229760, 7040),
    (gemm("bf16", "kk", "64x32x64", "1x1", "pingpong", Epilogue(source=2)), 18, 9216, 230400, 46080),
    (gemm("tf32", "kk", "128x64x48", "1x1", "cooperative", Epilogue(source=2)), 5, 25600, 209920, 136192),
]


@pytest.mark.parametrize(("config", "automatic", "epilogue", "kernel", "kernel3"), MEASURED)
def test_sizes_are_those_of_the_compiler(
    config: GemmConfig, automatic: int, epilogue: int, kernel: int, kernel3: int
) -> None:
    assert epilogue_storage(config).size == epilogue
    assert SM90.smem_bytes_used(config, automatic) == kernel
    assert SM90.smem_bytes_used(config, 3) == kernel3


@pytest.mark.parametrize(("config", "automatic"), [row[:2] for row in MEASURED])
def test_as_many_stages_as_cutlass_finds_and_no_more_than_fit(config: GemmConfig, automatic: int) -> None:
    stages = SM90.max_stages(config)
    assert stages >= automatic
    assert (
        stages == automatic or config.schedule.mainloop == "warpspecialized"
    )  # there CUTLASS carves out too much
    assert SM90.smem_bytes_used(config, stages) <= SM90.smem_bytes < SM90.smem_bytes_used(config, stages + 1)


SPARSE = [
    ("bf16", "128x256x128", "2x1", "cooperative", Epilogue(destination_is_col_major=True), 2, 186368),
    ("bf16", "128x128x128", "1x1", "pingpong", Epilogue(source=2, destination_is_col_major=True), 4, 223232),
    ("f16", "256x128x128", "1x2", "cooperative", Epilogue(4, destination_is_col_major=True), 2, 174080),
    ("e4m3", "64x64x256", "1x1", "warpspecialized", Epilogue(destination_is_col_major=True), 3, 80896),
    ("e4m3", "128x128x128", "1x1", "cooperative", Epilogue(destination_is_col_major=True), 8, 231424),
    ("s8", "128x128x256", "1x1", "cooperative", Epilogue(4, destination_is_col_major=True), 3, 194560),
    ("tf32", "128x128x64", "2x1", "pingpong", Epilogue(4, destination_is_col_major=True), 3, 172032),
]
"""sizeof(Kernel::SharedStorage) of kernels with a sparse A, by g++ from the host half of their skeletons."""


@pytest.mark.parametrize(("compute", "tile", "cluster", "mainloop", "epilogue", "stages", "kernel"), SPARSE)
def test_sizes_with_a_sparse_operand(
    compute: str, tile: str, cluster: str, mainloop: str, epilogue: Epilogue, stages: int, kernel: int
) -> None:
    plain = gemm(compute, "kk", tile, cluster, mainloop, epilogue)
    config = changed(plain, a=Operand(form=Sparse()))
    assert SM90.smem_bytes_used(config, stages) == kernel
    assert SM90.violations(config, stages) == []
    most = SM90.max_stages(config)
    assert SM90.smem_bytes_used(config, most) <= SM90.smem_bytes < SM90.smem_bytes_used(config, most + 1)


def test_padding_between_nodes_is_counted_for_the_worst_order() -> None:
    row_then_matrix = Epilogue(aux_loads=(2,), row_broadcasts=(2,))
    config = gemm("bf16", "kk", "128x128x64", "1x1", "cooperative", row_then_matrix)
    alone = gemm("bf16", "kk", "128x128x64", "1x1", "cooperative", Epilogue(aux_loads=(2,)))
    assert epilogue_storage(config).size - epilogue_storage(alone).size == 512  # 256 bytes, aligned to 512


def test_nothing_fits_beside_a_huge_epilogue() -> None:
    config = gemm("bf16", "kk", "128x256x64", "1x1", "cooperative", Epilogue(4, 2, (4,) * 8))
    assert SM90.max_stages(config) == 0


FULL = """\
kernel grouped[T, N, K, E=2](
    x: s8[T, K], w: s8[E, N, K], ends: s32[E], q: f32[N], k: f32[N], m: f16[T, N],
) -> f32[T, N] {
    return max(where(k > 0, grouped_matmul(x, w.T, ends) * q, 0.0), m)
}

schedule grouped for sm_90a {
    tile     = 128x256x128
    mainloop = cooperative
}

kernel each listed[M, N, K](
    x: bf16[M, K], w: bf16[N, K], a: f32[N], b: f32[N], r: f32[M], s: f32,
) -> f32[M, N] {
    return (x @ w.T * a + b) * r[:, None] * s
}

schedule listed for sm_90a {
    tile     = 128x256x64
    mainloop = cooperative
}
"""
"""Kernels whose stages leave no byte for more than the vectors along N, beside operands that need none."""


@pytest.mark.nvcc
def test_operands_that_threads_read_themselves_take_no_shared_memory(tmp_path: Path) -> None:
    try:
        toolchain = find_toolchain()
        paths = toolchain.tools()
    except DiagnosticError as error:
        pytest.skip(str(error))
    skeletons = compile_source(decode(FULL.encode(), "f.mcu"), "sm_90a").parts().skeletons
    assert len(skeletons) == 2
    texts = [s.host.replace("mucc_skeleton", f"skeleton_{i}") for i, s in enumerate(skeletons)]
    assert all(re.search(r"sizeof\(typename Kernel::SharedStorage\) <= 232448", text) for text in texts)
    source = tmp_path / "full.cpp"
    source.write_text("\n".join(texts))
    words = ("{cxx}", *host_flags(toolchain), "-include", "mucc_shim.h", "-fsyntax-only", str(source))
    command = [word.format(**paths) for word in words]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr[-3000:]
