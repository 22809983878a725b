"""Pasting bodies into skeletons: the text that comes out, and that it means the same."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Sequence

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_machine import HEADER, Machine, asm, entry, module

from mucc.build.toolchain.splice import SpliceError, read_bodies, splice


def skeleton(code: str, *, before: str = "", registers: str = ".reg .f32 \t%f<100>;") -> str:
    """A kernel with the names that NVVM gives, which are those of the bodies too."""
    return (
        f"{HEADER}{before}\n.visible .entry kernel(\n\t.param .u64 kernel_param_0\n)\n.maxntid 384, 1, 1\n"
        f"{{\n\t{registers}\n\n\n{code}\tret;\n\n}}\n"
    )


def statements(ptx: str) -> str:
    """What is between the braces of a skeleton's kernel."""
    return ptx[ptx.index("{", ptx.index(".entry")) + 1 : ptx.rindex("}")]


ADD = entry(
    0, asm("// mucc.in %f1, %f2") + "\tadd.f32 \t%f3, %f1, %f2;\n" + asm("// mucc.out %f3") + "\tret;\n"
)


def paste(body: str, marker: str) -> str:
    """The code of a kernel that uses body 0 once, without its declarations."""
    spliced = splice(skeleton(asm(marker)), read_bodies(module(body)))
    return statements(spliced).partition("\n\n\n")[2].removesuffix("\tret;\n\n")


def test_operands_take_the_place_of_registers():
    assert paste(ADD, "// mucc.body 0 1: %f9, %f4, %f5") == (
        "{\n.reg .f32 %mu_f<32>;\nadd.f32 %f9, %f4, %f5;\n}\n"
    )


def test_an_immediate_goes_through_a_register():
    assert "mov.f32 %mu_f2, 0f3F800000;\nadd.f32 %f9, %f4, %mu_f2;" in paste(
        ADD, "// mucc.body 0 1: %f9, %f4, 0f3F800000"
    )


def test_an_output_that_is_an_input_is_read_before_it_is_written():
    body = entry(
        0,
        asm("// mucc.in %f1, %f2")
        + "\tadd.f32 %f3, %f1, %f2;\n\tsub.f32 %f4, %f1, %f3;\n"
        + asm("// mucc.out %f3, %f4")
        + "\tret;\n",
    )
    assert "mov.f32 %mu_f1, %f9;\nadd.f32 %f9, %mu_f1, %f5;\nsub.f32 %f8, %mu_f1, %f9;" in paste(
        body, "// mucc.body 0 2: %f9, %f8, %f9, %f5"
    )


def test_inputs_that_leave_again_change_places():
    body = entry(0, asm("// mucc.in %f1, %f2") + asm("// mucc.out %f2, %f1") + "\tret;\n")
    assert paste(body, "// mucc.body 0 2: %f4, %f5, %f4, %f5").count("mov.f32") == 4


def test_an_input_that_the_body_writes_to_is_copied():
    body = entry(
        0, asm("// mucc.in %f1") + "\tadd.f32 %f1, %f1, %f1;\n" + asm("// mucc.out %f1") + "\tret;\n"
    )
    assert "mov.f32 %mu_f1, %f4;\nadd.f32 %mu_f1, %mu_f1, %mu_f1;\nmov.f32 %f9, %mu_f1;" in paste(
        body, "// mucc.body 0 1: %f9, %f4"
    )


@pytest.mark.parametrize("write", ["mov.b64 {%f3, %f1}, %rd1;", "setp.lt.f32 %p1|%f1, %f3, %f3;"])
def test_writes_to_several_registers_are_seen(write: str):
    body = entry(0, asm("// mucc.in %f1") + f"\t{write}\n" + asm("// mucc.out %f3") + "\tret;\n")
    assert "mov.f32 %mu_f1, %f4;" in paste(body, "// mucc.body 0 1: %f9, %f4")


def test_a_body_without_inputs():
    body = entry(0, asm("// mucc.in ") + "\tmov.f32 %f1, 0f40000000;\n" + asm("// mucc.out %f1") + "\tret;\n")
    assert "mov.f32 %f9, 0f40000000;" in paste(body, "// mucc.body 0 1: %f9")


