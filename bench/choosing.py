"""Time the choice of regions in a first call of torch.compile, on a machine without a GPU.

    python -m bench.choosing [--card h100_sxm] [--layers 12] [--only REGEX]

Networks of KernelBench's level 3, and minGPT of `--layers` blocks, are traced on fake tensors up to mucc's
pass, twice in one process. The second run takes what each further graph takes; the first one also compiles
programs to predict their times. Times are CPU seconds. Nothing is built.
"""

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections.abc import Callable
from typing import Any

from bench.common import run_main
from bench.models.ahead import on_fakes
from bench.models.forms import Case, Model
from bench.models.level3 import LEVEL3, mingpt
from mucc.target.devices import get_card


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.choosing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--card", default="h100_sxm", help="the card that times are predicted for")
    parser.add_argument("--layers", type=int, default=12, help="blocks of minGPT (12)")
    parser.add_argument("--only", default="^mingpt$|^deep-narrow-mlp", metavar="REGEX", help="networks")
    args = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    get_card(args.card)
    every = (Model("mingpt", mingpt(args.layers)), *LEVEL3)
    if not (models := [model for model in every if re.search(args.only, model.key)]):
        raise SystemExit(f"no network matches '{args.only}'")
    print(f"{'network':24}{'operations':>12}{'regions':>9}{'first s':>9}{'again s':>9}")
    for model in models:
        case = on_fakes(torch, model)
        first, again = (chosen(torch, case, args.card) for _ in range(2))
        print(f"{model.key:24}{first[0]:12}{first[1]:9}{first[2]:9.2f}{again[2]:9.2f}", flush=True)
    return 0


def chosen(torch: Any, case: tuple[Any, Case], card: str) -> tuple[int, int, float]:
    """Choose the regions of a model on fake tensors; returns operations, regions, and CPU seconds of that."""
    from mucc.torch.backend.ahead import Ahead
    from mucc.torch.backend.options import Options

    spent: list[float] = []

    def timed(divide: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            began = time.process_time()
            try:
                return divide(*given)
            finally:
                spent.append(time.process_time() - began)

        return run

    class Timed(Ahead):
        """The trace, with the time of each graph."""

        def graph_pass(self, options: Options, target: str, is_inference: bool) -> Any:
            made = super().graph_pass(options, target, is_inference)
            made.divided = timed(made.divided)
            return made

    mode, (module, args, keywords) = case[0], (case[1].module, case[1].args, case[1].keywords)
    backend = Timed(Options.of({"target": get_card(card).target.name}), get_card(card), builds=False)
    torch._dynamo.reset()
    with mode, torch.no_grad():
        torch.compile(module, backend=backend, dynamic=False)(*args, **keywords)
    operations = sum(len(d.program.graph.nodes) for d in backend.divided)
    return operations, sum(len(d.choice.kernels) for d in backend.divided), sum(spent)


if __name__ == "__main__":
    run_main(main)
