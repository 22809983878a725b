"""Convolutions of networks and of KernelBench's sizes against cuDNN, eager PyTorch and torch.compile.

    python -m bench.conv [--only REGEX] [--strategy WORD | --between-first]
                         [--build-only | --measure-only] [-o WORK]

cuDNN has x and the weights with channels as the second axis and as the last one, and searches for its fastest
algorithm; eager is PyTorch as it is by default. All contenders of a layer are timed in turns as CUDA graphs,
on the same tensors, from a cold L2. f32 is multiplied in tf32 by all of them. The error is that from float64.
`--strategy` builds all layers by one strategy where that is legal, and writes no result file; nor does
`--between-first`, with which channels stay first between layers. Other options are those of bench/runner.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from bench.common import run_main
from bench.conv import channels_first, level1, level2, networks, weights
from bench.conv.forcing import between_first, forced
from bench.conv.forms import ConvForm
from bench.conv.measuring import measure
from bench.conv.summary import HEAD, figures, line
from bench.runner import Bench, Row, Session, Values, parser_of, run_bench
from mucc.kernels.conv.op import Strategy

FORMS: tuple[ConvForm, ...] = (
    *networks.FORMS,
    *channels_first.FORMS,
    *weights.FORMS,
    *level1.FORMS,
    *level2.FORMS,
)


class Convolutions(Bench[ConvForm]):
    """Layers with a convolution."""

    name, noun, example = "conv", "layer", "level1/transposed"
    head = HEAD
    has_compiled = True
    problems = FORMS

    def begin(self, problem: ConvForm) -> Values:
        return {"group": problem.group, "name": problem.name, "kind": problem.kind}

    def measure(self, session: Session, kernel: Any, problem: ConvForm) -> Values:
        return measure(session, kernel, problem)

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        return figures(rows)

    def line(self, row: Row) -> str:
        return line(row)


def main() -> int:
    bench = Convolutions()
    parser = parser_of(bench, __doc__)
    parser.add_argument("--strategy", choices=list(map(str, Strategy)), help="compute all layers so")
    parser.add_argument("--between-first", action="store_true", help="keep channels first between layers")
    args = parser.parse_args()
    if args.strategy is None and not args.between_first:
        return run_bench(bench, args)
    how = args.strategy or "channels first"
    args.no_record, args.output = True, f"{args.output}/{how.replace(' ', '-')}"
    bench.problems = [dataclasses.replace(form, strategy=how) for form in FORMS]
    with between_first() if args.between_first else forced(Strategy(args.strategy)):
        return run_bench(bench, args)


if __name__ == "__main__":
    run_main(main)
