"""Other libraries' functions for the same layers, where those are installed: quack and Liger."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from bench.layers.forms import Form

Call = Callable[[], Any]
Adapter = Callable[[Any, Sequence[Any]], Any]

# By library and by `Form.rival`: the module, its function, and how it takes the inputs of a form.
TABLE: dict[str, dict[str, tuple[str, str, Adapter]]] = {
    "quack": {
        "softmax": ("quack.softmax", "softmax", lambda f, x: f(x[0])),
        "rms_norm": ("quack.rmsnorm", "rmsnorm", lambda f, x: f(x[0], x[1], eps=1e-5)),
        "layer_norm": ("quack.layernorm", "layernorm", lambda f, x: f(x[0], x[1], eps=1e-5)),
        "cross_entropy": ("quack.cross_entropy", "cross_entropy", lambda f, x: f(x[0], x[1])),
    },
    "liger": {
        "softmax": ("liger_kernel.transformers.functional", "liger_softmax", lambda f, x: f(x[0])),
        "rms_norm": (
            "liger_kernel.transformers.functional",
            "liger_rms_norm",
            lambda f, x: f(x[0], x[1], 1e-5),
        ),
        "layer_norm": (
            "liger_kernel.transformers.functional",
            "liger_layer_norm",
            lambda f, x: f(x[0], x[1], x[2], 1e-5),
        ),
        "cross_entropy": (
            "liger_kernel.transformers.functional",
            "liger_cross_entropy",
            lambda f, x: f(x[0], x[1]),
        ),
    },
}

DISTRIBUTIONS = ("quack-kernels", "liger-kernel")


def rivals(torch: Any, form: Form, inputs: Sequence[Any]) -> dict[str, Call]:
    """Return the calls of libraries that are installed and have the function of a form."""
    found: dict[str, Call] = {}
    for library, functions in TABLE.items():
        if form.rival not in functions:
            continue
        module, name, adapter = functions[form.rival]
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue

        def call(function: Any = function, adapter: Adapter = adapter) -> Any:
            with torch.no_grad():
                return adapter(function, inputs)

        found[library] = call
    return found