def test_results_that_leave_on_several_paths():
    body = entry(
        0,
        asm("// mucc.in %f1")
        + "\tsetp.lt.f32 %p1, %f1, 0f00000000;\n\t@%p1 bra $L__BB0_2;\n\tneg.f32 %f2, %f1;\n"
        + asm("// mucc.out %f2")
        + "\tbra.uni $L__BB0_3;\n\n$L__BB0_2:\n\tabs.f32 %f3, %f1;\n"
        + asm("// mucc.out %f3")
        + "\tret;\n$L__BB0_3:\n\tret;\n",
        ".reg .f32 %f<4>; .reg .pred %p<2>;",
    )
    text = paste(body, "// mucc.body 0 1: %f9, %f4")
    assert text.count("mov.f32 %f9, %mu_f") == 2
    assert "mov.f32 %f9, %mu_f3;\nbra.uni $mu_end;\n$mu_L__BB0_3:\n$mu_end:\n}" in text


def test_results_that_leave_in_another_order_on_another_path():
    body = entry(
        0,
        asm("// mucc.in %f1")
        + "\tneg.f32 %f2, %f1;\n\tabs.f32 %f3, %f1;\n\tsetp.lt.f32 %p1, %f1, %f2;\n\t@%p1 bra $L__BB0_2;\n"
        + asm("// mucc.out %f2, %f3")
        + "\tret;\n$L__BB0_2:\n"
        + asm("// mucc.out %f3, %f2")
        + "\tret;\n",
        ".reg .f32 %f<4>; .reg .pred %p<2>;",
    )
    text = paste(body, "// mucc.body 0 2: %f9, %f8, %f4")
    assert "mov.f32 %f9, %mu_f2;\nmov.f32 %f8, %mu_f3;\nbra.uni $mu_end;" in text
    assert "mov.f32 %f9, %mu_f3;\nmov.f32 %f8, %mu_f2;\n$mu_end:" in text


@pytest.mark.parametrize(
    "after",
    [
        "\tneg.f32 %f2, %f2;\n\tret;\n",
        "\t@%p1 bra $X;\n\tneg.f32 %f2, %f2;\n$X:\n\tret;\n",
        "\tbra.uni $X;\n$X:\n\tneg.f32 %f2, %f2;\n\tret;\n\t{\n$X:\n\tret;\n\t}\n\tret;\n",
    ],
)
def test_a_result_is_what_the_register_held_when_it_left(after: str):
    body = entry(
        0,
        asm("// mucc.in %f1") + "\tneg.f32 %f2, %f1;\n" + asm("// mucc.out %f2") + after,
        ".reg .f32 %f<4>; .reg .pred %p<2>;",
    )
    assert "neg.f32 %mu_f2, %f4;\nmov.f32 %f9, %mu_f2;\n" in paste(body, "// mucc.body 0 1: %f9, %f4")


def test_a_return_under_a_predicate():
    body = entry(
        0,
        asm("// mucc.in %f1")
        + "\tsetp.lt.f32 %p1, %f1, 0f00000000;\n"
        + asm("// mucc.out %f1")
        + "\t@!%p1 ret;\n\tret;\n",
        ".reg .f32 %f<4>; .reg .pred %p<2>;",
    )
    assert "@!%mu_p1 bra $mu_end;\n$mu_end:\n}" in paste(body, "// mucc.body 0 1: %f9, %f4")


SINE = entry(
    1,
    "\tmov.u64 \t%SPL, __local_depot0;\n\tadd.u64 %rd1, %SPL, 0;\n"
    + asm("// mucc.in %f1")
    + "\tmov.u64 %rd2, __cudart_i2opi_f;\n\tld.global.nc.f32 %f2, [%rd2];\n\tst.local.f32 [%rd1+4], %f1;\n"
    + asm("// mucc.out %f2")
    + "\tret;\n",
    ".local .align 4 .b8 \t__local_depot0[28];\n\t.reg .b64 \t%SP;\n\t.reg .b64 \t%SPL;\n"
    "\t.reg .f32 %f<3>;\n\t.reg .b64 %rd<3>;",
)
TABLE = ".global .align 4 .b8 __cudart_i2opi_f[8] = {65, 144, 67, 60, 153, 149, 98, 219};\n"
OTHER = ".const .align 4 .f32 unused = 0f3F800000;\n"


