"""Attention to keys and values in pages, run on the host, and the programs that become that."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source


def _kernel(name: str, page: int, width: int, query: str, order: str, group: str = "") -> str:
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
    seen = iota({shape}, axis={axes}) < n[:, {index}]{own}
    return attention(q, {rows("k")}, {rows("v")}, mask=seen)
}}
"""


TURNED = "(0, 2, 1, 3)"
KERNELS = "".join(
    (
        _kernel("small", 16, 32, "B, 2, 3, 32", TURNED),
        _kernel("grouped", 64, 64, "B, 2, 4, 1, 64", TURNED, "[:, :, None]"),
        _kernel("wide", 128, 48, "B, 2, 2, 2, 48", TURNED, "[:, :, None]"),
        _kernel("prefill", 64, 64, "B, 2, 2, S, 64", TURNED, "[:, :, None]"),
        _kernel("many", 16, 96, "B, 2, 70, 96", TURNED),
    )
)


@pytest.fixture(scope="module", params=["sm_90a", "sm_80"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", KERNELS), Options(target=request.param))
    return Program.of(compilation, tmp_path_factory.mktemp("paged"))


@pytest.mark.parametrize("align", [1, 16], ids=["elements", "pieces"])
@pytest.mark.parametrize(
    ("name", "pages"),
    [*((n, p) for n in ("small", "grouped", "wide") for p in (1, 3, 9)), ("prefill", 3), ("many", 9)],
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
    assert "cutlass.map" not in text
    assert text.count("pages %") == 5


def test_pages_of_24_keys_are_copied() -> None:
    text = _kernel("odd", 24, 64, "B, 2, 1, 64", TURNED)
    found = compile_text(Source("k.mcu", text)).emit("cutlass")
    assert "cutlass.map" in found
    assert "pages %" not in found
