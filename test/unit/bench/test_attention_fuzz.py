"""Programs that attention is fuzzed with."""

from __future__ import annotations

import pytest

from bench.attention.forms import FORMS, Form
from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.key)
def test_each_form_is_one_kernel_of_attention(form: Form) -> None:
    compiled = compile_text(Source("k.mcu", form.text), Options(target="sm_90a"))
    text = compiled.emit("cutlass")
    name = "cutlass.attention_backward" if form.gives == "gradients" else "cutlass.attention"
    assert text.count(f"{name} ") == 1
    assert "cutlass.gemm" not in text


def test_forms_have_names_of_their_own() -> None:
    assert len({form.key for form in FORMS}) == len(FORMS)
