"""Attention to keys and values in pages, run on the host, and the programs that become that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from on_host import Program, run

from mucc.analysis.bound import Rates
from mucc.analysis.sol import analyse_stage
from mucc.cli.main import main
from mucc.compiler.driver import Options, compile_text
from mucc.compiler.launches import launches_of
from mucc.diagnostics.core import Source
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.attention.op import AttentionKernelOp
from mucc.kernels.attention.problem import schedule_of
from mucc.kernels.attention.workload import workload_of
from mucc.target import get_target

ATTENTION = "attention(q, {k}, {v}, mask={seen})"


def _kernel(
    name: str, page: int, width: int, query: str, order: str, group: str = "", result: str = ATTENTION
) -> str:
    def rows(pool: str) -> str:
        gathered = f"reshape(gather({pool}, table), (B, N*{page}, 2, {width}))"
        return f"permute({gathered}, {order}){group}"

    axes = query.count(",")
    index = ", ".join(["None"] * axes)
    open_rows = ", S" if " S, " in query else ""
    # Queries of a prefill have n keys before them.
    shape = f"(B, {'1, ' * (axes - 2)}{'S' if open_rows else '1'}, N*{page})"
    own = f" + iota({shape}, axis={axes - 1})" if open_rows else ""
    return f"""
kernel {name}[B, P, N{open_rows}](
    q: f16[{query}], k: f16[P, {page}, 2, {width}], v: f16[P, {page}, 2, {width}], table: s32[B, N], n: s32[B]
) -> f16[{query}] {{
    ends = 50 * n[:, {index}] + 60{own}
    seen = iota({shape}, axis={axes}) < ends
    far = iota({shape}, axis={axes}) - ends
    return {result.format(k=rows("k"), v=rows("v"), seen="seen", far="far")}
}}
"""


CAPPED = "softmax(where({seen}, tanh(q @ {k}.T * 0.125) * 8, -inf)) @ {v}"
SIGMOID = "where({seen}, sigmoid(q @ {k}.T * 0.25 - 1), 0) @ {v}"
WINDOW = (
    "cast(softmax(where({far} <= 0 and {far} > -40, "
    "tanh(q @ {k}.T * 0.125) * 8 + 0.125 * {far}, -inf)), f16) @ {v}"
)


TURNED = "(0, 2, 1, 3)"
KERNELS = "".join(
    (
        _kernel("small", 16, 32, "B, 2, 3, 32", TURNED),
        _kernel("grouped", 64, 64, "B, 2, 4, 1, 64", TURNED, "[:, :, None]"),
        _kernel("wide", 128, 48, "B, 2, 2, 2, 48", TURNED, "[:, :, None]"),
        _kernel("prefill", 64, 64, "B, 2, 2, S, 64", TURNED, "[:, :, None]"),
        _kernel("many", 16, 96, "B, 2, 70, 96", TURNED),
        _kernel("capped", 64, 64, "B, 2, 4, 1, 64", TURNED, "[:, :, None]", CAPPED),
        _kernel("window", 128, 48, "B, 2, 2, S, 48", TURNED, "[:, :, None]", WINDOW),
        _kernel("near", 128, 64, "B, 2, 4, 1, 64", TURNED, "[:, :, None]", WINDOW),
        _kernel("sigmoid", 16, 64, "B, 2, S, 64", TURNED, "", SIGMOID),
    )
)


@pytest.fixture(scope="module", params=["sm_90a", "sm_80"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", KERNELS), Options(target=request.param))
    return Program.of(compilation, tmp_path_factory.mktemp("paged"))


@pytest.mark.parametrize("align", [1, 16], ids=["elements", "pieces"])
@pytest.mark.parametrize(
    ("name", "pages"),
    [
        *((n, p) for n in ("small", "grouped", "wide", "capped") for p in (1, 3, 9)),
        *(("prefill", 3), ("many", 9), ("window", 3), ("near", 3), ("sigmoid", 9)),
    ],
    ids=str,
)
def test_pages_agree_with_the_interpreter(program: Program, name: str, pages: int, align: int) -> None:
    program.library.on_host_sm_count(13)
    info = next(k for k in program.kernels if k.name == name)
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    sizes = {"B": 2, "P": 5, "N": pages, "S": 100}
    run(program, info, {d: sizes[d] for d in info.dims}, seed=3, floats=floats, within=2**-9, align=align)


def test_nothing_is_copied() -> None:
    text = compile_text(Source("k.mcu", KERNELS)).emit("cutlass")
    assert "cutlass.map" not in text and "mu.gather" not in text
    assert text.count("pages %") == text.count("cutlass.attention ") == 9


ROWS = "permute(reshape(gather({pages}, {table}), (B, N*32, 2, 64)), (0, 2, 1, 3))"
BY_HEADS = "reshape(permute(gather({{pages}}, {{table}}), (0, {}, 4)), (B, 2, N*32, 64))"
CACHES = {
    "pages_of_both": ("P, 2, 32, 2, 64", ("c[:, 0]", "c[:, 1]"), ROWS),
    "keys_then_values": ("2, P, 32, 2, 64", ("c[0]", "c[1]"), ROWS),
    "heads_before_rows": ("P, 2, 32, 64", ("c", "c"), BY_HEADS.format("2, 1, 3")),
    "heads_of_both": ("P, 2, 2, 32, 64", ("c[:, 0]", "c[:, 1]"), BY_HEADS.format("2, 1, 3")),
    "halves_of_rows": ("P, 32, 2, 128", ("c[..., :64]", "c[..., 64:]"), ROWS),
    "permuted_first": ("P, 32, 2, 64", ("c", "c"), BY_HEADS.format("3, 1, 2")),
    "flat_table": ("P, 32, 2, 64", ("c", "c"), ROWS.replace("{table}", "reshape(table, (B*N,))")),
}


def _cache(name: str, where: str, queries: str) -> str:
    pool, parts, rows = CACHES[where]
    keys, values = (rows.format(pages=part, table="table") for part in parts)
    shape = f"f16[B, 2, {queries}, 64]"
    return f"""
