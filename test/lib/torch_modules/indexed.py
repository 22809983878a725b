"""Indices: gather, scatter, embedding, sort, topk, argmax, one-hot, masks that choose."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import each, odd

F = nn.functional


@odd("5,4", "s64:3,4<5", "s64:5,2<4")
def gathers(self: Any, x: Any, rows: Any, columns: Any) -> Any:
    return (
        x.gather(0, rows),
        torch.relu(x).gather(1, columns),
        x.take_along_dim(columns, 1),
        x.gather(-1, columns),
    )


@odd("5,4", "s64:2,3<4")
def gather_by_a_smaller_index(self: Any, x: Any, index: Any) -> Any:
    return torch.relu(x).gather(1, index)


@odd("5,4", "s32:3<5", "s64:2,3<5")
def rows_by_indices(self: Any, x: Any, a: Any, b: Any) -> Any:
    return x[a], torch.relu(x[b]), x.index_select(0, a), F.embedding(b, x), x[a.long() - 5]


@odd("5,4", "s64:3<4")
def columns_by_indices(self: Any, x: Any, a: Any) -> Any:
    return x[:, a].relu(), x.index_select(-1, a), x[a, a], x[1:, a] * 2, x[[0, 2]], x[:, [1, -1]]


@odd("5,4", "bool:5", "bool:5,4")
def rows_by_masks(self: Any, x: Any, m: Any, n: Any) -> Any:
    return (x * m[:, None]).sum(0), torch.where(n, x, 0).relu()


@odd("5,4", "bool:5")
def chosen_by_a_mask(self: Any, x: Any, m: Any) -> Any:
    return x[m].sum(), torch.relu(x)


@odd("3,5", "s64:3,2<5", "3,2")
def scatters(self: Any, x: Any, index: Any, y: Any) -> Any:
    zero = torch.zeros_like(x)
    return (
        zero.scatter_add(1, index, torch.relu(y)),
        x.scatter_reduce(1, index, y, "amax"),
        x.index_fill(1, index[0], 3.0),
        torch.relu(x).scatter(1, index[:, :1], 2.0),
        x.scatter(1, index[:, :1], y),
    )


@odd("4,6", "s64:4<4", "4,6")
def index_puts(self: Any, x: Any, rows: Any, y: Any) -> Any:
    return (
        torch.relu(x).index_put((rows,), y, accumulate=True),
        x.index_add(0, rows, y),
        x.index_copy(0, torch.arange(4), y),
    )


@odd("3,6")
def sorts(self: Any, x: Any) -> Any:
    values, places = x.sort(-1, descending=True)
    top, where = torch.relu(x + 3).topk(2)
    return values * 2, places, top, where, x.argsort(0), x.kthvalue(2).values, x.msort()


@odd("3,6")
def named_results_returned(self: Any, x: Any) -> Any:
    return torch.max(x, 1), x.topk(2), x.sort(), x.cummax(1)


@odd("3,6")
def named_results_taken_apart(self: Any, x: Any) -> Any:
    m = x.max(1)
    return m.values, m.indices, x.min(0, keepdim=True)[1], x.median(1)[0], x.mode(1)[0], x.aminmax(dim=1).max


@odd("3,6")
def args(self: Any, x: Any) -> Any:
    y = torch.relu(x)
    return y.argmax(), x.argmax(1, keepdim=True), x.argmin(0), torch.ones(3, 4).argmax(1), x.max(0)[1]


@odd("s64:2,3<5")
def one_hots(self: Any, rows: Any) -> Any:
    return (
        F.one_hot(rows, 5),
        F.one_hot(rows, 5).float() @ torch.ones(5, 2),
        (rows[..., None] == torch.arange(5)).float(),
    )


@odd("s64:2,3<7")
class Embeds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4, padding_idx=0)
        self.places = nn.Embedding(3, 4)
        self.bag = nn.EmbeddingBag(7, 4, mode="sum")

    def forward(self, ids: Any) -> Any:
        x = self.table(ids) + self.places(torch.arange(ids.shape[1]))
        return torch.relu(x), self.bag(ids)


@odd("s32:2,3<7")
class EmbedsWithLimits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4, max_norm=1.0)

    def forward(self, ids: Any) -> Any:
        return self.table(ids)


@odd("6", "s64:4<3")
def counts(self: Any, x: Any, n: Any) -> Any:
    return (
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
        torch.searchsorted(torch.tensor([0.0, 1.0]), x),
        n.bincount(minlength=3),
    )


@odd("3,4", "s64:<3")
def an_index_without_axes(self: Any, x: Any, n: Any) -> Any:
    return x[n].relu(), x.index_select(0, n), x[:, n % 4]


@odd("5", "s64:2,2<5")
def indices_of_a_vector(self: Any, x: Any, n: Any) -> Any:
    return x[n].relu(), x.take(n), x.gather(0, n[0]), x[n].sum(1)


@odd("2,3,4", "s64:2<3")
def indices_on_several_axes(self: Any, x: Any, n: Any) -> Any:
    return x[torch.arange(2), n], x[:, n, 1:], x[..., n], x[torch.tensor([[0], [1]]), n].relu()


each(
    ("4,5",),
    "scan",
    {
        "cumsum": lambda x: [x.cumsum(0), torch.relu(x).cumsum(-1)],
        "cumprod": lambda x: [x.cumprod(0), x.cumprod(1) * 2],
        "cummax": lambda x: [x.cummax(0).values, x.cummin(1).values],
        "reverse_cumsum": lambda x: x.flip(1).cumsum(1).flip(1),
        "exclusive_cumsum": lambda x: torch.cat([torch.zeros(4, 1), x.cumsum(1)[:, :-1]], 1),
        "masked_cumsum": lambda x: (x * (x > 0)).cumsum(1),
        "cumsum_of_ints": lambda x: [
            (x > 0).cumsum(1),
            x.int().cumsum(0),
            (x > 0).int().cumsum(1, dtype=torch.float32),
        ],
        "cumulative_trapezoid": lambda x: torch.cumulative_trapezoid(x),
        "logcumsumexp": lambda x: x.logcumsumexp(1),
        "histogram": lambda x: torch.histc(x, 4, -2, 2),
        "quantile": lambda x: x.quantile(0.5, 1),
        "unique_consecutive": lambda x: torch.relu(x)[:, 0] * 2,
        "topk_smallest": lambda x: [*x.topk(3, 0, largest=False)],
        "sort_stable": lambda x: [*torch.round(x).sort(stable=True)],
        "renorm": lambda x: x.renorm(2, 0, 1.0),
        "tensordot": lambda x: torch.tensordot(x, x, ([1], [1])),
        "triu_indices": lambda x: x @ x.t() + torch.triu_indices(4, 4).sum(),
        "nonzero_static": lambda x: torch.relu(x) * torch.tensor([0, 1, 0, 1, 1]).argmax(),
    },
)


@odd("3,5,4", "s64:2<5")
def picks_along_other_axes(self: Any, x: Any, at: Any) -> Any:
    return x.index_select(1, at), torch.relu(x)[:, [4, 0, -1]], x[:, :, torch.tensor([[1, 3], [0, 0]])] * 2


@odd("3,8")
def smallest_elements(self: Any, x: Any) -> Any:
    values, places = torch.topk(x, 3, largest=False)
    return values, places, torch.topk(torch.relu(-x) + x, 2, dim=0, largest=False).values


@odd("3,8")
def gathers_a_corner(self: Any, x: Any) -> Any:
    places = x.argsort(-1)
    return torch.gather(x, 1, places[:2, :3]), torch.nn.functional.one_hot(places[:, 0], 8) * 1.5


@odd("3,2000")
def arithmetic_of_places(self: Any, x: Any) -> Any:
    places = torch.topk(x, 4).indices
    return places + 1, places * 2**22 * 1024, (places * 2**22).float(), places.flip(0) - places
