"""Build the kernels that mucc takes of a model, on a machine without a GPU, ahead of measuring it."""

from __future__ import annotations

import importlib
from typing import Any

from bench.models.forms import Case, Model
from bench.models.measuring import Setting, call_of


def built_ahead(torch: Any, model: Model, setting: Setting, card: str) -> int:
    """Build the kernels of a model in all modes of a setting; returns how many there are."""
    from mucc.target.devices import get_card
    from mucc.torch.backend.ahead import Ahead
    from mucc.torch.backend.options import Options

    fake, case = on_fakes(torch, model)
    module = case.module
    found: set[Any] = set()
    for mode in setting.modes:
        torch._dynamo.reset()
        options = {"target": get_card(card).target.name, "mode": mode, **(setting.options or {})}
        ahead = Ahead(Options.of(options), get_card(card))
        with fake:
            if hasattr(module, "cache"):
                call_of(torch, case, False)()  # makes the cache of keys
            call_of(torch, case, model.trains, torch.compile(module, backend=ahead, dynamic=False))()
        found |= set(ahead.requests)
    return len(found)


def on_fakes(torch: Any, model: Model) -> tuple[Any, Case]:
    """Make a model in its format for inference on fake tensors; returns their mode too."""
    from mucc.torch.backend.ahead import faked

    fake = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
    case, dtype = _made(torch, model), getattr(torch, model.dtype)
    torch.set_float32_matmul_precision("high")

    def rounded(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if is_float else value

    module = faked(case.module.to(dtype).eval(), fake)
    args, keywords = faked(torch.utils._pytree.tree_map(rounded, (case.args, dict(case.keywords))), fake)
    return fake, Case(module, args, keywords)


def _made(torch: Any, model: Model) -> Case:
    """Make a model on the device "meta", where it takes no memory; on the CPU if it computes with values."""
    try:
        with torch.device("meta"):
            return model.make(torch)
    except NotImplementedError:
        return model.make(torch)
