"""Losses, and gradients through them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import each, odd

F = nn.functional


def kinds(function: Any, **options: Any) -> Any:
    """A loss under each reduction."""
    return lambda *args: [function(*args, reduction=r, **options) for r in ("mean", "sum", "none")]


each(
    ("4,5", "4,5"),
    "loss",
    {
        "mse": kinds(F.mse_loss),
        "l1": kinds(F.l1_loss),
        "smooth_l1": kinds(F.smooth_l1_loss, beta=0.5),
        "smooth_l1_of_zero": kinds(F.smooth_l1_loss, beta=0.0),
        "huber": kinds(F.huber_loss, delta=0.7),
        "bce_with_logits": lambda x, y: kinds(F.binary_cross_entropy_with_logits)(x, torch.sigmoid(y)),
        "bce": lambda x, y: kinds(F.binary_cross_entropy)(torch.sigmoid(x), torch.sigmoid(y)),
        "bce_of_edges": lambda x, y: F.binary_cross_entropy((x > 0).float(), torch.sigmoid(y)),
        "kl_div": lambda x, y: kinds(F.kl_div)(x.log_softmax(1), torch.softmax(y, 1)),
        "kl_div_of_zero": lambda x, y: F.kl_div(x.log_softmax(1), torch.relu(y), reduction="batchmean"),
        "kl_div_of_logs": lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), log_target=True),
        "poisson": lambda x, y: F.poisson_nll_loss(x, torch.relu(y), full=True),
        "cosine_embedding": lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1, 1])),
        "margin_ranking": lambda x, y: F.margin_ranking_loss(x, y, torch.sign(x), margin=0.1),
        "hinge": lambda x, y: F.hinge_embedding_loss(x, torch.sign(y)),
        "soft_margin": lambda x, y: F.soft_margin_loss(x, torch.sign(y)),
        "triplet": lambda x, y: F.triplet_margin_loss(x, y, x + y),
        "multilabel": lambda x, y: F.multilabel_soft_margin_loss(x, (y > 0).float()),
        "cross_entropy_of_probabilities": lambda x, y: F.cross_entropy(x, torch.softmax(y, 1)),
        "mse_that_broadcasts": lambda x, y: F.mse_loss(x, y[:1].expand(4, 5)),
        "mse_of_halves": lambda x, y: F.mse_loss(x.half(), y.half()),
    },
)

each(
    ("4,5", "s64:4<5"),
    "classes",
    {
        "cross_entropy": kinds(F.cross_entropy),
        "cross_entropy_smoothed": kinds(F.cross_entropy, label_smoothing=0.1),
        "cross_entropy_weighted": kinds(F.cross_entropy, weight=torch.tensor([1.0, 2.0, 0.5, 1.0, 0.0])),
        "cross_entropy_ignoring": kinds(F.cross_entropy, ignore_index=2),
        "cross_entropy_all_ignored": lambda x, y: F.cross_entropy(x, y * 0 - 100),
        "cross_entropy_alone": lambda x, y: F.cross_entropy(x[0], y[0]),
        "cross_entropy_of_images": lambda x, y: F.cross_entropy(
            x.t()[None].repeat(2, 1, 1), y.repeat(2, 1)[:, :4]
        ),
        "cross_entropy_of_halves": lambda x, y: F.cross_entropy(x.bfloat16(), y),
        "nll": lambda x, y: kinds(F.nll_loss)(x.log_softmax(1), y),
        "nll_ignoring": lambda x, y: F.nll_loss(x.log_softmax(1), y, ignore_index=0),
        "nll_of_images": lambda x, y: F.nll_loss(
            x.log_softmax(1)[:, :, None].repeat(1, 1, 3), y[:, None].repeat(1, 3)
        ),
        "multi_margin": lambda x, y: F.multi_margin_loss(x, y),
        "accuracy": lambda x, y: (x.argmax(1) == y).float().mean(),
        "log_softmax_gather": lambda x, y: -x.log_softmax(1).gather(1, y[:, None]).squeeze(1).mean(),
        "one_hot_product": lambda x, y: (F.one_hot(y, 5) * x).sum(1),
    },
)


@odd("4,5", "s64:4<3", gradients=True)
class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))

    def forward(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.body(x), y)


@odd("6,4,5", "s64:6,2<4", refused="MU7020")
def ctc(self: Any, x: Any, y: Any) -> Any:
    lengths = torch.full((4,), 6), torch.full((4,), 2)
    return F.ctc_loss(x.log_softmax(2), y[:4] % 4 + 1, *lengths)


@odd("4,5", "4,5", refused="MU7020")
def gaussian_loss(self: Any, x: Any, y: Any) -> Any:
    return F.gaussian_nll_loss(x, y, torch.ones(4, 5))