def test_what_must_not_be_repeated_is_hoisted():
    two = asm("// mucc.body 1 1: %f9, %f4") + asm("// mucc.body 1 1: %f8, %f9")
    second = f"\n.visible .entry other()\n{{\n\t.reg .f32 %f<10>;\n\n\n{two}\tret;\n\n}}\n"
    bodies = read_bodies(module(SINE, before=TABLE + OTHER))
    spliced = splice(skeleton(two) + second, bodies)
    assert spliced.count(TABLE) == 1 and "unused" not in spliced
    assert spliced.count(".local .align 4 .b8 __mucc_depot1_0[28];") == 2
    first = statements(spliced)
    assert first.index("__mucc_depot1_0[28]") < first.index(".reg .f32 \t%f<100>")
    assert spliced.count("mov.u64 %mu_SPL, __mucc_depot1_0;") == 4


def test_a_table_that_the_skeleton_has_is_shared():
    bodies = read_bodies(module(SINE, before=TABLE))
    assert splice(skeleton(asm("// mucc.body 1 1: %f9, %f4"), before=TABLE), bodies).count(TABLE) == 1
    with pytest.raises(SpliceError, match="differ in what '__cudart_i2opi_f' is"):
        splice(skeleton(asm("// mucc.body 1 1: %f9, %f4"), before=TABLE.replace("65", "66")), bodies)


def test_functions_come_with_what_they_use():
    helper = (
        ".func (.param .b32 func_retval0) helper(\n\t.param .b32 helper_param_0\n)\n;\n"
        ".func (.param .b32 func_retval0) helper(\n\t.param .b32 helper_param_0\n)\n{\n"
        "\t.reg .f32 %f<2>;\n\tld.const.f32 %f1, [unused];\n"
        "\tst.param.f32 [func_retval0+0], %f1;\n\tret;\n}\n"
    )
    body = entry(
        0,
        asm("// mucc.in %f1")
        + "\t{ // callseq 0, 0\n\t.reg .b32 temp_param_reg;\n\t.param .b32 param0;\n"
        + "\tst.param.f32 [param0+0], %f1;\n\t.param .b32 retval0;\n"
        + "\tcall.uni (retval0), \n\thelper, \n\t(\n\tparam0\n\t);\n\tld.param.f32 %f2, [retval0+0];\n"
        + "\t} // callseq 0\n"
        + asm("// mucc.out %f2")
        + "\tret;\n",
    )
    spliced = splice(
        skeleton(asm("// mucc.body 0 1: %f9, %f4")), read_bodies(module(body, before=OTHER + helper + TABLE))
    )
    assert spliced.index("unused =") < spliced.index(".func") < spliced.index(".visible .entry")
    assert spliced.count("[func_retval0+0], %f1") == 1 and "__cudart" not in spliced
    assert "call.uni (retval0), helper, ( param0 );\nld.param.f32 %f9, [retval0+0];" in spliced


def test_a_skeleton_without_markers_is_left_alone():
    text = skeleton("\tmov.f32 %f1, %f2;\n")
    assert splice(text, read_bodies(module(ADD))) == text


def test_registers_of_inner_blocks():
    body = entry(
        0,
        asm("// mucc.in %f1")
        + "\t{\n\t.reg .b32 %temp;\n\tmov.b64 {%temp, %r1}, %fd1;\n\t}\n\tcvt.f32.s32 %f2, %r1;\n"
        + asm("// mucc.out %f2")
        + "\tret;\n",
        ".reg .f32 %f<3>; .reg .b32 %r<2>; .reg .f64 %fd<2>;",
    )
    text = paste(body, "// mucc.body 0 1: %f9, %f4")
    assert "{\n.reg .b32 %mu_temp;\nmov.b64 {%mu_temp, %mu_r1}, %mu_fd1;\n}\n" in text


