"""Libraries built from parts: what is compiled, what comes from the cache, what a failing part leads to."""

from __future__ import annotations

import ctypes as ct
import re
from pathlib import Path
from typing import Any

import pytest

from mucc.build.artefact import Artefact, Request, build
from mucc.build.cache import Cache
from mucc.build.jobs import Job, Result
from mucc.build.toolchain import assembly, nvrtc_worker, reservation
from mucc.build.toolchain.discover import Toolchain, find_toolchain
from mucc.build.toolchain.splice import SpliceError
from mucc.codegen.kernel_code import ENTRY
from mucc.compiler.emit import Divided, Parts
from mucc.compiler.program import compile_source
from mucc.compiler.source import decode
from mucc.diagnostics.core import DiagnosticError
from mucc.files import package
from mucc.runtime.elf import read_manifest

LINEAR = """\
kernel {name}[M, N, K](x: bf16[M, K], w: bf16[N, K], {b}: bf16[N]) -> bf16[M, N] {{
    return {value}
}}
schedule {name} for sm_90a {{
    {settings}
}}
"""

POINTWISE = """\
kernel scale[M, N](x: bf16[M, N], s: f32) -> bf16[M, N] { return relu(x * s) }
kernel norm[M, N](x: f32[M, N]) -> f32[M, N] { return x / sum(x, axis=1)[:, None] }
"""


TILED = "tile = 128x64x64\n    scheduler = persistent(raster=along_m)"


def linear(value: str, name: str = "linear", b: str = "b", settings: str = TILED) -> str:
    return LINEAR.format(value=value.format(b=b), name=name, b=b, settings=settings)


def parts(text: str) -> Parts:
    return compile_source(decode(text.encode(), "k.mcu"), "sm_90a").parts()


def skeletons(text: str) -> list[str]:
    return [s.symbol for s in parts(text).skeletons]


# What makes a skeleton


SAME = {
    "another function": linear("silu(x @ w.T + {b})"),
    "other names": linear("gelu(x @ w.T + {b})", name="other", b="bias"),
    "another order": linear("gelu({b} + x @ w.T)"),
    "a longer body": linear("gelu((x @ w.T + {b}) * 2.0) - {b}"),
    "another raster": linear("gelu(x @ w.T + {b})", settings=TILED.replace("along_m", "along_n")),
}


@pytest.mark.parametrize("what", SAME)
def test_a_skeleton_does_not_depend_on(what: str) -> None:
    assert skeletons(SAME[what]) == skeletons(linear("gelu(x @ w.T + {b})"))


OTHER = {
    "the result's dtype": linear("gelu(x @ w.T + {b})")
    .replace("-> bf16[M, N] {\n    return ", "-> f32[M, N] {\n    return ")
    .replace("gelu(", "cast(gelu(")
    .replace("b)\n}", "b), f32)\n}"),
    "the tile": linear("gelu(x @ w.T + {b})").replace("128x64x64", "128x128x64"),
    "what is read": linear("gelu(x @ w.T)"),
    "the operands' dtype": linear("gelu(x @ w.T + {b})").replace("bf16", "f16"),
    "a layout": linear("gelu(x @ w + {b})").replace("w: bf16[N, K]", "w: bf16[K, N]"),
}


@pytest.mark.parametrize("what", OTHER)
def test_a_skeleton_depends_on(what: str) -> None:
    assert skeletons(OTHER[what]) != skeletons(linear("gelu(x @ w.T + {b})"))


def test_stages_share_a_skeleton_and_have_bodies_of_their_own() -> None:
    text = (
        "kernel two[M, N](x: bf16[M, N], w: bf16[N, N], b: bf16[N]) -> bf16[M, N] {\n"
        "    stage h = gelu(x @ w.T + b)\n    return tanh(h @ w.T + b)\n}\n"
        "schedule two.h for sm_90a { tile = 128x64x64 }\nschedule two.out for sm_90a { tile = 128x64x64 }\n"
    )
    made = parts(text)
    assert len(made.images) == 2 and len(made.skeletons) == 1
    assert "gelu_erf" in made.images[0].source and "tanh" in made.images[1].source
    assert made.images[0].entry != made.images[1].entry
    assert all(
        name not in made.skeletons[0].device + made.skeletons[0].host for name in ("two", " b;", "mu::")
    )


LAYERS = (
    "kernel mu[M, N](x: bf16[M, N], w1: bf16[N, N], w2: bf16[N, N]) -> bf16[M, N] {\n"
    "    return relu(relu(x @ w1.T) @ w2.T)\n}\n"
)


