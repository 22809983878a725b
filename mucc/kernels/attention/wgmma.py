"""Text of wgmma instructions, whose registers are named one by one."""

from __future__ import annotations

_TYPES = {"f16": "f16", "bf16": "bf16"}


def wgmma(name: str, dtype: str, columns: int, *, from_registers: bool, turned: bool) -> list[str]:
    """Return a static function that adds a product of 64 x 16 by 16 x `columns` elements to f32 `sum`.

    The left operand is in registers, or in shared memory as is the right one, whose columns are contiguous
    where it is `turned`. With `keeps` of 0 the sum is overwritten.
    """
    count = columns // 2
    left = "uint32_t const (&a)[4]" if from_registers else "uint64_t a"
    registers = ", ".join(f"%{i}" for i in range(count))
    given = count + (4 if from_registers else 1)
    first = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}" if from_registers else f"%{count}"
    flags = f"1, 1, {int(turned)}" if from_registers else f"1, 1, 0, {int(turned)}"
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if from_registers else '"l"(a)'
    outputs = ", ".join(f'"+f"(sum[{i}])' for i in range(count))
    kind = _TYPES[dtype]
    return [
        f"  static MUCC_DEVICE void {name}(float (&sum)[{count}], {left}, uint64_t b, int keeps) {{",
        '    asm volatile("{.reg .pred p; setp.ne.b32 p, %' + str(given + 1) + ', 0; "',
        f'                 "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} "',
        f'                 "{{{registers}}}, {first}, %{given}, p, {flags};}}"',
        f"                 : {outputs}",
        f'                 : {inputs}, "l"(b), "r"(keeps));',
        "  }",
    ]
