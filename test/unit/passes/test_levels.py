"""What is legal at each level, and that every pass reaches the level that it claims."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders import context, lowered, parsed
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from mucc.passes import get_all_passes, levels
from mucc.passes.levels import Level, LevelError
from mucc.passes.pipeline import pipeline

KERNEL = """mu.kernel @k(%x: !mu.tensor<[M, M], bf16>, %s: f32) -> !mu.tensor<[M, M], bf16>
    attributes {{arg_names = ["x", "s"], result_names = ["out"], dims = ["M"]}} {{
  {body}
  mu.return %y : !mu.tensor<[M, M], bf16>
}}"""

SOUGHT = (
    "kernel k[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] { return silu(x @ w.T) }",
    "kernel k[M, K](x: bf16[M, K], w: bf16[64, K], v: bf16[64, K]) -> bf16[M, 64] {"
    " return softmax(cast(x / sum(x, axis=1)[:, None], bf16) @ w.T, axis=1) * (x @ v.T) }",
    "kernel k[N](x: bf16[N, 8, 32, 32], w: bf16[16, 8, 3, 3]) -> bf16[N, 16, 15, 15] {"
    " return avg_pool(relu(conv(x, w)), 2) }",
    "kernel k[B, M, N](q: bf16[B, M, 64], k: bf16[B, N, 64], v: bf16[B, N, 64]) -> bf16[B, M, 64] {"
    " return softmax(q @ k.T, axis=2) @ v }",
    "kernel k[M, N](x: f32[M, N]) -> (y: f32[M], z: f32[M, N]) {"
    " return logsumexp(x, axis=1), cumsum(x, axis=1) }",
)

PROGRAM = """cutlass.program @p(%x: !mu.tensor<[M, M], bf16>, %y: !mu.tensor<[M, M], bf16>)
    attributes {{target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]}} {{
  {body}
}}"""

RELU = "%y = mu.relu %x : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>"
EXP = "%y = mu.exp %x : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>"
PIN = '%y = mu.pin "h" %x : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>'
STAGE = """%y = mu.stage "y" map : !mu.tensor<[M, M], bf16> {
    mu.yield %x : !mu.tensor<[M, M], bf16>
  }"""
TENSOR = "%w = mu.exp %x : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>"
WORKSPACE = "%w = cutlass.workspace {slot}: !mu.tensor<[M, M], bf16>"
MAP = """cutlass.map "m" space ["M", "M"] {{
    %0 = cutlass.load %x : !mu.tensor<[M, M], bf16>
    {body}
    cutlass.store %1, %y : !mu.tensor<[M, M], bf16>
  }}"""
LOOSE = MAP.format(body="%1 = mu.exp %0 : (f32) -> f32")
BODY = MAP.format(
    body="""%1 = cutlass.compute %0 {
    ^bb0(%a: f32):
      %b = mu.exp %a : (f32) -> f32
      cutlass.yield %b
    }"""
)
GEMM = """cutlass.gemm "g" bf16 %x, %x shape <[M], [M], [M], []> {settings}
      : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {{
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %y : !mu.tensor<[M, M], bf16>
  }}"""
CHOSEN = "tile <128, 128, 64> cluster <1, 1> mainloop cooperative {stages} scheduler <persistent>"


def in_kernel(body: str) -> str:
    return KERNEL.format(body=body)


def in_program(body: str) -> str:
    return PROGRAM.format(body=body)


RESOLVED_GEMM = GEMM.format(settings=CHOSEN.format(stages="stages 4"))


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (levels.MU, in_kernel(RELU)),
        (levels.MU, in_kernel(PIN) + '\nmu.schedule "k" for "sm_90a" {}'),
        (levels.PRIMITIVE, in_kernel(EXP)),
        (levels.STAGED, in_kernel(STAGE)),
        (levels.LOWERED, in_program(LOOSE)),
        (levels.FUSED, in_program(BODY)),
        (levels.FUSED, in_program(GEMM.format(settings=""))),
        (levels.SCHEDULED, in_program(GEMM.format(settings=CHOSEN.format(stages="")))),
        (levels.RESOLVED, in_program(RESOLVED_GEMM)),
        (levels.RESOLVED, in_program(WORKSPACE.format(slot=""))),
        (levels.CUTLASS, in_program(WORKSPACE.format(slot="slot 0 : i64 "))),
        (levels.CUTLASS, in_program(RESOLVED_GEMM) + '\nmu.schedule "p" for "sm_90a" {}'),
    ],
)
def test_legal(level: Level, text: str) -> None:
    level.verify(parsed(text))


@pytest.mark.parametrize(
    ("level", "text", "message"),
    [
        (levels.MU, in_program(""), "cutlass.program is not legal at level 'mu': not a top-level op"),
        (levels.MU, in_kernel(STAGE), "mu.stage is not legal at level 'mu': not an op of mu.kernel"),
        (levels.PRIMITIVE, in_kernel(RELU), "mu.relu is not legal at level 'primitive': composite"),
        (levels.STAGED, in_kernel(PIN), "mu.pin is not legal at level 'stages': not an op of mu.kernel"),
        (levels.STAGED, in_kernel(EXP), "mu.exp is not legal at level 'stages': not an op of mu.kernel"),
        (
            levels.STAGED,
            in_kernel(
                STAGE.replace("mu.yield", f"{RELU.replace('%y', '%0')}\n mu.yield").replace(
                    "yield %x", "yield %0"
                )
            ),
            "mu.relu is not legal at level 'stages': composite",
        ),
        (levels.LOWERED, in_kernel(EXP), "mu.kernel is not legal at level 'lowered': not a top-level op"),
        (
            levels.LOWERED,
            in_program(TENSOR),
            "mu.exp is not legal at level 'lowered': not an op of cutlass.program",
        ),
        (levels.FUSED, in_program(LOOSE), "mu.exp is not legal at level 'fused': outside of a compute body"),
        (
            levels.SCHEDULED,
            in_program(GEMM.format(settings="tile <128, 128, 64>")),
            "cutlass.gemm is not legal at level 'scheduled': no schedule chosen",
        ),
        (
            levels.RESOLVED,
            in_program(GEMM.format(settings=CHOSEN.format(stages=""))),
            "cutlass.gemm is not legal at level 'resolved': stage count not resolved",
        ),
        (
            levels.CUTLASS,
            in_program(WORKSPACE.format(slot="")),
            "cutlass.workspace is not legal at level 'cutlass': no workspace slot",
        ),
    ],
)
def test_illegal(level: Level, text: str, message: str) -> None:
    with pytest.raises(LevelError) as caught:
        level.verify(parsed(text))
    assert str(caught.value) == message


def test_a_module_that_does_not_verify_is_at_no_level() -> None:
    module = parsed(in_kernel(EXP))
    kernel = module.body.block.first_op
    assert kernel is not None
    kernel.attributes["dims"] = ArrayAttr([])
    with pytest.raises(LevelError, match=r"not legal at level 'mu': undeclared dim 'M'"):
        levels.MU.verify(module)


def _type(text: str) -> Attribute:
    return Parser(context(), text).parse_type()


OTHER = _type("!mu.tensor<[M], bf16>")


def _operand(exp: Operation, block: Block) -> None:
    exp.operands[0] = block.args[1]


def _attribute(exp: Operation, block: Block) -> None:
    del block.parent_op().attributes["dims"]  # pyright: ignore[reportOptionalMemberAccess]


def _property(exp: Operation, block: Block) -> None:
    exp.properties["more"] = OTHER


def _result(exp: Operation, block: Block) -> None:
    Rewriter.replace_value_with_new_type(exp.results[0], OTHER)


def _argument(exp: Operation, block: Block) -> None:
    Rewriter.replace_value_with_new_type(block.args[0], OTHER)


def _removed(exp: Operation, block: Block) -> None:
    block.erase_op(block.last_op)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("change", [_operand, _attribute, _property, _result, _argument, _removed])
def test_what_changed_since_it_verified_is_verified_again(
    change: Callable[[Operation, Block], None],
) -> None:
    module = parsed(in_kernel(EXP))
    known = levels.MU.verify(module)
    block = module.body.block.first_op.regions[0].block  # pyright: ignore[reportOptionalMemberAccess]
    assert block.first_op is not None
    change(block.first_op, block)
    for _ in range(2):  # what did not verify is not taken for something known
        with pytest.raises(LevelError):
            levels.MU.verify(module, known)


def test_where_an_op_stands_is_checked_for_each_of_one_form() -> None:
    """Traits see parents, which constraints do not."""
    module = parsed(in_kernel(EXP))
    levels.MU.verify(module)
    last = module.body.block.first_op.regions[0].block.last_op  # pyright: ignore[reportOptionalMemberAccess]
    assert last is not None
    copy = last.clone()
    module.body.block.add_op(copy)
    with pytest.raises(VerifyException, match=r"mu\.return.*parent"):
        copy.verify()


def test_what_is_as_it_was_when_it_verified_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parsed(in_kernel(EXP))
    known = levels.MU.verify(module)
    monkeypatch.setattr(ModuleOp, "verify", lambda self: pytest.fail("verified again"))
    assert levels.PRIMITIVE.verify(module, known).contents == known.contents
    with pytest.raises(LevelError, match=r"not an op of mu\.kernel"):  # what is legal is asked at each level
        levels.STAGED.verify(module, known)


def test_what_was_legal_at_a_level_is_not_asked_about_again() -> None:
    module = parsed(in_kernel(EXP))
    known = levels.MU.verify(module)
    asked: list[Operation] = []
    level = levels.MU._replace(rule=asked.append)
    assert level.verify(module, known._replace(level=level)).level is level and not asked
    level.verify(module, known)
    assert asked


def test_every_pass_is_in_the_pipeline_and_can_be_loaded_by_name() -> None:
    steps = [step.name for step, _ in pipeline("sm_90a")]
    passes = get_all_passes()
    assert set(steps) == set(passes)
    assert all(passes[name]().name == name for name in passes)


def test_passes_that_are_left_out_would_change_nothing() -> None:
    """Passes that may change a program are chosen by names of its operations: see `Rewrite.needs`."""
    for text in SOUGHT:
        modules, taken = (lowered(text), lowered(text)), list[list[str]]()
        for module, given in zip(modules, (None, modules[1]), strict=True):
            names: list[str] = []
            for step, _ in pipeline("sm_90a", module=given):
                step.apply(None, module)
                names.append(step.name)
            taken.append(names)
        every, sought = taken
        assert str(modules[0]) == str(modules[1]) and set(sought) < set(every)


def test_every_pass_reaches_its_level_from_the_one_before() -> None:
    module = lowered(
        """kernel k[M, N, K](x: bf16[M, K], w: bf16[N, K], v: bf16[N, N]) -> (y: bf16[M, N], s: f32[N]) {
            stage h = silu(x @ w.T)
            y = h @ v + h
            return y / (1 + sum(y, axis=1)[:, None]), min(h, axis=0)
        }"""
    )
    reached = levels.MU
    for step, level in pipeline("sm_90a"):
        reached.verify(module)
        step.apply(context(), module)
        level.verify(module)
        reached = level
    assert reached is levels.CUTLASS
