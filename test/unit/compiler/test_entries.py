"""Kernels with several schedules: which entries there are, and which computes a call, in Python and in C."""

from __future__ import annotations

import ctypes as ct
import itertools
import json
from pathlib import Path
from typing import Any, cast

import pytest
from builders import context
from hostlib import CUDA, DTYPES, Device, DType, FakeArray, Tensor
from hypothesis import given
from hypothesis import strategies as st
from on_host import Program, run
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.parser import Parser

import mucc
from mucc.cli.main import main
from mucc.compiler import entries
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.compiler.typical_dims import sizes_of
from mucc.diagnostics import DiagnosticError
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.attributes import RequirementAttr
from mucc.library.dims import Size, holds, parse_sizes
from mucc.library.entries import EntryInfo, Range, chosen, guards_text
from mucc.library.header import header_text
from mucc.library.signature import KernelInfo, Manifest

LINEAR = """
kernel linear[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {
    return relu(x @ w.T + b)
}
"""
BATCHED = """
kernel batched[B, S, N, D](x: bf16[B, S, D], w: bf16[B, N, D]) -> f32[B, S, N] {
    return x @ w.T
}
"""
MLP = """
kernel mlp[M, H](x: bf16[M, 64], w: bf16[H, 64], v: bf16[64, H]) -> bf16[M, 64] where H % 8 == 0 {
    h = relu(x @ w.T)
    return softmax(cast(h @ v.T, f32))
}
"""


def compiled(text: str, *dims: str) -> Compilation:
    return compile_text(Source("k.mcu", text), Options(sizes=sizes_of(dims)))


def info_of(compilation: Compilation, name: str) -> KernelInfo:
    return next(k for k in Manifest.parse(compilation.manifest).kernels if k.name == name)


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ([], [{}]),
        (["M=4", "N=8"], [{"M": 4, "N": 8}]),
        (["M=4", "M=8", "N=2"], [{"N": 2, "M": 4}, {"N": 2, "M": 8}]),
        (["M=4,N=1", "M=8,N=2"], [{"M": 4, "N": 1}, {"M": 8, "N": 2}]),
        (["M=3..40", "N=2"], [{"M": m, "N": 2} for m in (3, 4, 8, 16, 32, 40)]),
        (["M=5..5"], [{"M": 5}]),
        (["M=1..4,N=1..4"], [{"M": m, "N": n} for m in (1, 4) for n in (1, 4)]),
    ],
)
def test_words_are_sizes(words: list[str], sizes: list[dict[str, int]]) -> None:
    assert [dict(size.dims) for size in parse_sizes(words)] == sizes
    ranged = any(".." in word for word in words)
    assert all(size.is_sample == ranged for size in parse_sizes(words))


def test_a_size_that_is_named_is_no_sample() -> None:
    found = parse_sizes(["M=1..16", "M=4"])
    assert found == tuple(Size({"M": m}, m != 4) for m in (1, 2, 4, 8, 16))


