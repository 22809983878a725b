"""Decompose the operations of an exported program into the ones that the importer knows.

torch registers kernels under twenty dispatch keys for each of its 500 composite operations before each
decomposition, also for those that it would take apart in the same way anyhow, and asks its dispatcher for all
of them once per namespace. Neither is done here: importing a small module takes half the time.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

# Untyped, since mucc is also type-checked where there is no torch.
torch: Any = importlib.import_module("torch")

KEPT = (
    "linear.default",
    "matmul.default",
    "baddbmm.default",
    "scaled_dot_product_attention.default",
    "dropout.default",
    "softmax.int",
    "log_softmax.int",
    "logsumexp.default",
    "layer_norm.default",
    "group_norm.default",
    "instance_norm.default",
    "rms_norm.default",
    "max_pool1d.default",
    "max_pool2d.default",
    "max_pool3d.default",
    "avg_pool1d.default",
    "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d.default",
    "cross_entropy_loss.default",
    "silu.default",
    "mish.default",
    "softplus.default",
    "elu.default",
    "selu.default",
    "hardswish.default",
    "hardsigmoid.default",
    "hardtanh.default",
    "leaky_relu.default",
    "std.correction",
    "_pad_circular.default",
    "flip.default",
    "roll.default",
    "tril.default",
    "triu.default",
    "lstm.input",
    "gru.input",
    "rnn_tanh.input",
    "rnn_relu.input",
)
"""Operations that are not decomposed, because `mu` has them or PyTorch runs them as one."""


def decomposed(program: Any) -> Any:
    """Return an exported program with all operations decomposed but those of `KEPT`."""
    with _few_registrations():
        return program.run_decompositions(decomposition_table())


def decomposition_table() -> Any:
    """Return torch's decompositions without those of `KEPT`."""
    table = torch.export.default_decompositions()
    for name in KEPT:
        packet, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    return table


@contextmanager
def _few_registrations() -> Generator[None]:
    """Have torch register and look for composite operations only as far as it makes a difference.

    A torch without these functions does as it does anyway.
    """
    divides = "_split_decomp_table_to_cia_and_python_decomp"
    finds = "_materialize_cpp_cia_ops"
    saved = [
        (module, name, getattr(module, name), replacement)
        for module, name, replacement in (
            (importlib.import_module("torch.export.exported_program"), divides, _without_usual),
            (importlib.import_module("torch._export.utils"), finds, functools.cache),
        )
        if hasattr(module, name)
    ]
    try:
        for module, name, original, replacement in saved:
            setattr(module, name, replacement(original))
        yield
    finally:
        for module, name, original, _ in saved:
            setattr(module, name, original)


def _without_usual(divide: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap torch's division of a table: composites with the dispatcher's own rule are left to it."""

    def divided(table: Any) -> Any:
        composites, *others = divide(table)
        return ({op: rule for op, rule in composites.items() if not _is_usual(op, rule)}, *others)

    return divided


def _is_usual(op: Any, rule: Any) -> bool:
    """Whether a rule of the table is the one that the dispatcher has for a composite operation."""
    usual = getattr(importlib.import_module("torch._export.utils"), "_get_decomp_for_cia", None)
    if usual is None:
        return False
    own = usual(op)
    if isinstance(rule, functools.partial) and isinstance(own, functools.partial):
        named = rule.func.__qualname__ == own.func.__qualname__
        return named and (rule.args, rule.keywords) == (own.args, own.keywords)
    return rule is own
