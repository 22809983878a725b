"""Programs that kernel engineers write first, over dims that are known at run time only."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from described import (
    assert_all_agree,
    assert_language_agrees,
    programs_in,
    references_in,
    source_of,
)

from mucc import frontend
from mucc.compiler.program import check_language, compile_source
from mucc.diagnostics.core import DiagnosticError

PROGRAMS = programs_in("workloads")
REFERENCES = references_in("workloads")
COMPILED = [name for name, reference in REFERENCES.items() if reference.refused is None]
REFUSED = [name for name in REFERENCES if name not in COMPILED]


def test_every_program_has_a_reference() -> None:
    assert set(PROGRAMS) == set(REFERENCES)


@pytest.mark.parametrize("name", REFERENCES)
def test_programs_are_of_the_language_and_canonical(name: str) -> None:
    source = source_of(PROGRAMS[name])
    assert not check_language(source)
    assert frontend.format(source) == source.text


@pytest.mark.parametrize("name", COMPILED)
def test_what_compiles_computes_what_pytorch_does(name: str) -> None:
    source = source_of(PROGRAMS[name])
    assert not compile_source(source, "sm_90a", only_check=True).sink.diagnostics
    compilation = compile_source(source, "sm_90a", tuned=False)
    for seed in range(3):
        assert_all_agree(compilation, REFERENCES[name], seed)
    cpp = compilation.emit("cu")
    stages = [stage["name"] for stage in compilation.manifest["kernels"][0]["stages"]]
    assert stages and all(f"// {name}.{stage}: " in cpp for stage in stages)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_kernel_yet_means_what_pytorch_does(name: str) -> None:
    """A kernel that comes to one of these takes away its mark: the program then has to compile."""
    reference = REFERENCES[name]
    assert reference.refused is not None
    code, functions = reference.refused
    with pytest.raises(DiagnosticError) as caught:
        compile_source(source_of(PROGRAMS[name]), "sm_90a")
    found = caught.value.diagnostics
    assert {d.code for d in found} == {code}
    assert {m[1] for d in found if (m := re.search("`(.*)`", d.message))} == set(functions)
    assert_language_agrees(PROGRAMS[name], reference)
