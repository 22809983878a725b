"""Copies of graphs, which are compiled as their originals are."""

from __future__ import annotations

import copy
from typing import Any

from mucc.torch.importer.capture import torch

SOURCE = "_dynamo_source"
"""The attribute in which dynamo notes where an input of a graph comes from."""


def copied(module: Any) -> Any:
    """Return a graph module with a copy of the graph; tensors are shared, since compiling changes no values.

    The copy has what dynamo notes on a module and on its inputs, by which AOTAutograd guards arguments. Its
    cache has digests of the notes, and of the order in which attributes were set: what one process compiles
    from a copy, another one finds if it compiles a copy too.
    """
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    made.meta.update(module.meta)
    own: dict[str, Any] = made.__dict__
    given: dict[str, Any] = module.__dict__
    for name, value in given.items():
        own.setdefault(name, value)
    placeholders = (m.graph.find_nodes(op="placeholder") for m in (module, made))
    for old, new in zip(*placeholders, strict=True):
        if hasattr(old, SOURCE):
            setattr(new, SOURCE, getattr(old, SOURCE))
    return made
