"""Layers of networks, single ones, with a product, and parts of transformers, against PyTorch and a copy.

    python -m bench.layers [--only REGEX] [--build-only | --measure-only] [--budget-seconds S] [-o WORK]

All contenders of a layer are timed in turns as CUDA graphs, on the same tensors, from a cold L2; the error is
that from float64. Shares of a copy's bandwidth count compulsory bytes: all inputs and outputs once.
torch.compile multiplies f32 in tf32, as mucc does. Options are those of bench/runner.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.common import run_main
from bench.layers import blocks, level1, level2, moves, pools
from bench.layers.forms import Form
from bench.layers.measuring import measure
from bench.layers.rivals import DISTRIBUTIONS
from bench.layers.summary import HEAD, figures, line
from bench.runner import Bench, Row, Session, Values, parser_of, run_bench

FORMS: tuple[Form, ...] = (*level1.FORMS, *level2.FORMS, *blocks.FORMS, *pools.FORMS, *moves.FORMS)


class Layers(Bench[Form]):
    """Single layers and blocks."""

    name, noun, example = "layers", "layer", "level1/softmax"
    head = HEAD
    has_compiled = True
    distributions = ("triton", *DISTRIBUTIONS)
    problems = FORMS

    def begin(self, problem: Form) -> Values:
        return {"group": problem.group, "name": problem.name, "has_product": problem.has_product}

    def measure(self, session: Session, kernel: Any, problem: Form) -> Values:
        return measure(session.torch, kernel, problem, session.compiled, session.rounds, session.copy)

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        return figures(rows)

    def line(self, row: Row) -> str:
        return line(row)


def main() -> int:
    bench = Layers()
    return run_bench(bench, parser_of(bench, __doc__).parse_args())


if __name__ == "__main__":
    run_main(main)