@pytest.mark.parametrize(
    ("dims", "code", "message"),
    [
        (["M=9..8"], "MU6050", "the range 9..8 of M is empty"),
        (["M=1.."], "MU6050", "the range 1.. of M lacks an end"),
        (["M=..64"], "MU6050", "the range ..64 of M lacks an end"),
        ([f"M={m}" for m in range(1, 70)], "MU6089", "--dims names 65 sizes or more, and 64 is the most"),
        (["M=1,N=2", "M=2"], "MU6090", "not every --dims names N"),
        (["M=1", "M=2,Q=3"], "MU6090", "not every --dims names Q"),
        (["M=1,Q=3", "M=2,Q=3"], "MU6051", "no kernel has a dim 'Q'"),
    ],
)
def test_wrong_sizes(dims: list[str], code: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compiled(LINEAR, *dims)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (code, message)


def test_too_many_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_CELLS", 3)
    with pytest.raises(DiagnosticError, match="names 4 combinations of sizes or more, and 3 is the most"):
        compiled(BATCHED, "B=1,S=64", "B=64,S=4096", "N=4096,D=64")


@pytest.fixture(scope="module")
def linear() -> Compilation:
    return compiled(LINEAR, "M=1", "M=64", "M=4096", "N=4096,K=4096")


def test_each_size_has_the_schedule_that_it_alone_would_have(linear: Compilation) -> None:
    info = info_of(linear, "linear")
    programs = [p for p in linear.programs if p.kernel_name == "linear"]
    assert len(info.entries) == len(programs) == 3
    for m in (1, 64, 4096):
        dims = {"M": m, "N": 4096, "K": 4096}
        alone = compile_text(Source("k.mcu", LINEAR), Options(dims=dims))
        mine = programs[info.entry(dims)]
        assert [str(k) for k in mine.kernels] == [str(k) for k in alone.programs[0].kernels]
        assert dims in info.entries[info.entry(dims)].sizes


def test_guards_divide_the_sizes_and_the_ir_reads_back(linear: Compilation) -> None:
    *guarded, last = info_of(linear, "linear").entries
    assert last.guards == ()
    ranges = [r for e in guarded for ((r,),) in [e.guards]]
    assert [r.lower for r in ranges] == [1, *(r.upper + 1 for r in ranges[:-1] if r.upper)]
    assert 1 <= (ranges[0].upper or 0) < 64 <= (ranges[1].upper or 0) < 4096
    text = linear.emit("cutlass")
    module = cast(ModuleOp, Parser(context(), text).parse_op())
    module.verify()
    assert f"{module!s}\n" == text


def test_samples_that_break_a_promise_are_left_out() -> None:
    text = LINEAR.replace("-> bf16[M, N]", "-> bf16[M, N] where M % 8 == 0")
    made = compiled(text, "M=1..4096", "N=4096,K=4096")
    found = {s["M"] for e in info_of(made, "linear").entries for s in e.sizes}
    assert len(found) > 2 and found <= {2**n for n in range(3, 13)}
    with pytest.raises(DiagnosticError, match="MU6052"):
        compiled(text, "M=1..4", "N=4096,K=4096")


def test_equal_programs_are_one_entry_and_a_plain_kernel() -> None:
    made = compiled(LINEAR, "M=4000", "M=4096", "N=4096,K=4096")
    assert made.families == ()
    one = compile_text(Source("k.mcu", LINEAR), Options(dims={"M": 4096, "N": 4096, "K": 4096}))
    assert made.emit("cu") == one.emit("cu")


def test_a_range_has_few_entries_that_lose_little() -> None:
    made = compiled(LINEAR, "M=1..16384", "N=4096,K=4096")
    ((family),) = made.families
    assert 4 <= len(family.entries) <= 8
    assert len(parse_sizes(["M=1..16384"])) == 15


def test_lists_of_problems_keep_one_schedule() -> None:
    made = compiled(LINEAR.replace("kernel", "kernel each"), "M=1", "M=4096", "N=4096,K=4096")
    assert made.families == ()
    assert [d.code for d in made.sink.diagnostics] == ["MU6091"]


def test_explanations_and_schedules_name_the_calls(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.mcu"
    path.write_text(LINEAR)
    given = [str(path), "--dims", "M=1", "--dims", "M=4096", "--dims", "N=4096,K=4096"]
    assert main([*given, "--explain-schedule", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["extents"]["M"], second["extents"]["M"], second["calls"]) == (1, 4096, "else")
    assert first["calls"].startswith("M <= ")
    assert main([*given, "--explain-schedule"]) == 0
    assert f"linear for {first['calls']}, stage out:" in capsys.readouterr().out
    assert main([*given, "--emit=schedule"]) == 0
    schedule = capsys.readouterr().out
    assert schedule.startswith(f"// linear, {first['calls']}:\n// schedule linear for sm_90a {{")
    path.write_text(LINEAR + schedule)
    assert main(["check", str(path)]) == 0
    assert main(["check", *given]) == 0


def test_a_pinned_schedule_holds_for_all_sizes() -> None:
    pin = "schedule linear for sm_90a {\n    tile = 128x128x64\n    mainloop = cooperative\n}\n"
    made = compiled(LINEAR + pin, "M=1", "M=4096", "N=4096,K=4096")
    programs = [p for p in made.programs if p.kernel_name == "linear"]
    assert all("128x128x64" in made.emit("schedule") for _ in programs)
    assert made.emit("schedule").count("128x128x64") == len(programs)


# The choice

numbers = st.integers(1, 40)
boxes = st.lists(
    st.tuples(st.sampled_from("MN"), numbers, st.none() | numbers).map(lambda t: Range(*t)), max_size=2
).map(tuple)
conditions = st.sampled_from([(), (("N % 8 == 0", "rows"),), (("M <= 12", "grid"), ("N % 3 == 0", "x"))])
described = st.builds(EntryInfo, st.lists(boxes, max_size=2).map(tuple), conditions, st.just(()))


@given(st.lists(described, min_size=1, max_size=4), numbers, numbers)
def test_the_choice_takes_a_guard_then_what_fits(infos: list[EntryInfo], m: int, n: int) -> None:
    dims = {"M": m, "N": n}
    found = chosen(infos, dims)
    able = [i for i, e in enumerate(infos) if e.fits(dims)]
    guarded = [i for i in able if any(all(r.has(dims) for r in g) for g in infos[i].guards)]
    if guarded:
        assert found == guarded[0]
    elif able:
        assert found == (len(infos) - 1 if len(infos) - 1 in able else able[0])
    else:
        assert found == len(infos) - 1


def test_guards_as_text() -> None:
    guards = ((Range("M", 1, 32), Range("N", 64, None)), (Range("M", 33, 48),))
    assert guards_text(guards) == "M <= 32, N >= 64 or 33 <= M <= 48"
    assert guards_text(()) == "else"


# Libraries on the host


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    text = LINEAR + BATCHED + MLP
    sizes = [
        {"M": m, "N": 4096, "K": k, "D": 64, "B": b, "S": s, "H": 4096}
        for m, k, b, s in (
            (64, 4095, 1, 4096),
            (64, 4095, 64, 64),
            (4096, 4096, 1, 64),
            (4096, 4096, 64, 4096),
        )
    ]
    made = compile_text(Source("k.mcu", text), Options(sizes=tuple(map(Size, sizes))))
    # No entry of this kernel computes all calls.
    needs = [("D", 16), ("N", 16), ("N", 24)]
    for program, (dim, number) in zip(
        (p for p in made.programs if p.kernel_name == "batched"), needs, strict=False
    ):
        found = [RequirementAttr.of(dim, number, "of this test")]
        program.attributes["requirements"] = ArrayAttr([*(program.requirements or ()), *found])
    return Program.of(made, tmp_path_factory.mktemp("entries"))


def asked(program: Program, info: KernelInfo, dims: dict[str, int]) -> tuple[int, str]:
    """The entry that the C door names for a call, and the error of a call that it refuses."""
    given: list[Tensor] = []
    for arg in info.args:
        shape = arg.extents(dims)
        extents = (ct.c_int64 * len(shape))(*shape)
        given.append(
            Tensor(0x10000, Device(CUDA, 0), len(shape), DType(*DTYPES[arg.dtype], 1), extents, None, 0)
        )
    door: Any = getattr(program.library, f"mucc_{info.name}_entry")
    door.argtypes, door.restype = [ct.c_void_p, ct.c_int], ct.c_int
    found = door((Tensor * len(given))(*given), len(given))
    return found, program.library.mucc_last_error().decode() if found < 0 else ""


SIZES = {
    "linear": {"M": (1, 16, 100, 200, 4096, 70_000), "N": (8, 4096, 4100), "K": (8, 4096, 4097)},
    "batched": {
        "B": (1, 7, 8, 9, 64, 100),
        "S": (1, 16, 255, 256, 257, 4096),
        "N": (8, 16, 24),
        "D": (8, 16, 64),
    },
    "mlp": {"M": (1, 16, 100, 300, 5000), "H": (8, 64, 4096)},
}


@pytest.mark.parametrize("name", SIZES)
def test_the_library_chooses_as_the_manifest_says(program: Program, name: str) -> None:
    info = next(k for k in program.kernels if k.name == name)
    assert len(info.entries) > 1
    taken: set[int] = set()
    for values in itertools.product(*SIZES[name].values()):
        dims = dict(zip(SIZES[name], values, strict=True))
        entry, error = asked(program, info, dims)
        if all(holds(text, dims) for text, _ in info.promises) and info.entries[info.entry(dims)].fits(dims):
            assert entry == info.entry(dims), dims
            taken.add(entry)
        else:
            assert entry == -1
            assert error.startswith("MU6011"), error
    assert taken == set(range(len(info.entries)))


CALLS = [
    ("linear", {"M": 3, "N": 16, "K": 24}),
    ("linear", {"M": 300, "N": 8, "K": 8}),
    ("batched", {"B": 2, "S": 3, "N": 8, "D": 16}),
    ("batched", {"B": 1, "S": 300, "N": 16, "D": 8}),
    ("batched", {"B": 20, "S": 2, "N": 48, "D": 8}),
    ("mlp", {"M": 3, "H": 16}),
    ("mlp", {"M": 200, "H": 8}),
]


@pytest.mark.parametrize(("name", "dims"), CALLS, ids=str)
def test_all_entries_compute_the_kernel(program: Program, name: str, dims: dict[str, int]) -> None:
    info = next(k for k in program.kernels if k.name == name)
    run(program, info, dims, 1, within=0.0 if name != "mlp" else 1e-2)


def test_the_header_declares_the_choice(program: Program) -> None:
    text = header_text(program.compilation.manifest)
    info = next(k for k in program.kernels if k.name == "linear")
    assert "int mucc_linear_entry(const MuccTensor* args, int n);" in text
    assert f" *   0: {guards_text(info.entries[0].guards)}" in text


@pytest.mark.nvcc
@pytest.mark.long
def test_a_library_says_what_calls_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels for few rows, which need no CUTLASS, built and asked through tvm-ffi."""
    text = LINEAR.replace("relu(x @ w.T + b)", "x @ w.T + b")
    try:
        module = mucc.compile(text, dims=[{"M": m, "N": 4096, "K": 4096} for m in (1, 8)])
    except mucc.runtime.CompileError as error:
        pytest.skip(str(error))
    kernel = module.linear
    assert len(kernel.info.entries) == 2
    for m in (1, 4, 5, 100):
        x, w, b = FakeArray("bf16", [m, 64]), FakeArray("bf16", [32, 64]), FakeArray("bf16", [32])
        asked = kernel.entry(x, w, b, FakeArray("bf16", [m, 32]))
        assert asked == kernel.info.entry({"M": m, "N": 32, "K": 64})
    with pytest.raises(mucc.runtime.MuccValueError, match="MU6006"):
        kernel.entry(x, FakeArray("bf16", [32, 63]), b, FakeArray("bf16", [m, 32]))
    assert main(["explain", str(module.path)]) == 0
    shown = capsys.readouterr().out
    assert f"  {guards_text(kernel.info.entries[0].guards)}\n    out: gemm, tile = " in shown
    assert "\n  else\n" in shown


def test_a_library_is_explained_as_text_and_as_json(
    linear: Compilation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def manifest(path: Path) -> Manifest:
        return Manifest.parse(linear.manifest)

    monkeypatch.setattr("mucc.runtime.elf.read_manifest", manifest)
    assert main(["explain", "k.so"]) == 0
    text = capsys.readouterr().out
    assert main(["explain", "k.so", "--json"]) == 0
    (library,) = json.loads(capsys.readouterr().out)
    (kernel,) = library["kernels"]
    guards = [guards_text(e.guards) for e in info_of(linear, "linear").entries]
    assert library["library"] == "k.so" and [e["calls"] for e in kernel["entries"]] == guards
    assert [s["kind"] for e in kernel["entries"] for s in e["stages"]] == ["gemm"] * len(guards)
    assert text.startswith(f"{kernel['signature']}\n  {guards[0]}") and text.count("gemm") == len(guards)


def test_a_file_that_is_no_library_is_not_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.so").write_text("text")
    assert main(["explain", str(tmp_path / "k.so")]) != 0
    assert "error[MU603" in capsys.readouterr().err


def test_each_size_takes_what_was_measured_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tunelib import planned, record

    from mucc.database.store import Store

    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    sizes = [{"M": 64, "N": 256, "K": 512}, {"M": 4096, "N": 256, "K": 512}]
    (kernel,) = planned(LINEAR, sizes, budget=8).kernels
    alone = [compile_text(Source("k.mcu", LINEAR), Options(dims=s)).manifest for s in sizes]
    chosen = [m["kernels"][0]["stages"][0]["tile"] for m in alone]
    tiles = {
        tile: c
        for c in kernel.candidates
        for ((_, s),) in [c.choice.items()]
        if (tile := s["tile"]) not in chosen
    }
    wanted = dict(list(tiles.items())[:2])
    with Store() as store:
        store.merge([record(kernel, *pair, 5.0) for pair in zip(kernel.sizes, wanted.values(), strict=True)])
    made = compiled(LINEAR, *(",".join(f"{n}={v}" for n, v in s.items()) for s in sizes))
    found = made.manifest["kernels"][0].get("entries", [])
    assert [e["sizes"] for e in found] == [[s] for s in sizes]
    assert [e["stages"][0]["tile"] for e in found] == list(wanted)
