"""Prompts of proposers that ask models."""

from __future__ import annotations

from typing import Any

from modellib import TILES, bad, good, scheduled, view

from mucc.agent.core.analysis import Advice, Analysis, Limit, Severity
from mucc.agent.core.attempts import Status
from mucc.agent.core.proposer import Lesson
from mucc.agent.propose.llm import budget, prompts


def long_history(count: int) -> list[Any]:
    attempts = [good(0, 1.0)]
    for n in range(1, count):
        program = scheduled(f"{64 * (1 + n % 2)}x{16 * n}x32")
        attempts.append(good(n, 1.0 - n / 1000, program, f"tile number {n}"))
    return attempts


def test_a_prompt_holds_what_a_model_needs():
    attempts = [
        good(0, 1.0),
        good(1, 0.5, scheduled(), "a larger tile"),
        bad(
            2,
            Status.INVALID,
            scheduled("1x1x1"),
            "tiny",
            diagnostics=[{"code": "MU3001", "message": "no tile"}],
        ),
    ]
    analysis = Analysis(
        Limit.COMPUTE, 6.5, [Advice("waves", Severity.WARNING, "tail wave", ["a smaller tile"])]
    )
    lesson = Lesson("gemm/other", "tile", "256 columns", 1.4, {"dtype": "f32"})
    seen = view(attempts, analysis=analysis, lessons=[lesson], hypotheses=[TILES])
    prompt = prompts.nominate(seen, 2, attempts[1], 30_000, "- linear.out (gemm): stages 4")
    assert "# mucc reference card" in prompt.system
    for words in ("w: f32[N, K]", "bound 80 us, by tensor.tf32", "Precision policy `tf32`", "132 SMs"):
        assert words in prompt.task
    (question,) = prompt.messages
    for words in (
        "#1 from #0: a larger tile: 0.5 ms (best)",
        "tile = 128x128x32",
        "Schedules of #1 as compiled:\n- linear.out (gemm): stages 4",
        "MU3001",
        "tail wave",
        "256 columns: 1.40x",
        "(tile): larger tiles",
        "up to 2 hypotheses on how to make attempt #1 faster",
    ):
        assert words in question.text


def test_the_oldest_and_least_useful_is_left_out_first():
    attempts = long_history(40)
    lessons = [Lesson("t", "tile", f"lesson {n}", 1.1) for n in range(5)]
    seen = view(attempts, lessons=lessons)
    whole = prompts.nominate(seen, 2, attempts[39], 100_000)
    assert "lesson 0" in whole.text and "#2 against #0" in whole.text
    size = budget.tokens(whole.text)
    small = prompts.nominate(seen, 2, attempts[39], size - 600)
    assert budget.tokens(small.text) <= size - 600
    assert "lesson 0" not in small.text and "#2 against #0" not in small.text
    assert "#38 against #0" in small.text and "tile number 2:" in small.text
    assert attempts[39].candidate.program in small.text


def test_attempts_at_the_hypothesis_are_told_in_full():
    own = bad(1, Status.WRONG, scheduled("64x64x32"), "small", reason="off by 3")
    prompt = prompts.implement(view([good(0, 1.0), own]), 4, TILES, [own], 3, 30_000)
    assert "Hypothesis 4 (tile): larger tiles" in prompt.text and "reason: off by 3" in prompt.text
    assert "Attempts at it so far: #1 wrong" in prompt.text
