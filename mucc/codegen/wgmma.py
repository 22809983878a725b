"""Text of wgmma instructions, whose registers are named one by one."""

from __future__ import annotations

DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "s8": 32}
"""K of one wgmma instruction by format, in elements: always 32 bytes."""


def wgmma(
    name: str, dtype: str, columns: int, *, from_registers: bool, turned: bool, left_turned: bool = False
) -> list[str]:
    """Return a static function that adds a product of 64 rows by `columns` columns to f32 `sum`.

    Products of s8 are added to s32 whose bits are those of `sum`.

    Rows have `DEPTH` elements. The left operand is in registers, or in shared memory as is the right one,
    whose columns are contiguous where it is `turned`, as are those of the left one where it is `left_turned`:
    operands of 16 bits only.
    With `keeps` of 0 the sum is overwritten.
    """
    depth = DEPTH[dtype]
    assert depth == 16 or not (turned or left_turned), dtype
    count = columns // 2
    left = "uint32_t const (&a)[4]" if from_registers else "uint64_t a"
    registers = ", ".join(f"%{i}" for i in range(count))
    given = count + (4 if from_registers else 1)
    first = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}" if from_registers else f"%{count}"
    orders = [str(int(left_turned))] * (not from_registers) + [str(int(turned))] if depth == 16 else []
    scales = [] if dtype == "s8" else ["1", "1"]
    flags = ", ".join(["p", *scales, *orders])
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if from_registers else '"l"(a)'
    form = '"+r"(reinterpret_cast<int&>(sum[{}]))' if dtype == "s8" else '"+f"(sum[{}])'
    outputs = ", ".join(form.format(i) for i in range(count))
    sums = "s32" if dtype == "s8" else "f32"
    return [
        f"  static MUCC_DEVICE void {name}(float (&sum)[{count}], {left}, uint64_t b, int keeps) {{",
        '    asm volatile("{.reg .pred p; setp.ne.b32 p, %' + str(given + 1) + ', 0; "',
        f'                 "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{sums}.{dtype}.{dtype} "',
        f'                 "{{{registers}}}, {first}, %{given}, {flags};}}"',
        f"                 : {outputs}",
        f'                 : {inputs}, "l"(b), "r"(keeps));',
        "  }",
    ]