IN, OUT, RET = asm("// mucc.in %f1"), asm("// mucc.out %f1"), "\tret;\n"
BAD_BODIES = {
    "does not take its inputs": OUT + RET,
    "takes its inputs more than once": IN + IN + OUT + RET,
    "takes its inputs in an unknown way": asm("// mucc.in %f1, %f1") + OUT + RET,
    "does not take its inputs first": "$L__BB0_1:\n" + IN + OUT + RET,
    "not take its inputs first": "\tabs.f32 %f2, %f1;\n" + IN + OUT + RET,
    "has no output": IN + RET,
    "different number of outputs": IN + OUT + asm("// mucc.out %f1, %f2") + RET,
    "not a 32-bit float: %rd1": IN + asm("// mucc.out %rd1") + RET,
    "does not end in a return": IN + OUT + "\tadd.f32 %f1, %f1, %f1;\n",
    "a directive that cannot be pasted: .loc 1 2 3": IN + "\t.loc 1 2 3\n" + OUT + RET,
    "local memory of an unknown form": IN + "{ .local .b8 x[4]; }" + OUT + RET,
    "registers of an unknown form: .reg .f32 %f": IN + "{ .reg .f32 %f1; }" + OUT + RET,
    "ends in the middle of a statement": IN + OUT + RET + "\tadd.f32 %f1",
}


@pytest.mark.parametrize("reason", BAD_BODIES)
def test_a_body_that_cannot_be_pasted(reason: str):
    ptx = module(entry(0, BAD_BODIES[reason], ".reg .f32 %f<3>; .reg .b64 %rd<2>;"))
    with pytest.raises(SpliceError, match=re.escape(reason)):
        read_bodies(ptx)


def test_modules_that_are_not_bodies():
    with pytest.raises(SpliceError, match="'kernel' among the bodies"):
        read_bodies(module(ADD.replace("mucc_body_0", "kernel")))
    with pytest.raises(SpliceError, match="'mucc_body_0' has parameters"):
        read_bodies(module(ADD.replace("mucc_body_0()", "mucc_body_0(.param .u64 p)")))
    with pytest.raises(SpliceError, match="version"):
        read_bodies(ADD)


BAD_MARKERS = {
    "there is no such body": "// mucc.body 7 1: %f9, %f4, %f5",
    "has 1 and 1": "// mucc.body 0 1: %f9, %f4",
    "has 1 and 2": "// mucc.body 0 2: %f9, %f4, %f5",
    "two outputs of body 1 in one register": "// mucc.body 1 2: %f9, %f9",
    "'%rd4', a b64 register, as f32": "// mucc.body 0 1: %f9, %rd4, %f5",
    "'%q4', no register, as f32": "// mucc.body 0 1: %f9, %q4, %f5",
    "'0f3F800000', no register, as f32": "// mucc.body 0 1: 0f3F800000, %f4, %f5",
    "a marker of an unknown form": "// mucc.body zero: %f9",
    "beside other code": "mov.f32 %f1, %f2; // mucc.body 0 1: %f9, %f4, %f5",
}


@pytest.mark.parametrize("reason", BAD_MARKERS)
def test_a_marker_that_does_not_fit(reason: str):
    pair = entry(1, asm("// mucc.in ") + asm("// mucc.out %f1, %f2") + RET)
    bodies = read_bodies(module(ADD, pair))
    text = skeleton(asm(BAD_MARKERS[reason]), registers=".reg .f32 %f<100>;\n\t.reg .b64 %rd<9>;")
    with pytest.raises(SpliceError, match=re.escape(reason)):
        splice(text, bodies)


@pytest.mark.parametrize(
    ("old", "new"),
    [(".version 9.0", ".version 9.1"), ("sm_90a", "sm_100"), ("sm_90a", "sm_100a"), ("sm_90a", "sm_80a")],
)
def test_bodies_that_are_newer_than_the_skeleton(old: str, new: str):
    bodies = read_bodies(module(ADD, header=HEADER.replace(old, new)))
    with pytest.raises(SpliceError, match=r"body 0 is PTX 9\.. for sm_\w+, but the skeleton is PTX 9\.0 for"):
        splice(skeleton(asm("// mucc.body 0 1: %f9, %f4, %f5")), bodies)


