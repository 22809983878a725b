"""Emission: C++ names and literals, addresses as symbolic products, tables of the host side."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

from mucc.codegen.memory import ONE, ZERO, EmissionError, Memory, Places, Product
from mucc.codegen.names import KEYWORDS, Namer, float_literal, raw_string_literal
from mucc.compiler.driver import Options, compile_text
from mucc.compiler.emit import emit
from mucc.compiler.host import argument_alignments
from mucc.compiler.source import decode
from mucc.diagnostics import Source
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.dialect import Mu
from mucc.kernels.dialect import Cutlass
from mucc.kernels.map.packing import Move, check_move

LINEAR = """kernel linear[M, N, K=4096](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N]
    where M % 16 == 0
{
    return relu(x @ w.T + b)
}
"""


def parsed(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Mu, Cutlass):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def compiled(text: str, name: str = "k.mcu") -> tuple[ModuleOp, str]:
    """The lowered module and the `.cu` of a source text."""
    compilation = compile_text(Source(name, text), Options())
    return compilation.cutlass, compilation.emit("cu")


# Names and literals


@given(st.floats(width=32))
def test_a_literal_is_the_same_f32(value: float):
    text = float_literal(value)
    if math.isnan(value):
        assert text == "NAN"
    elif math.isinf(value):
        assert text == ("INFINITY" if value > 0 else "-INFINITY")
    else:
        assert text.endswith("f") and any(c in text for c in ".e"), (
            "a float literal, not an int with a suffix"
        )
        back = struct.unpack("f", struct.pack("f", float(text[:-1])))[0]
        assert struct.pack("f", back) == struct.pack("f", value)


def test_literals_are_short():
    assert [float_literal(v) for v in (0.5, 1.0, -3.0, 0.1, 1e300, 1e-8)] == [
        "0.5f",
        "1.0f",
        "-3.0f",
        "0.1f",
        "INFINITY",
        "1e-08f",
    ]


@given(st.lists(st.text(max_size=12), max_size=20))
def test_names_are_identifiers_and_differ(wanted: list[str]):
    namer = Namer()
    given_out = [namer(w) for w in wanted]
    assert len(set(given_out)) == len(given_out)
    for name in given_out:
        assert name.isidentifier() and name.isascii() and name not in KEYWORDS
        assert "__" not in name and not name.startswith("_"), "such names belong to the implementation"


@pytest.mark.parametrize(
    "name",
    ["EOF", "M_PI", "INT_MAX", "EINVAL", "stdin", "CUTE_HOST", "size_t", "float4", "half", "kWords"],
)
def test_names_of_headers_are_not_taken(name: str):
    namer = Namer()
    assert [namer(name), namer(name)] == [f"{name}_", f"{name}_3"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(Keys: f32[M, 8]) -> f32[M, 8] { return sort(Keys * 2) }", "Keys"),
        (
            "(q: bf16[2, M, 64], product: bf16[2, M, M]) -> bf16[2, M, 64] "
            "{ return attention(q, q, q, mask=product) }",
            "product",
        ),
        ("(Sum: f32[M, 8], x: f32[M, 8]) -> f32[M] { return sum(x + Sum, axis=1) }", "Sum"),
    ],
)
def test_types_of_kernels_are_not_taken(text: str, name: str):
    emitted = compile_text(Source("k.mcu", f"kernel f[M]{text}")).emit("cu")
    assert f"> {name}_;" in emitted and f"> {name};" not in emitted


def test_other_names_stay_as_they_are():
    names = ["x", "M", "HW", "BATCH", "weight", "q_rope", "out", "s0"]
    assert list(map(Namer(), names)) == names


def test_a_raw_string_ends_where_it_should():
    text = 'a )m" b'
    assert raw_string_literal(text, "m") == f'R"m_({text})m_"'


# Addresses


@given(st.lists(st.sampled_from([Product(2), Product(1, ("M",)), Product(3, ("N",))]), max_size=6))
def test_products_do_not_depend_on_order(factors: Sequence[Product]):
    forwards = backwards = ONE
    for factor in factors:
        forwards, backwards = forwards * factor, factor * backwards
    assert forwards == backwards
    assert (forwards * ZERO).is_zero
    assert eval(str(forwards), {"M": 5, "N": 7}) == math.prod(
        f.factor * math.prod({"M": 5, "N": 7}[n] for n in f.names) for f in factors
    )


def test_products_start_with_a_64_bit_name():
    assert str(Product(2, ("M",))) == "M * 2"
    assert (str(ONE), str(ZERO), str(Product(1, ("K",)))) == ("1", "0", "K")


# Whole files


def test_the_comment_quotes_the_source():
    _, text = compiled(LINEAR, "dir/linear.mcu")
    assert "// Made by `mucc dir/linear.mcu --emit=cu`" in text
    assert "//   dir/linear.mcu:4: return relu(x @ w.T + b)" in text


def test_bound_dims_are_numbers_and_free_ones_are_read_from_the_call():
    _, text = compiled(LINEAR)
    assert '{"K", 4096},' in text and '{"M", -1},' in text
    assert "p.a = {c.data(0), {4096, 1, 0}};" in text
    assert "int64_t const M = c.dims[0], N = c.dims[1];" in text


def test_promises_become_functions_of_the_dims():
    _, text = compiled(LINEAR)
    assert "bool holds0(int64_t const* d) { return d[0] % 16 == 0; }  // M % 16 == 0" in text
    assert '{"M % 16 == 0", holds0, "declared in where"},' in text


def test_emission_is_deterministic():
    assert compiled(LINEAR)[1] == compiled(LINEAR)[1]


def test_only_what_tma_copies_must_be_aligned_to_16_bytes():
    module, _ = compiled(LINEAR)
    program = next(iter(module.body.block.ops))
    assert argument_alignments(program) == (16, 16, 2, 16)  # type: ignore[arg-type]


def test_awkward_names_do_not_clash():
    _, text = compiled(
        "kernel log[c, m](double: f32[c, m], mucc: f32[m]) -> f32[c, m] { return double + mucc }"
    )
    assert "namespace mu::log::" in text
    assert "int64_t const c_ = c.dims[0], m = c.dims[1];" in text
    assert "static MUCC_DEVICE float apply(float double_, float mucc_)" in text
    assert 'mucc::tensor_in("double"' in text


def test_results_and_dims_may_be_called_as_what_the_host_side_defines():
    _, text = compiled(
        "kernel f[slot0, end](x: f32[slot0, 2*end]) "
        "-> (extent0: f32[2*end], holds0: f32[slot0], y: f32[slot0]) "
        "where slot0 % 2 == 0 {\n stage h = softmax(x, axis=1)\n"
        " return max(h, axis=0), cumsum(h, axis=1)[:, 0], h[:, 0] }"
    )
    assert "namespace mu::f::extent0 {" in text and "int64_t extent0_(int64_t const* d)" in text
    assert "namespace mu::f::holds0 {" in text and "bool holds0_(int64_t const* d)" in text
    assert 'derived("2*end", extent0_)' in text and 'holds0_, "declared in where"' in text
    assert "int64_t const slot0_ = c.dims[0], end_ = c.dims[1];" in text


def test_composites_that_are_left_are_decomposed():
    text = emit(
        parsed(
            """