def test_equal_kernels_share_an_image() -> None:
    made = parts(LAYERS)
    (image,) = made.images
    assert image.title == "mu.s0"
    assert made.program.count("mucc::Image image{mucc_image_0};") == 1
    assert 'mucc::Code code{"mu_mu_s0", &::mu::mu_::s0::image};' in made.program
    other = parts(LAYERS.replace("return relu(relu", "return tanh(relu"))
    assert [image.entry for image in other.images] == ["mu_mu_s0", "mu_mu_out"]


@pytest.mark.parametrize("body", ["relu(x) + 1", "x.T", "sum(x, axis=1)"])
def test_equal_kernels_of_programs_share_an_image(body: str) -> None:
    result = "f32[M]" if "sum" in body else "bf16[N, M]" if ".T" in body else "bf16[M, N]"
    kernels = [
        f"kernel {name}[M, N](x: bf16[M, N]) -> {result} {{\n    return {body}\n}}\n"
        for name in ("f", "g", "h")
    ]
    kernels[2] = kernels[2].replace("bf16[M, N])", "f16[M, N])")
    made = parts("".join(kernels))
    assert [image.title for image in made.images] == ["f.out", "h.out"]
    assert made.program.count('"mu_f_out_') % 2 == 0 and "mu_g_out_" not in made.program


# What is divided without CUTLASS

ROWS = "kernel {name}[M, {n}](x: bf16[M, {n}]) -> bf16[M, {n}] {{\n    return {value}\n}}\n"


REDUCED = (
    "kernel reduced[{of}](x: bf16[M, {n}]) -> f32[M] {{\n    return sum(cast(gelu(x), f32), axis=1) * 2\n}}\n"
)


def rows(value: str, n: str = "N", name: str = "rows") -> str:
    text = ROWS.format(value=value, n=n, name=name)
    return text if n == "N" else text.replace(f"[M, {n}](", "[M](")


def divided(text: str) -> Divided:
    (image,) = parts(text).images
    assert image.divided is not None
    return image.divided


WHOLE = ("gelu(layer_norm(x))", "softmax(silu(x), axis=1)", "softmax(x, axis=0)", "cumsum(tanh(x), axis=1)")


@pytest.mark.parametrize("text", [*map(rows, WHOLE), REDUCED.format(n="N", of="M, N")])
def test_a_divided_source_is_that_in_one_piece(text: str) -> None:
    (image,) = parts(text).images
    assert image.divided is not None
    skeleton = image.divided.skeleton.replace(ENTRY, image.entry)
    marked = re.findall(
        r"struct (\w+) \{\n(?:(?!\n\};).)*mucc\.body (\d+) (?:(?!\n\};).)*\n\};", skeleton, re.S
    )
    assert marked and skeleton.count("mucc.body") == len(marked)
    bodies = dict(re.findall(r"^(struct (?:\w+) \{\n.*?\n\};)()", image.divided.bodies, re.S | re.M))
    for name, number in marked:
        (text,) = (body for body in bodies if body.startswith(f"struct {name} {{"))
        assert f"mucc_body_{number}()" in image.divided.bodies
        skeleton = re.sub(rf"struct {name} \{{\n.*?\n\}};", lambda _, text=text: text, skeleton, flags=re.S)
    assert skeleton == image.source


def test_a_skeleton_without_cutlass_serves_other_bodies_and_names() -> None:
    first = divided(rows("gelu(layer_norm(x))"))
    other = divided(rows("tanh(layer_norm(x)) * 3.0", name="other"))
    assert first.skeleton == other.skeleton and first.bodies != other.bodies
    assert "gelu" not in first.skeleton and "gelu" in first.bodies
    assert divided(rows("gelu(rms_norm(x))")).skeleton != first.skeleton


def test_arithmetic_of_phases_stays_in_the_skeleton() -> None:
    variance = divided(rows("gelu(layer_norm(x))"))
    assert variance.skeleton.count("mucc.body") == 1 and variance.bodies.count("__global__") == 1
    exponentials = divided(rows("softmax(x, axis=1)"))
    assert exponentials.skeleton.count("mucc.body") == 2 and exponentials.bodies.count("__global__") == 2


@pytest.mark.parametrize("text", [rows("gelu(layer_norm(x))", n="4096"), REDUCED.format(n="4096", of="M")])
def test_kernels_of_rows_of_one_length_are_compiled_in_one_piece(text: str) -> None:
    (image,) = parts(text).images
    assert image.divided is None and "gelu" in image.source


# Whose epilogue


