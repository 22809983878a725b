"""Score functions that are spliced into the kernels, and which kernels there are."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from mucc.build.artefact import Request, build
from mucc.build.cache import Cache
from mucc.build.toolchain import nvrtc, nvrtc_worker
from mucc.build.toolchain.assembly import INCLUDES
from mucc.build.toolchain.discover import Toolchain, find_toolchain
from mucc.build.toolchain.flags import SPLIT
from mucc.build.toolchain.machine_code import cubins, resources, section
from mucc.build.toolchain.splice import read_bodies, splice
from mucc.codegen.kernel_code import ENTRY
from mucc.compiler.driver import Options, compile_text
from mucc.compiler.emit import Divided, Image, Parts
from mucc.diagnostics.core import DiagnosticError, Source

KERNEL = """\
kernel {name}[B, S, T](q: {t}[B, S, {n}], k: {t}[B, T, {n}], v: {t}[B, T, {n}]{more}) -> {t}[B, S, {n}] {{
    y = q @ permute(k, (0, 2, 1)) * {scale}
    return cast(softmax({value}, axis=-1), {t}) @ v
}}
"""


def attention(
    value: str = "tanh(y)",
    *,
    name: str = "f",
    t: str = "f16",
    n: int = 32,
    scale: float = 0.25,
    more: str = "",
) -> str:
    return KERNEL.format(value=value, name=name, t=t, n=n, scale=scale, more=more)


def parts(text: str, target: str = "sm_90a") -> Parts:
    return compile_text(Source("k.mcu", text), Options(target=target)).parts()


def split(text: str) -> Divided | None:
    (image,) = parts(text).images
    return image.divided


def kernels(text: str) -> str:
    found = split(text)
    assert found is not None
    return found.skeleton


# What is spliced

ALONE = ["tanh(y / 50) * 50", "silu(y)", "where(y > 0, y, y * 0.5)", "y + 1.5", "sin(y)", "-y"]


@pytest.mark.parametrize("value", ALONE)
def test_functions_of_the_product_alone_are_spliced(value: str) -> None:
    found = split(attention(value))
    assert found is not None
    assert found.skeleton.count("// mucc.body 0 1: %0, %1") == 2 and "mucc_entry_tiles(" in found.skeleton
    assert "mucc_body_0()" in found.bodies


WITH_MORE = {
    "a number": ("tanh(y / c) * c", ", c: f32"),
    "a bias": ("tanh(y) + b", ", b: f32[S, T]"),
    "an index": ("y * 2.0 + cast(iota((S, T), axis=1), f32)", ""),
}


@pytest.mark.parametrize("what", WITH_MORE)
def test_functions_of_more_than_the_product_are_compiled_with_the_kernels(what: str) -> None:
    value, more = WITH_MORE[what]
    assert split(attention(value, more=more)) is None


def test_functions_are_spliced_into_kernels_on_wgmma_only() -> None:
    for target, settings in (("sm_80", ""), ("sm_90a", "schedule f for sm_90a { mainloop = multistage }")):
        (image,) = parts(attention() + settings, target).images
        assert image.divided is None, target


def test_scores_that_are_products_have_no_function() -> None:
    assert split(attention("y")) is None


SAME = {
    "the function": attention("silu(y) * 3.0"),
    "the scale": attention(scale=0.5),
    "the kernel's name": attention(name="other"),
}


@pytest.mark.parametrize("what", SAME)
def test_kernels_do_not_depend_on(what: str) -> None:
    assert kernels(SAME[what]) == kernels(attention())
    # The host's code neither, so that it is not compiled again.
    if what != "the kernel's name":
        assert parts(SAME[what]).program == parts(attention()).program


OTHER = {
    "the dtype": attention(t="bf16"),
    "the width": attention(n=64),
    "what rows see": attention("where(iota((S, T), axis=1) <= iota((S, T), axis=0), tanh(y), -inf)"),
    "softmax": attention().replace("cast(softmax(tanh(y), axis=-1), f16)", "cast(tanh(y), f16)"),
}


@pytest.mark.parametrize("what", OTHER)
def test_kernels_depend_on(what: str) -> None:
    assert kernels(OTHER[what]) != kernels(attention())


def test_a_tensor_may_have_the_name_of_the_function() -> None:
    text = (
        "kernel f[B, S](q: e4m3[B, S, 64], k: e4m3[B, S, 64], v: e4m3[B, S, 64], Score: f32)\n"
        "    -> f32[B, S, 64] {\n"
        "    return cast(softmax(tanh(q @ permute(k, (0, 2, 1)))), e4m3) @ v * Score\n}\n"
    )
    (image,) = parts(text).images
    assert image.divided is not None and "float Score_;" in image.source


# Machine code


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    try:
        found = find_toolchain()
    except DiagnosticError as error:
        pytest.skip(str(error))
    if reason := nvrtc.why_unusable(found.versions()[0]):
        pytest.skip(reason)
    return found


@cache
def ptx(source: str, *, has_kernels: bool = True) -> str:
    """PTX as builds make it of a skeleton, which has the name of the source in it."""
    made = nvrtc.compile_ptx(
        source, target="sm_90a", include=INCLUDES, name="skeleton.cu", has_kernels=has_kernels
    )
    return made.ptx


def spliced(image: Image) -> str:
    assert image.divided is not None
    marked = ptx(image.divided.skeleton).replace(ENTRY, image.entry)
    return splice(marked, read_bodies(ptx(image.divided.bodies, has_kernels=False)))


def cubin(text: str, toolchain: Toolchain, folder: Path) -> bytes:
    (folder / "k.ptx").write_text(text)
    command = [toolchain.tools()["ptxas"], "-arch=sm_90a", SPLIT, "k.ptx", "-o", "k.cubin"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.cubin").read_bytes()


SILU = attention("silu(y) * 1.5")


@pytest.fixture(scope="module")
def together(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The kernels of SILU, spliced and assembled in one piece."""
    (image,) = parts(SILU).images
    return cubin(spliced(image), toolchain, tmp_path_factory.mktemp("together"))