def test_bodies_may_be_older_than_the_skeleton():
    old = read_bodies(module(ADD, header=HEADER.replace("sm_90a", "sm_80").replace("9.0", "8.8")))
    assert "%f9, %f4, %f5" in splice(skeleton(asm("// mucc.body 0 1: %f9, %f4, %f5")), old)


def test_a_spliced_skeleton_cannot_be_spliced_again():
    marker = asm("// mucc.body 0 1: %f9, %f4, %f5")
    bodies = read_bodies(module(ADD))
    with pytest.raises(SpliceError, match="spliced before"):
        splice(splice(skeleton(marker), bodies) + marker, bodies)


def test_two_bodies_of_different_modules_must_agree():
    first = read_bodies(module(SINE, before=TABLE))
    second = read_bodies(module(SINE.replace("mucc_body_1", "mucc_body_2"), before=TABLE.replace("65", "66")))
    markers = asm("// mucc.body 1 1: %f9, %f4") + asm("// mucc.body 2 1: %f8, %f4")
    with pytest.raises(SpliceError, match="two bodies differ in what '__cudart_i2opi_f' is"):
        splice(skeleton(markers), first | second)


def test_it_is_fast():
    """Its time grows as the text does."""
    filler = "\tfma.rn.f32 \t%f90, %f91, %f92, %f93;\n" * 60
    short, text = (skeleton((filler + asm("// mucc.body 0 1: %f9, %f4, %f5")) * n) for n in (16, 128))
    assert len(text) > 250_000
    long = ADD.replace("\tadd.f32", "\tmul.f32 \t%f4, %f1, %f2;\n" * 60 + "\tadd.f32")
    bodies = read_bodies(module(long))

    def seconds(text: str) -> float:
        started = time.thread_time()
        splice(text, bodies)
        return time.thread_time() - started

    # 4 ms are usual for the long one. Eight times the text would take 64 times as long at worst.
    assert min(seconds(text) for _ in range(9)) < 32 * min(seconds(short) for _ in range(9))


# ---- the meaning -----------------------------------------------------------------------------------------

FLOATS = [f"%f{i}" for i in range(1, 9)]
BINARY = ["add.f32", "sub.f32", "mul.f32", "min.f32", "max.f32"]
CONSTANTS = ["0f3F800000", "0fC0000000", "0f3E800000", "0f00000000"]


