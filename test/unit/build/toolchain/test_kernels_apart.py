"""PTX that is divided into modules with one kernel each."""

from __future__ import annotations

import pytest

from mucc.build.toolchain.body_ptx import SpliceError
from mucc.build.toolchain.kernels_apart import divide

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n\n.global .align 4 .u32 count;\n"
FUNCTION = ".func (.reg .f32 %r) helper()\n{\n\tret;\n}\n"
KERNELS = {
    "f_one": ".visible .entry f_one(\n\t.param .u64 p\n)\n{\n\t{\n\t.reg .pred p;\n}\n\tret;\n}",
    "f_one_more": ".visible .entry f_one_more()\n{\n\tmov.b64 {%r1, %r2}, %rd1;\n\tret;\n}",
}


def test_each_module_has_one_kernel_and_all_that_is_no_kernel() -> None:
    ptx = f"{HEAD}{KERNELS['f_one']}\n{FUNCTION}{KERNELS['f_one_more']}\n"
    modules = divide(ptx, ["f_one_more", "f_one"])
    assert modules == {
        "f_one_more": f"{HEAD}\n{FUNCTION}{KERNELS['f_one_more']}\n",
        "f_one": f"{HEAD}{KERNELS['f_one']}\n{FUNCTION}\n",
    }


@pytest.mark.parametrize("ptx", [HEAD, "\n".join([HEAD, *KERNELS.values()])], ids=["none", "two"])
def test_a_module_has_the_kernels_that_are_expected(ptx: str) -> None:
    with pytest.raises(SpliceError, match="instead of f_one"):
        divide(ptx, ["f_one"])


def test_a_kernel_without_an_end_is_refused() -> None:
    with pytest.raises(SpliceError, match="without an end"):
        divide(f"{HEAD}.visible .entry f_one()\n{{\n\tret;\n", ["f_one"])