@pytest.mark.nvcc
def test_machine_code_is_that_of_whole_kernels(toolchain: Toolchain, tmp_path: Path, together: bytes) -> None:
    (image,) = parts(SILU).images
    whole = cubin(ptx(image.source), toolchain, tmp_path)
    names = set(re.findall(r"mu_f_out_\w+(?=\()", image.source))
    assert len(names) == 4
    for name in names:
        code, other = (section(data, f".text.{name}") for data in (whole, together))
        assert code and other, name
        # Of kernels for few queries instructions may come in another order.
        assert len(code) == len(other) if "decode" in name else code == other, name
    assert sorted(map(repr, resources(together))) == sorted(map(repr, resources(whole)))


@pytest.mark.nvcc
def test_softplus_is_spliced(toolchain: Toolchain, tmp_path: Path) -> None:
    (image,) = parts(attention("softplus(y) + softplus(y, beta=2)", n=16)).images
    assert image.divided is not None
    assert not read_bodies(ptx(image.divided.bodies, has_kernels=False))[0].has_branches


# Building


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolchain: Toolchain) -> Cache:
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    return Cache()


def made(text: str) -> str:
    return build(Request(text.encode(), "k.mcu", kind="ptx")).data.decode()


@pytest.mark.nvcc
@pytest.mark.usefixtures("kept")
def test_a_new_function_compiles_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[bool] = []
    ask = nvrtc_worker.shared.compile_ptx

    def counting(*given: object, has_kernels: bool) -> nvrtc.Compiled:
        compiled.append(has_kernels)
        return ask(*given, has_kernels=has_kernels)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(nvrtc_worker.shared, "compile_ptx", counting)
    made(attention("silu(y) * 1.5"))
    assert sorted(compiled) == [False, True]
    compiled.clear()
    other = attention("tanh(y) * 2.5", scale=0.125, name="other")
    text = made(other)
    assert compiled == [False]
    (image,) = parts(other).images
    assert text == spliced(image) and "mucc.body" not in text and ENTRY not in text