@st.composite
def random_bodies(draw: st.DrawFn) -> tuple[str, int, int]:
    """The code of a body with branches, a loop and several ways out; how many inputs and outputs it has."""
    inputs = draw(st.lists(st.sampled_from(FLOATS), max_size=3, unique=True))
    count = draw(st.integers(1, 2))
    value = st.sampled_from([*FLOATS, *FLOATS, *CONSTANTS])
    others = [r for r in FLOATS if r not in inputs]
    lines = [f"\tmov.f32 \t{r}, {draw(st.sampled_from(CONSTANTS))};\n" for r in others]
    lines.insert(draw(st.integers(0, len(lines))), asm(f"// mucc.in {', '.join(inputs)}"))
    steady = draw(st.booleans())
    usual = draw(st.permutations(FLOATS))[:count]

    def leave() -> str:
        results = usual if steady else [draw(value) for _ in range(count)]
        return asm(f"// mucc.out {', '.join(results)}")

    def instruction() -> str:
        target = draw(st.sampled_from(FLOATS))
        match draw(st.integers(0, 4)):
            case 0:
                return (
                    f"\t{draw(st.sampled_from(['neg.f32', 'abs.f32', 'mov.f32']))} {target}, {draw(value)};\n"
                )
            case 1:
                return f"\tfma.rn.f32 {target}, {draw(value)}, {draw(value)}, {draw(value)};\n"
            case 2:
                return (
                    f"\tsetp.lt.f32 %p1, {draw(value)}, {draw(value)};\n"
                    f"\tselp.f32 {target}, {draw(value)}, {draw(value)}, %p1;\n"
                )
            case 3:
                return (
                    f"\tsetp.ge.f32 %p1, {draw(value)}, {draw(value)};\n"
                    f"\t@%p1 mov.f32 {target}, {draw(value)};\n"
                )
            case _:
                return f"\t{draw(st.sampled_from(BINARY))} {target}, {draw(value)}, {draw(value)};\n"

    blocks = draw(st.integers(1, 4))
    for block in range(blocks):
        lines.append(f"$L__BB0_{block}:\n")
        body = "".join(instruction() for _ in range(draw(st.integers(0, 3))))
        if draw(st.booleans()):  # a loop
            lines.append(f"\tmov.u32 %r1, 0;\n$L__BB0_{block}0:\n{body}\tadd.s32 %r1, %r1, 1;\n")
            lines.append(
                f"\tsetp.lt.s32 %p2, %r1, {draw(st.integers(1, 3))};\n\t@%p2 bra $L__BB0_{block}0;\n"
            )
        else:
            lines.append(body)
        later = draw(st.integers(block + 1, blocks))
        guard = f"\tsetp.lt.f32 %p1, {draw(value)}, {draw(value)};\n"
        match draw(st.integers(0, 3)):
            case 0:
                lines.append(f"{guard}\t@%p1 bra \t$L__BB0_{later};\n")
            case 1:
                lines.append(f"{guard}\t@!%p1 bra $L__BB0_{block}1;\n{leave()}")
                lines.append(draw(st.sampled_from(["\tret;\n", f"\tbra.uni $L__BB0_{blocks}1;\n"])))
                lines.append(f"$L__BB0_{block}1:\n")
            case _:
                pass
    lines.append(f"$L__BB0_{blocks}:\n{leave()}$L__BB0_{blocks}1:\n\tret;\n")
    return "".join(lines), len(inputs), count


@st.composite
def random_programs(draw: st.DrawFn) -> tuple[list[str], str]:
    """The code of some bodies, and of a kernel that uses them, in a loop too."""
    bodies = draw(st.lists(random_bodies(), min_size=1, max_size=2))
    registers = [f"%f{i}" for i in range(1, 7)]

    def markers() -> str:
        text = ""
        for _ in range(draw(st.integers(0, 3))):
            index = draw(st.integers(0, len(bodies) - 1))
            _, inputs, outputs = bodies[index]
            operands = draw(st.permutations(registers))[:outputs]
            operands += [draw(st.sampled_from([*registers, *CONSTANTS])) for _ in range(inputs)]
            text += asm(f"// mucc.body {index} {outputs}: {', '.join(operands)}")
        return text

    start = "".join(f"\tmov.f32 {r}, 0f{0x3F000000 + 0x123456 * i:08X};\n" for i, r in enumerate(registers))
    loop = "\tmov.u32 %r1, 0;\n$L__BB0_2:\n" + markers() + "\tadd.s32 %r1, %r1, 1;\n"
    loop += "\tsetp.lt.s32 %p1, %r1, 2;\n\t@%p1 bra $L__BB0_2;\n"
    return [code for code, _, _ in bodies], start + markers() + loop


KINDS = ".reg .f32 %f<9>;\n\t.reg .b32 %r<2>;\n\t.reg .pred %p<3>;"


@settings(max_examples=examples(150))
@given(random_programs())
def test_a_spliced_kernel_computes_what_its_parts_do(program: tuple[list[str], str]):
    codes, kernel = program
    text = skeleton(kernel, registers=KINDS)
    bodies = read_bodies(module(*(entry(i, code, KINDS) for i, code in enumerate(codes))))
    machines = [Machine(f"{KINDS}{code}") for code in codes]

    def apply(index: int, inputs: Sequence[float]) -> list[float]:
        return machines[index].run(inputs)[1]

    parts = {i: lambda inputs, i=i: apply(i, inputs) for i in range(len(codes))}
    expected, _ = Machine(statements(text)).run(bodies=parts)
    found, _ = Machine(statements(splice(text, bodies))).run()
    bits = {name: struct.pack("d", value) for name, value in found.items()}
    assert bits == {name: struct.pack("d", value) for name, value in expected.items()}
