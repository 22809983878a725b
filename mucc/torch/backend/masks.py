"""The pass that drops masks of attention whose values are known, or makes them causal.

Models compute their masks from positions: `where(arange(S)[:, None] >= arange(S), 0, -inf)`, added to the
scores. Where no argument of the graph goes into such a mask, its values are computed here. One that hides
nothing is dropped, and one that hides what follows each position becomes the causal form of attention, which
takes half the work and reads no mask. Where arguments go into a mask, comparisons of int64 numbers become
comparisons of their ranks (`labels.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mucc.torch.backend.joined import GraphPass
from mucc.torch.backend.labels import number_labels
from mucc.torch.importer.capture import torch
from mucc.torch.importer.known_values import KnownValues
from mucc.torch.importer.partition import Node

_aten = torch.ops.aten

MASKED = tuple(
    overload
    for name in (
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_cudnn_attention_backward",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_efficient_attention_backward",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    )
    if (overload := getattr(getattr(_aten, name, None), "default", None)) is not None
)
"""Attention that takes a mask, in all versions of torch that are supported."""

NAMES = ("attn_bias", "attn_mask")

HIDDEN = -65504.0
"""The largest value added to scores that hides a position: the least of f16. torch 2.11 makes -65536 of bools
for cuDNN; a weight of e^-65504 is 0 in f32 beside any score that is not as large itself."""


class MasksPass(GraphPass):
    """A pass over joint graphs, before AOTAutograd parts them: forward and backward change together.

    `report` is called with the number of calls that changed, `failed` with what goes wrong; the graph is
    unchanged then.
    """

    def __init__(self, report: Callable[[int], None], failed: Callable[[Exception], None]):
        self.report, self.failed = report, failed

    def key(self) -> str:
        return "masks"

    def run(self, graph: Any) -> None:
        try:
            self.report(simplify_masks(graph))
        except Exception as error:
            self.failed(error)


def simplify_masks(graph: Any) -> int:
    """Simplify attention with known masks, and let other masks compare s32 instead of int64.

    Returns how many calls had a known mask.
    """
    known, forms = KnownValues(graph), dict[Node, str | None]()
    changes: list[tuple[Node, int | str, str]] = []
    compared: list[Node] = []
    for node in graph.nodes:
        if node.target not in MASKED or (place := _mask_place(node)) is None:
            continue
        mask = node.args[place] if isinstance(place, int) else node.kwargs[place]
        if mask not in forms:
            forms[mask] = known.told(mask, form_of)
        form = forms[mask]
        if form is None and not known.constant.get(mask):
            compared.append(mask)
        if form is not None and not (form == "causal" and _given(node, "is_causal")):
            changes.append((node, place, form))
    for node, place, form in changes:
        _set(node, place, None)
        if form == "causal":
            _set(node, _place(node, "is_causal"), True)
    number_labels(graph, compared)
    if changes:
        graph.eliminate_dead_code()
    return len(changes)


def _schema_names(node: Node) -> list[str]:
    return [a.name for a in node.target._schema.arguments]


def _place(node: Node, name: str) -> int | str:
    """Return where a call has an argument: its index among `args`, or its name among `kwargs`."""
    schema = node.target._schema.arguments
    index = _schema_names(node).index(name)
    return name if schema[index].kwarg_only or name in node.kwargs else index


def _mask_place(node: Node) -> int | str | None:
    """Return where a call of attention has its mask, None if it has none."""
    name = next(n for n in NAMES if n in _schema_names(node))
    place = _place(node, name)
    mask = node.kwargs.get(place) if isinstance(place, str) else (*node.args, *[None] * 16)[place]
    return place if isinstance(mask, torch.fx.Node) else None


def _given(node: Node, name: str) -> Any:
    place = _place(node, name)
    if isinstance(place, str):
        return node.kwargs.get(place)
    return node.args[place] if place < len(node.args) else None


def _set(node: Node, place: int | str, value: Any) -> None:
    """Set an argument of a call; those between that are left out get their defaults."""
    if isinstance(place, str):
        node.kwargs = {**node.kwargs, place: value}
        return
    defaults = [a.default_value for a in node.target._schema.arguments]
    args = [*node.args, *defaults[len(node.args) : place + 1]]
    args[place] = value
    node.args = tuple(args)


def form_of(mask: Any) -> str | None:
    """Tell what a mask hides: "none", "causal" (all behind the diagonal of a square), or None of others.

    A mask is of bools, true where a position is seen, or is added to the scores: 0 there, and -inf, or at
    most `HIDDEN`, elsewhere.
    """
    if mask.dim() < 2:
        return None
    for axis in range(mask.dim() - 2):
        if mask.stride(axis) == 0:
            mask = mask.narrow(axis, 0, 1)
    if mask.dtype == torch.bool:
        seen = mask
    elif mask.is_floating_point():
        seen = mask == 0
        if not bool((seen | (mask <= HIDDEN)).all()):
            return None
    else:
        return None
    if bool(seen.all()):
        return "none"
    rows, columns = seen.shape[-2:]
    triangle = torch.ones(rows, columns, dtype=torch.bool, device=seen.device).tril()
    return "causal" if rows == columns and bool((seen == triangle).all()) else None