@pytest.mark.nvcc
def test_functions_with_branches_are_compiled_with_the_kernels(
    kept: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = attention("sin(y)", n=16)
    (image,) = parts(text).images
    assert image.divided is not None
    assert read_bodies(ptx(image.divided.bodies, has_kernels=False))[0].has_branches
    ask = nvrtc_worker.shared.compile_ptx
    compiled: list[tuple[object, object]] = []

    def stand_in(*given: object, has_kernels: bool) -> nvrtc.Compiled:
        """Kernels of attention with a sine take five seconds, so that none are compiled."""
        if not has_kernels:
            return ask(*given, has_kernels=False)  # pyright: ignore[reportArgumentType]
        source, _, _, file, _ = given
        compiled.append((source, file))
        return nvrtc.Compiled("// whole", "")

    monkeypatch.setattr(nvrtc_worker.shared, "compile_ptx", stand_in)
    assert made(text) == "// whole"
    assert compiled == [(image.source, f"{image.title}.cu")]
    assert kept.stats().levels["device"].entries == 0


@pytest.mark.nvcc
@pytest.mark.usefixtures("kept")
def test_kernels_are_assembled_one_by_one_to_the_same_code(together: bytes) -> None:
    (image,) = parts(SILU).images
    alone = cubins(build(Request(SILU.encode(), "k.mcu")).data)
    names = [resources(data)[0].kernel for data in alone]
    assert names == list(image.symbols.values()) and len(names) == 4
    assert [len(resources(data)) for data in alone] == [1] * 4
    for name, data in zip(names, alone, strict=True):
        assert section(data, f".text.{name}") == section(together, f".text.{name}")
    assert {resources(data)[0] for data in alone} == set(resources(together))


# Which kernels there are

MANY = (
    "kernel f[B, S, T](q: {q}, k: {t}[B, T, 64], v: {t}[B, T, 64]) -> {r}[B, S, 64] {{\n    return {x}\n}}\n"
)


def forms(target: str = "sm_90a", *, q: str = "", t: str = "f16", x: str = "attention(q, k, v)") -> list[str]:
    """The kernels that launches choose from."""
    text = MANY.format(q=q or f"{t}[B, S, 64]", t=t, r="f32" if t == "e4m3" else t, x=x)
    return re.findall(r'\{"mu_f_out_(\w+)", &image\[\d\]\}', parts(text, target).program)


FEW = ["decode_elements", "decode_elements", "decode_tiles"]


def test_the_copy_engine_takes_what_can_be_read_in_pieces() -> None:
    assert forms() == ["elements", "elements", "tiles", *FEW]
    assert forms("sm_80") == ["elements", "pieces", "decode_elements", "decode_pieces"]


def test_elements_of_e4m3_are_read_one_by_one() -> None:
    assert forms("sm_80", t="e4m3")[:4] == ["elements", "elements", "decode_elements", "decode_elements"]
    assert forms(t="e4m3")[:6] == ["elements", "elements", "tiles", *FEW]


STRIDES = {"(_, 64, 1)": "pieces", "(64, _, 1)": "pieces", "(_, _, 1)": "pieces", "(8192, 64, 1)": "elements"}


@pytest.mark.parametrize("strides", STRIDES)
def test_strides_that_may_not_be_positive_keep_kernels_for_pieces(strides: str) -> None:
    assert forms(q=f"f16[B, S, 64] strides{strides}")[:3] == ["elements", STRIDES[strides], "tiles"]


def test_few_keys_of_f32_are_read_in_pieces() -> None:
    assert forms(t="f32")[:3] == ["elements", "pieces", "tiles"]