EPILOGUES = {
    "bf16, 128 rows": ("bf16", "relu(x @ w.T + b)", "tile = 128x256x64", True),
    "a number": ("f16", "x @ w.T * s", "tile = 128x64x64\n mainloop = cooperative", True),
    "nothing": ("bf16", "x @ w.T", "tile = 128x128x64\n mainloop = cooperative", True),
    "warp-specialised": ("bf16", "relu(x @ w.T + b)", "mainloop = warpspecialized", True),
    "f32": ("f32", "relu(x @ w.T + b)", "", False),
    "256 rows": ("bf16", "relu(x @ w.T + b)", "tile = 256x128x64", True),
    "pingpong": ("bf16", "relu(x @ w.T + b)", "mainloop = pingpong", False),
    "a matrix": ("bf16", "relu(x @ w.T + r)", "tile = 128x128x64", False),
}


@pytest.mark.parametrize("what", EPILOGUES)
def test_which_epilogues_are_ours(what: str) -> None:
    dtype, value, setting, ours = EPILOGUES[what]
    text = (
        "kernel k[M, N, K](x: D[M, K], w: D[N, K], b: D[N], r: D[M, N], s: f32) -> D[M, N] {\n"
        f"    return {value}\n}}\nschedule k for sm_90a {{ {setting} }}\n"
    ).replace("D[", f"{dtype}[")
    (skeleton,) = parts(text).skeletons
    assert ("mucc::gemm::Epilogue<" in skeleton.device) is ours
    assert ("epilogue::collective::CollectiveBuilder" in skeleton.device) is not ours


# Building


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    try:
        find_toolchain()
    except DiagnosticError as error:
        pytest.skip(str(error))
    return Cache()


def made(text: str, **options: bool) -> Artefact:
    return build(Request(text.encode(), "k.mcu", **options))  # pyright: ignore[reportArgumentType]


def misses(cache: Cache) -> dict[str, int]:
    return {level: stats.misses for level, stats in cache.stats().levels.items()}


@pytest.mark.nvcc
def test_pointwise_kernels_need_no_nvcc(cache: Cache, tmp_path: Path) -> None:
    artefact = made(POINTWISE)
    path = tmp_path / "k.so"
    path.write_bytes(artefact.data)
    assert [k.name for k in read_manifest(path).kernels] == ["scale", "norm"]
    library = ct.CDLL(str(path))
    for door in ("mucc_scale", "mucc_norm_workspace", "__tvm_ffi_scale", "mucc_manifest", "mucc_on_launch"):
        assert getattr(library, door)
    assert library.mucc_scale(None, 0, None, ct.c_size_t(0), None) != 0
    library.mucc_last_error.restype = ct.c_char_p
    assert b"MU6001" in library.mucc_last_error()
    found = misses(cache)
    assert (found["device"], found["host"], found["objects"]) == (1, 0, 4)  # NVRTC's of the norm
    assert artefact.data.count(b".text.mu_scale_out_map_vector\0") >= 1


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            "mainloop = multistage tile = 64x64x32", id="multistage"
        ),  # compiles in a quarter of the other's time
        pytest.param(TILED, id="cooperative", marks=pytest.mark.long),
    ],
)
def test_a_new_body_compiles_no_skeleton(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, settings: str
) -> None:
    first = made(linear("gelu(x @ w.T + {b})", settings=settings))
    before = misses(cache)
    assert (before["device"], before["host"]) == (1, 1)
    second = made(linear("silu(x @ w.T + {b}) * 3.0", settings=settings))
    after = misses(cache)
    assert (after["device"], after["host"], after["objects"]) == (1, 1, before["objects"])
    assert first.data != second.data and not second.cached
    # Without NVRTC nvcc compiles the body, to the same code.
    monkeypatch.setattr(nvrtc_worker.shared, "why_unusable", lambda nvcc: "it is hidden")
    third = made(linear("silu(x @ w.T + {b}) * 3.0", settings=settings), cached=True)
    assert third.cached
    fourth = made(linear("silu(x @ w.T + {b}) * 4.0", settings=settings))
    assert [w.code for w in fourth.warnings] == ["MU5207"]
    monkeypatch.undo()


