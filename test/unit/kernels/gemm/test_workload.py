"""Workloads of contractions: the keys by which the database of measurements knows them."""

from __future__ import annotations

import pytest
from rulelib import ACROSS, with_rows

from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Epilogue, Problem
from mucc.kernels.gemm.scheduling.operand import Gathered, Grouped, Narrow, Operand, Scaled, Sparse
from mucc.kernels.gemm.workload import GemmWorkload

ALONG_K = '"a_k_major":true,"b_k_major":true'
KEYS = [
    (Problem("bf16", m=0, n=8, k=16), f'{{{ALONG_K},"compute":"bf16","k":16,"m":0,"n":8}}'),
    (Problem("f32", b=ACROSS, rights=2), '{"a_k_major":true,"b_k_major":false,"compute":"f32","rights":2}'),
    (
        Problem("bf16", epilogue=Epilogue(4, row_broadcasts=(2,))),
        f'{{{ALONG_K},"compute":"bf16","epilogue":{{"destination":4,"row_broadcasts":[2]}}}}',
    ),
    (
        Problem("bf16", b=Operand(form=Narrow(4, 64, zeros=True))),
        f'{{{ALONG_K},"compute":"bf16","mixed":[4,false,64,true]}}',
    ),
    (
        Problem("bf16", Operand(form=Narrow(8))),
        f'{{{ALONG_K},"compute":"bf16","mixed":[8,true,0,false]}}',
    ),
    (
        Problem("e4m3", Operand(form=Scaled(1)), Operand(form=Scaled(128)), fast_accumulation=True),
        f'{{{ALONG_K},"blocks":[1,128],"compute":"e4m3","fast_accumulation":true}}',
    ),
    (Problem("bf16", b=Operand(form=Sparse())), f'{{{ALONG_K},"compute":"bf16","sparse":"b"}}'),
    (
        Problem("bf16", Operand(form=Gathered()), Operand(form=Grouped()), batch=8),
        f'{{{ALONG_K},"batch":8,"compute":"bf16","gathered":"a","grouped":true}}',
    ),
    (
        with_rows(Problem("bf16", listed=True), 4, 16),
        f'{{{ALONG_K},"compute":"bf16","granules":[4,16,false,true],"listed":true}}',
    ),
]
"""Problems with the keys that databases of users have for them."""


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("bf16", m=8, n=16, k=32, batch=1), "bf16 M=8 N=16 K=32"),
        (Problem("bf16", m=8, n=16, k=32, batch=4), "bf16 M=8 N=16 K=32 batch=4"),
        (Problem("tf32", n=16, k=32), "tf32 M=? N=16 K=32 batch=?"),
    ],
)
def test_a_text_names_what_is_not_known(problem: Problem, text: str) -> None:
    workload = GemmWorkload(gemm_target("sm_90a"), problem)
    assert (workload.text, workload.is_sized) == (text, "?" not in text)


@pytest.mark.parametrize(("problem", "key"), KEYS)
def test_keys_of_measurements_stay(problem: Problem, key: str) -> None:
    assert GemmWorkload(gemm_target("sm_90a"), problem).signature == key


@pytest.mark.parametrize("problem", [problem for problem, _ in KEYS])
def test_transposing_twice_changes_nothing(problem: Problem) -> None:
    other = problem.transposed
    assert (other.a, other.b, other.m, other.n) == (problem.b, problem.a, problem.n, problem.m)
    assert other.transposed == problem
    assert (other.a_bytes, other.b_bytes) == (problem.b_bytes, problem.a_bytes)


def test_bytes_of_operands_in_memory() -> None:
    problem = Problem("bf16", Operand(form=Sparse()), Operand(form=Narrow(4)))
    assert (problem.a_bytes, problem.b_bytes) == (1.125, 0.5)
    assert Problem("tf32", Operand(form=Sparse())).a_bytes == 2.25