kernel {name}[B, P, N{", S" * (queries == "S")}](q: {shape}, c: f16[{pool}], table: s32[B, N]) -> {shape} {{
    return softmax(tanh(q @ ({keys}).T * 0.125) * 8) @ {values}
}}
"""


PARTS = "".join(_cache(f"few_{w}", w, "3") + _cache(f"open_{w}", w, "S") for w in CACHES)


@pytest.fixture(scope="module", params=["sm_90a", "sm_80"])
def caches(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", PARTS), Options(target=request.param))
    return Program.of(compilation, tmp_path_factory.mktemp("caches"))


@pytest.mark.parametrize("queries", ["few", "open"])
@pytest.mark.parametrize("where", CACHES)
def test_pages_that_are_parts_of_caches_agree_with_the_interpreter(
    caches: Program, where: str, queries: str
) -> None:
    caches.library.on_host_sm_count(13)
    info = next(k for k in caches.kernels if k.name == f"{queries}_{where}")
    sizes = {"B": 2, "P": 5, "N": 3, "S": 70}
    for align in (1, 16):
        given = {d: sizes[d] for d in info.dims}
        run(caches, info, given, seed=3, floats=(-2.0, 0.5, 1.0), within=2**-9, align=align)


def test_pages_that_are_parts_of_caches_are_read_where_they_lie() -> None:
    text = compile_text(Source("k.mcu", PARTS)).emit("cutlass")
    assert "cutlass.map" not in text and text.count("pages %") == 2 * len(CACHES)


ALONE = """
kernel alone[P, N](q: f16[1, 1, 8, 64], c: f16[P, 64, 1, 64], table: s32[1, N]) -> f16[1, 1, 8, 64] {
    keys = permute(reshape(gather(c, table), (1, N*64, 1, 64)), (0, 2, 1, 3))
    return softmax(tanh(q @ keys.T) * 8) @ keys
}
kernel one_head[B, P, N](
    q: f16[B, 1, 2, 1, 64], k: f16[P, 64, 1, 64], v: f16[P, 64, 1, 64], table: s32[B, N]
) -> f16[B, 1, 2, 1, 64] {
    keys = permute(reshape(gather(k, table), (B, N*64, 1, 64)), (0, 2, 1, 3))[:, :, None]
    values = permute(reshape(gather(v, table), (B, N*64, 1, 64)), (0, 2, 1, 3))[:, :, None]
    return sigmoid(q @ keys.T * 0.125) @ values
}
"""


def test_one_head_and_one_sequence_agree_where_their_axes_are_dropped(tmp_path: Path) -> None:
    compilation = compile_text(Source("k.mcu", ALONE))
    assert compilation.emit("cutlass").count("pages %") == 2
    assert "*P B" not in compilation.emit("graph")
    rng = np.random.default_rng(1)
    pool = rng.normal(size=(9, 64, 1, 64)).astype(np.float16)
    given: list[Any] = [rng.normal(size=(1, 1, 8, 64)).astype(np.float16), pool, np.array([[7, 2]])]
    np.testing.assert_allclose(
        compilation.interpret_lowered("alone", given)[0], compilation.interpret("alone", given)[0], 0, 2**-8
    )
    given = [rng.normal(size=(3, 1, 2, 1, 64)).astype(np.float16), pool, pool, np.array([[7], [2], [7]])]
    np.testing.assert_allclose(
        compilation.interpret_lowered("one_head", given)[0],
        compilation.interpret("one_head", given)[0],
        2**-8,
        2**-4,
    )
    program = Program.of(compilation, tmp_path)
    for info, sizes in zip(program.kernels, ({"P": 9, "N": 2}, {"B": 3, "P": 9, "N": 2}), strict=True):
        run(program, info, sizes, seed=3, floats=(-1.0, 0.5, 2.0), within=2**-8)


TWO_TABLES = """
kernel two_tables[B, P, N](
    q: f16[B, 2, 4, 64], k: f16[P, 16, 2, 64], v: f16[P, 16, 2, 64], table: s32[B, N, 2]
) -> f16[B, 2, 4, 64] {
    keys = reshape(permute(gather(k, table), (0, 4, 1, 2, 3, 5)), (B, 2, N*32, 64))
    values = reshape(permute(gather(v, table), (0, 4, 1, 2, 3, 5)), (B, 2, N*32, 64))
    return attention(q, keys, values)
}
"""
OUTER = """
kernel outer[X, B, P, N](
    q: f16[X, B, 2, 4, 64], k: f16[P, 16, 2, 64], v: f16[P, 16, 2, 64], table: s32[B, N]
) -> f16[X, B, 2, 4, 64] {
    keys = permute(reshape(gather(k, table), (B, N*16, 2, 64)), (0, 2, 1, 3))
    values = permute(reshape(gather(v, table), (B, N*16, 2, 64)), (0, 2, 1, 3))
    return attention(q, keys, values)
}
"""


@pytest.mark.parametrize(
    "text",
    [
        _kernel("odd", 24, 64, "B, 2, 1, 64", TURNED),
        _cache("part", "halves_of_rows", "3").replace("128]", "136]").replace("64:", "68:132"),
        _cache("rows", "pages_of_both", "3")
        .replace("P, 2, 32", "P, 2, 64")
        .replace("[:, 0]", "[:, 0, :32]")
        .replace("[:, 1]", "[:, 1, 32:]"),
        _cache("apart", "heads_before_rows", "3")
        .replace("c: f16[P, 2, 32, 64]", "c: f16[P, 2, 32, 64], d: f16[P, 2, 2, 32, 64]")
        .replace("@ reshape(permute(gather(c,", "@ reshape(permute(gather(d[:, 0],"),
        _kernel("odd_capped", 24, 64, "B, 2, 1, 64", TURNED, "", CAPPED),
        TWO_TABLES,
        OUTER,
    ],
    ids=[
        "24 keys",
        "part of a row that begins anywhere",
        "part of a page",
        "keys and values with other strides",
        "24 keys of scores",
        "a table of pairs",
        "an axis before that of sequences",
    ],
)
def test_other_pages_are_copied(text: str) -> None:
    found = compile_text(Source("k.mcu", text)).emit("cutlass")
    assert "cutlass.map" in found
    assert "pages %" not in found


SUMS = """
kernel sums[B, P, N](
    q: f16[B, 2, 3, 64], k: f16[P, 16, 2, 64], v: f16[P, 16, 2, 64], table: s32[B, N], n: s32[B]
) -> (y: f16[B, 2, 3, 64], l: f32[B, 2, 3]) {
    keys = permute(reshape(gather(k, table), (B, N*16, 2, 64)), (0, 2, 1, 3))
    values = permute(reshape(gather(v, table), (B, N*16, 2, 64)), (0, 2, 1, 3))
    l = attention_logsumexp(q, keys, mask=iota((B, 1, 1, N*16), axis=3) < n[:, None, None, None])
    return attention(q, keys, values, mask=iota((B, 1, 1, N*16), axis=3) < n[:, None, None, None]), l
}
"""


def test_log_sum_exps_of_pages_are_in_the_kernel_of_attention(tmp_path: Path) -> None:
    compilation = compile_text(Source("k.mcu", SUMS))
    text = compilation.emit("cutlass")
    assert "cutlass.map" not in text and text.count("cutlass.score_sum") == text.count("pages %") == 1
    program = Program.of(compilation, tmp_path)
    run(program, program.kernels[0], {"B": 2, "P": 5, "N": 3}, seed=3, floats=(-1.0, 0.5, 2.0), within=2**-9)


SHARED = """
kernel shared[B, P, N](q: f16[B, 2, 8, 64], c: f16[P, 64, 2, 64], table: s32[B, N]) -> f16[B, 2, 8, 64] {
    keys = permute(reshape(gather(c, table), (B, N*64, 2, 64)), (0, 2, 1, 3))
    return softmax(tanh(q @ keys.T) * 8) @ keys
}
"""


def test_only_the_pages_of_sequences_count_as_traffic() -> None:
    sizes = {"B": 3, "P": 4000, "N": 5}
    compilation = compile_text(Source("k.mcu", SHARED), Options(dims=sizes))
    (program,) = compilation.programs
    target = get_target("sm_90a")
    rates = Rates(target.facts.devices[0], target.facts.multiprocessor)
    (launch,) = launches_of(compilation.stages, program, sizes, rates)
    rows, query, table = 2 * 3 * 2 * (5 * 64) * 64, 2 * 3 * 2 * 8 * 64, 4 * 3 * 5
    assert launch.bytes_read.at(sizes) == rows + query + table
    assert launch.bound is not None
    products = launch.bound.limit("tensor.f16")
    assert products is not None
    assert products.amount == 2 * 2 * 3 * 2 * 8 * (5 * 64) * 64
    (kernel,) = (op for op in compilation.stages.body.block.ops if isinstance(op, KernelOp))
    (stage,) = (op for op in kernel.body.block.ops if isinstance(op, StageOp))
    assert analyse_stage(stage, rates, sizes).bytes == rows + 2 * query + table
    (op,) = program.kernels
    assert isinstance(op, AttentionKernelOp)
    estimate = workload_of("sm_90a", op, sizes).estimate(schedule_of(op, "sm_90a"))
    # The model counts keys and values apart, and one reading of the queries and their results.
    assert estimate.bytes == 2 * rows + 2 * query


def test_parts_of_one_cache_count_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (path := tmp_path / "k.mcu").write_text(_cache("f", "pages_of_both", "3"))
    assert main([str(path), "--explain-fusion", "--dims", "B=64,P=4096,N=128"]) == 0
    rows = 2 * 64 * 2 * (128 * 32) * 64 * 2
    found = capsys.readouterr().out
    assert f"1 launch, {rows / 1e6:.0f} MB" in found and "saved: 3 launches, -" not in found


def test_explanations_name_the_pools(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (path := tmp_path / "k.mcu").write_text(SHARED)
    assert main([str(path), "--emit=graph"]) == 0
    assert "c\\nf16[P, 64, 2, 64]" in (found := capsys.readouterr().out)
    assert "workspace" not in found
    assert main([str(path), "--explain-fusion"]) == 0
    assert "*P" not in capsys.readouterr().out