@pytest.mark.nvcc
def test_a_new_body_of_rows_of_any_length_compiles_no_skeleton(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(rows("gelu(layer_norm(x))"))
    assert misses(cache)["device"] == 1
    asked: list[str] = []
    compile_ptx = nvrtc_worker.shared.compile_ptx

    def noted(source: str, *given: Any, **options: Any) -> Any:
        asked.append(source)
        return compile_ptx(source, *given, **options)

    monkeypatch.setattr(nvrtc_worker.shared, "compile_ptx", noted)
    second = made(rows("silu(layer_norm(x)) * 3.0", name="other"))
    assert misses(cache)["device"] == 1 and not second.cached and first.data != second.data
    assert len(asked) == 1 and "rows_block" not in asked[0]
    assert b".text.mu_other_out_block\0" in second.data and b"mucc_entry" not in second.data

    def refuse(ptx: str) -> dict[int, object]:
        raise SpliceError("a body jumps through a table")

    # What cannot be spliced is compiled in one piece.
    monkeypatch.setattr(assembly, "read_bodies", refuse)
    third = made(rows("silu(layer_norm(x)) * 4.0", name="third"))
    assert b".text.mu_third_out_block\0" in third.data and not third.warnings
    assert ["rows_block" in source for source in asked] == [False, False, True]
    assert "4.0f" in asked[2]


OTHER_MACHINES = {
    "another host compiler": (0, ("13.0.88", "4.2.0", "13.3.0"), {}),
    "a header that is not included": (0, ("13.0.88", "4.2.0", "12.2.0"), {"sort.cuh": "// new"}),
    "another nvcc": (1, ("13.2.86", "4.2.0", "12.2.0"), {}),
    "a header that is included": (1, ("13.0.88", "4.2.0", "12.2.0"), {"gemm.cuh": "// new"}),
    "a header that such a header includes": (1, ("13.0.88", "4.2.0", "12.2.0"), {"visit.cuh": "// new"}),
}


@pytest.mark.parametrize("what", OTHER_MACHINES)
def test_device_code_of_a_skeleton_is_compiled_again_for(
    what: str, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, versions, headers = OTHER_MACHINES[what]
    (skeleton,) = parts(linear("gelu(x @ w.T + {b})")).skeletons
    stages: list[str] = []

    class Counting:
        def run(self, job: Job, **_: object) -> Result:
            stages.append(job.stage)
            return Result({job.outputs[0]: b"ptx"}, "", 0, 0.0, 0)

        def cached(self, *_: str) -> None:
            pass

    def compile_it() -> None:
        pool: Any = Counting()
        made = assembly.Assembly(find_toolchain(), "sm_90a", "k", pool, cache)
        made._device(skeleton)

    monkeypatch.setattr(Toolchain, "versions", lambda _: ("13.0.88", "4.2.0", "12.2.0"))
    compile_it()
    monkeypatch.setattr(Toolchain, "versions", lambda _: versions)
    path = package.header_path
    for name, text in headers.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(package, "header_path", lambda n: str(tmp_path / n) if n in headers else path(n))
    compile_it()
    assert stages == ["device code"] * (1 + again)


@pytest.mark.nvcc
def test_what_cannot_be_spliced_says_so(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ptx: str) -> dict[int, object]:
        raise SpliceError("a body jumps through a table")

    monkeypatch.setattr(assembly, "read_bodies", refuse)
    monkeypatch.setattr(assembly.Assembly, "_device", lambda self, skeleton: b"")
    monkeypatch.setattr(assembly.Assembly, "_host", lambda self, skeleton: b"")
    toolchain = find_toolchain()
    from mucc.build.pool import Pool

    with Pool() as pool, pytest.raises(assembly.Unspliceable, match=r"linear\.out: a body jumps"):
        assembly.Assembly(toolchain, "sm_90a", "k.mcu", pool, cache).build(parts(linear("x @ w.T + {b}")))


def test_room_is_filled_and_grows() -> None:
    room = {"mucc_manifest_text": 4096, "mucc_image_0": 256, "mucc_image_1": 256}
    text = reservation.reservation(room)
    assert text.count(".zero") == 3 and ".section .mucc_manifest" in text
    library = b"head" + b"".join(
        reservation._tag(name).ljust(size, b"\0") + b"|"  # pyright: ignore[reportPrivateUsage]
        for name, size in room.items()
    )
    contents = {"mucc_manifest_text": b"{}\0", "mucc_image_0": b"\x7fELF0", "mucc_image_1": bytes(range(256))}
    filled = reservation.filled(library, room, contents)
    assert len(filled) == len(library) and b"here goes" not in filled
    at = 4
    for name, size in room.items():
        assert filled[at : at + size] == contents[name].ljust(size, b"\0")
        at += size + 1


@pytest.mark.nvcc
def test_a_large_image_gets_the_room_it_needs(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(assembly, "IMAGE_ROOM", 512)
    path = tmp_path / "k.so"
    path.write_bytes(made(POINTWISE).data)
    assert [k.name for k in read_manifest(path).kernels] == ["scale", "norm"]
    assert path.read_bytes().count(b"here goes") == 0
