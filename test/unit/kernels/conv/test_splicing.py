"""Bodies that are spliced into kernels of convolutions, and kernels that no call takes."""

from __future__ import annotations

import re

import pytest
from convolutions import forced

from mucc.compiler.driver import Options, compile_text
from mucc.compiler.emit import Image
from mucc.diagnostics.core import Source
from mucc.kernels.conv import lower
from mucc.kernels.conv.op import Strategy

KERNEL = """\
kernel {name}{dims}(x: bf16[{n}, {h}, {w}, {c}], w: bf16[64, {k}, {k}, {c}], b: f32[64]) -> bf16[{to}] {{
    y = conv(permute({x}, (0, 3, 1, 2)), permute({weights}, (0, 3, 1, 2)){settings}) + b[:, None, None]
    return {value}
}}
"""


def layer(
    value: str = "permute(silu(y), (0, 2, 3, 1))",
    *,
    name: str = "f",
    dims: str = "",
    n: int | str = 256,
    h: int | str = 28,
    w: int = 28,
    c: int = 64,
    k: int = 3,
    to: str | None = None,
    x: str = "x",
    weights: str = "w",
    settings: str = ", pad=1",
) -> str:
    return KERNEL.format(
        value=value,
        name=name,
        dims=dims,
        n=n,
        h=h,
        w=w,
        c=c,
        k=k,
        to=to or f"{n}, {h}, {w}, 64",
        x=x,
        weights=weights,
        settings=settings,
    )


def image(text: str, target: str = "sm_90a") -> Image:
    """The image of a program's convolution, which is its last kernel."""
    return compile_text(Source("k.mcu", text), Options(target=target)).parts().images[-1]


def skeleton(text: str) -> str:
    found = image(text).divided
    assert found is not None
    return found.skeleton


def kernels(text: str) -> list[str]:
    """The names of kernels without the program's part of them."""
    return [name.removeprefix("mu_f_out_") for name in re.findall(r"(mu_f_out_\w+)\(", image(text).source)]


def test_bodies_are_spliced_into_all_kernels() -> None:
    found = image(layer())
    assert found.divided is not None and found.divided.straight
    assert "// mucc.body 0 1:" in found.divided.skeleton and "sigmoid" not in found.divided.skeleton
    assert "sigmoid" in found.divided.bodies
    assert found.kernels == tuple(f"mu_f_out_{name}" for name in kernels(layer()))


SAME = {
    "the function": layer("permute(tanh(y) * 3.0, (0, 2, 3, 1))"),
    "the kernel's name": layer(name="other"),
}


@pytest.mark.parametrize("what", SAME)
def test_kernels_do_not_depend_on(what: str) -> None:
    assert skeleton(SAME[what]) == skeleton(layer())


OTHER = {
    "the window": layer(k=5, settings=", pad=2"),
    "the channels": layer(c=128),
    "the order of results": layer("silu(y)", to="256, 64, 28, 28"),
}


@pytest.mark.parametrize("what", OTHER)
def test_kernels_depend_on(what: str) -> None:
    assert skeleton(OTHER[what]) != skeleton(layer())


@pytest.mark.parametrize(
    ("value", "to"),
    [
        pytest.param("max(silu(y), axis=1)", "256, 28, 28", id="channels reduced"),
        pytest.param("max_pool(silu(y), (2, 2))", "256, 64, 14, 14", id="pooled"),
    ],
)
def test_bodies_that_run_in_loops_over_channels_or_windows_stay(value: str, to: str) -> None:
    assert image(layer(value, to=to)).divided is None


# Kernels for other calls

COPYING = ["tiles", "tiles_copied", "tiles_vector"]
MAPPED = ["warpgroups", "warpgroups_vector"]

ALWAYS_MAPPED = {
    "extents that are known": layer(),
    "an open batch": layer(dims="[B]", n="B"),
    "a step of 8": layer(h=64, w=64, k=8, settings=", stride=8", to="256, 8, 8, 64"),
}


@pytest.mark.parametrize("what", ALWAYS_MAPPED)
def test_one_small_kernel_is_left_where_tma_takes_all_aligned_calls(what: str) -> None:
    assert kernels(ALWAYS_MAPPED[what]) == ["tiles", *MAPPED]


def test_products_with_channels_first_have_one_small_kernel_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (
        "kernel f(x: bf16[32, 512, 28, 28], w: bf16[128, 512, 1, 1]) -> bf16[32, 128, 28, 28] {\n"
        "    return silu(conv(x, w))\n}\n"
    )
    monkeypatch.setattr(lower, "choose", forced(Strategy.MATRICES))
    assert "launch_matrices(" in compile_text(Source("k.mcu", text), Options(target="sm_90a")).parts().program
    assert kernels(text) == ["tiles", *MAPPED]


SOMETIMES_MAPPED = {
    "an open height": layer(dims="[H]", h="H"),
    "a step of more than 8": layer(h=90, w=90, k=9, settings=", stride=9", to="256, 10, 10, 64"),
    "weights that are reversed": layer(weights="flip(w, axis=1)"),
    "padding beyond TMA's corners": layer(settings=", pad=128", to="256, 282, 282, 64"),
    "x of the caller's strides": layer().replace("64], w:", "64] strides(_, _, _, 1), w:", 1),
}


@pytest.mark.parametrize("what", SOMETIMES_MAPPED)
def test_kernels_that_copy_pieces_stay_for_calls_that_tma_may_not_take(what: str) -> None:
    assert kernels(SOMETIMES_MAPPED[what]) == [*COPYING, *MAPPED]