cutlass.program @p(%x: !mu.tensor<[N], f32>, %y: !mu.tensor<[N], f32>) attributes {
    target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["N"]} {
  cutlass.map "y" space ["N"] {
    %0 = cutlass.load %x : !mu.tensor<[N], f32>
    %1 = cutlass.compute %0 {
    ^bb0(%2: f32):
      %3 = mu.silu %2 : (f32) -> f32
      cutlass.yield %3
    }
    cutlass.store %1, %y : !mu.tensor<[N], f32>
  }
}
"""
        ),
        {},
    )
    assert "float const v0 = mucc::sigmoid(x);\n    float const v1 = x * v0;" in text


def test_batch_axes_that_do_not_follow_each_other_are_refused():
    module = parsed(
        """
cutlass.program @p(%x: !mu.tensor<[A, B, M, K], bf16, strides(_, _, _, 1)>, %w: !mu.tensor<[K, N], bf16>,
                   %y: !mu.tensor<[A, B, M, N], bf16>) attributes {
    target = "sm_90a", arg_names = ["x", "w", "y"], num_inputs = 2 : i64, dims = ["A", "B", "M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], [A, B]> tile <128, 128, 64> cluster <1, 1>
      mainloop cooperative stages 4 scheduler <persistent>
      : !mu.tensor<[A, B, M, K], bf16, strides(_, _, _, 1)>, !mu.tensor<[K, N], bf16> {
    %acc = cutlass.acc_fetch
    cutlass.store_d %acc, %y : !mu.tensor<[A, B, M, N], bf16>
  }
}
"""
    )
    with pytest.raises(EmissionError, match=r"axes \['A', 'B'\] of x do not follow each other in memory"):
        emit(module, {})


def test_a_map_that_packs_refuses_rows_that_are_not_contiguous():
    text = "kernel f[M, N=3](x: bf16[M, N]) -> bf16[M, N] { return x }"
    (program,) = (op for op in compiled(text)[0].body.block.ops if isinstance(op, ProgramOp))
    memory = Places(program, {"M": "M", "N": "N"}).find(program.body.block.args[0])
    assert isinstance(memory, Memory)
    move = Move(memory, (Product(3), ONE), memory, (Product(8), Product(2)), (), ZERO)
    for turned, lines in ((False, [[0], [1]]), (True, [[0], []])):
        with pytest.raises(EmissionError, match="is not contiguous along"):
            check_move(move, turned, lines)
    check_move(move, False, [[0, 1], []])


def test_a_path_that_is_not_utf8():
    path = os.fsdecode(b"k\xff.mcu")
    source = decode(b"kernel f[M](x: f32[M]) -> f32[M] { return x + 1 }\n", path)
    assert "k\N{REPLACEMENT CHARACTER}.mcu" in compile_text(source).emit("cu").encode().decode()


@pytest.mark.parametrize(
    ("text", "has_promises"),
    [
        # Two numbers share a byte, and rows have an even number of them whatever N is.
        ("kernel f[M, N](x: s4[M, 2*N]) -> f32[M, 2*N] { return x + 1 }", False),
        ("kernel f[M, N](x: s4[M, N]) -> f32[M, N] { return x + 1 }", True),
        ("kernel f[N](x: f32[N]) -> f32[N] { return x + 1 }", False),
    ],
)
def test_a_kernel_names_the_table_of_promises_where_it_has_one(text: str, has_promises: bool):
    cpp = compiled(text)[1]
    assert ("mucc::Promise promises[]" in cpp) == has_promises
    assert ("mu::f::promises" in cpp) == has_promises
