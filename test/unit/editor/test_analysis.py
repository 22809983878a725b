"""What an editor is told after an edit is what a compiler says that has never seen the program before."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity, Source
from mucc.editor import analysis
from mucc.editor.analysis import analyse
from mucc.frontend import inlining, irgen, lower, parse

PROGRAM = """\
fn once(v) {
    return v * 2
}

fn twice(v) {
    w = once(v)
    return once(w)
}

fn spare(v) {
    return v
}

kernel mlp[M, D, H=4096](x: bf16[M, D], w1: bf16[H, D], w2: bf16[D, H]) -> bf16[M, D] {
    stage h = gelu(x @ w1.T)
    return twice(h @ w2.T)
}

schedule mlp.h for sm_90a {
    tile     = 128x256x64
    mainloop = cooperative
}

kernel scaled[N](x: f32[N], extra: f32[N]) -> f32[N] {
    left = x
    return once(x)
}

kernel total[M, N](x: f32[M, N]) -> f32[M] {
    return sum(twice(x), axis=1)
}
"""

WORDS = ("\n", " ", "x", "@", "twice", "spare", "total", "(", "}", "4097", "kernel ", "// ", "mlp", ".T")


def compiled(text: str) -> Sequence[Diagnostic]:
    """Return what the frontend says of a whole program."""
    program, sink = parse(Source("p.mcu", text))
    if not sink.has_errors:
        try:
            lower(program, sink)
        except DiagnosticError as error:
            return error.diagnostics
    return sink.diagnostics


def same(text: str) -> bool:
    """Compare what is said of a text with what the compiler says; returns whether it has no errors."""
    seen, wanted = analyse(text, "p.mcu", "sm_90a"), compiled(text)
    good = not any(d.severity is Severity.ERROR for d in wanted)
    assert [*seen.diagnostics][: len(wanted)] == [*wanted]
    assert seen.understood == good and (good or len(seen.diagnostics) == len(wanted))
    return good


@pytest.mark.parametrize("seed", range(4))
def test_edits_are_checked_as_whole_programs_are(seed: int):
    chosen, text, good = random.Random(seed), PROGRAM, 0
    for _ in range(40):
        at = chosen.randrange(len(text))
        changed = text[:at] + chosen.choice(WORDS) + text[at + chosen.choice((0, 0, 1, 5)) :]
        fits = same(changed)
        good += fits
        text = changed if fits or chosen.random() < 0.2 else text
        text = text if chosen.random() < 0.9 else PROGRAM
    assert good


def test_warnings_of_other_kernels_move_with_them():
    assert same(PROGRAM) and same("\n\n" + PROGRAM)
    moved = analyse("\n\n" + PROGRAM, "p.mcu", "sm_90a")
    places = {d.code: d.source.line_col(d.span.start)[0] for d in moved.diagnostics if d.span and d.source}
    assert places == {"MU1052": 12, "MU1013": 26, "MU1014": 27}


def test_functions_that_only_known_kernels_call_are_used():
    assert same(PROGRAM) and same(PROGRAM.replace("return once(x)", "return x"))
    seen = analyse(PROGRAM.replace("return once(x)", "return x"), "p.mcu", "sm_90a")
    assert [d.message for d in seen.diagnostics if d.code == "MU1052"] == [
        "the function 'spare' is never called"
    ]


def test_calls_of_known_kernels_count(monkeypatch: pytest.MonkeyPatch):
    assert same(PROGRAM)
    program, sink = parse(Source("p.mcu", PROGRAM))
    inlined = irgen.check_program(program, sink).inlined
    for module in (inlining, irgen):
        monkeypatch.setattr(module, "MOST", inlined)
    assert not same(PROGRAM.replace("left = x", "left = x + 1"))
    monkeypatch.setattr(inlining, "MOST", inlined + 1)
    monkeypatch.setattr(irgen, "MOST", inlined + 1)
    assert same(PROGRAM.replace("left = x", "left = x + 2"))


def test_an_edit_lowers_the_kernel_that_it_changes(monkeypatch: pytest.MonkeyPatch):
    assert same(PROGRAM)
    lowered: list[str] = []
    real = irgen.KernelGen.lower

    def noted(self: irgen.KernelGen) -> object:
        lowered.append(self.kernel.name.text)
        return real(self)

    monkeypatch.setattr(irgen.KernelGen, "lower", noted)
    seen = analyse(PROGRAM.replace("left = x", "left = x + 3"), "p.mcu", "sm_90a")
    assert set(lowered) == {"scaled"}
    assert seen.values["total", "x"].bytes == "4*M*N bytes"
    assert analysis.describe(seen.module.ops.first.body.block.args[0].type) == seen.values["mlp", "x"]  # type: ignore
