"""What is changed in place: arguments, buffers, parts and views of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import each, odd

F = nn.functional


@odd("3,4", "3,4")
def argument_changed(self: Any, x: Any, y: Any) -> Any:
    x.mul_(2).add_(y)
    return torch.relu(x)


@odd("3,4")
def argument_changed_and_nothing_returned(self: Any, x: Any) -> Any:
    x.sigmoid_()


@odd("4,5")
def part_of_argument_changed(self: Any, x: Any) -> Any:
    x[1:3, ::2] = 7
    x[0].zero_()
    return x.sum(1)


@odd("4,5")
def change_through_a_view(self: Any, x: Any) -> Any:
    y = torch.exp(x)
    v = y.t()[1:]
    v.mul_(0)
    return y, v


@odd("4,5")
def change_after_reading(self: Any, x: Any) -> Any:
    before = torch.relu(x)
    x.neg_()
    return before, torch.relu(x), before - x


@odd("4,5", "4,5")
def copy_between_arguments(self: Any, x: Any, y: Any) -> Any:
    x.copy_(y)
    y.fill_(1)
    return x + y


@odd("3,4", "f64:3,4")
def copy_of_another_dtype(self: Any, x: Any, y: Any) -> Any:
    x.copy_(y)
    return x * 2


@odd("3,4", "4")
def copy_that_broadcasts(self: Any, x: Any, y: Any) -> Any:
    x[1:].copy_(torch.relu(y))
    return x


@odd("3,4", "bool:3,4")
def masked_in_place(self: Any, x: Any, mask: Any) -> Any:
    x.masked_fill_(mask, float("-inf"))
    x[mask] = 0.5
    return torch.exp(x)


@odd("5,4", "s64:3<5")
def indexed_in_place(self: Any, x: Any, rows: Any) -> Any:
    x[rows] = 2.0
    x[torch.tensor([0, 4])] += 1
    return torch.relu(x)


@odd("5,4", "s64:3<5", "3,4")
def index_add_in_place(self: Any, x: Any, rows: Any, y: Any) -> Any:
    x.index_add_(0, rows, torch.relu(y))
    return x


@odd("3,4")
def list_of_parts(self: Any, x: Any) -> Any:
    out = torch.zeros(3, 4)
    for n in range(3):
        out[n] = torch.relu(x[n]) * n
    return out


@odd("3,4")
def out_arguments(self: Any, x: Any) -> Any:
    out = torch.empty(3, 4)
    torch.add(x, 1, out=out)
    return torch.relu(out)


@odd("3,4")
def relu_in_place_of_functional(self: Any, x: Any) -> Any:
    y = x * 2
    F.relu(y, inplace=True)
    F.hardtanh_(y)
    return y


@odd("bool:3,4", "s32:3,4")
def integers_in_place(self: Any, b: Any, n: Any) -> Any:
    b.logical_not_()
    n += 1
    n //= 2
    return b, n * 2


@odd("4,3")
class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.bool), persistent=False)

    def forward(self, x: Any) -> Any:
        self.count += 1
        self.mean.lerp_(x.mean(0), 0.25)
        self.seen |= x.amax(0) > 0
        return torch.relu(x - self.mean), self.count.clone()


@odd("4,3")
class BufferReplaced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4, 3))

    def forward(self, x: Any) -> Any:
        result = torch.relu(x + self.last)
        self.last = x * 2
        return result


@odd("4,3")
class CacheOfKeys(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 3))

    def forward(self, x: Any) -> Any:
        self.keys[2:6] = x
        return torch.softmax(x @ self.keys.t(), -1)


@odd("4,3")
class ParameterChanged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: Any) -> Any:
        self.w.mul_(0.5)
        return x * self.w


@odd("4,3", refused="MU7021")
class BufferOfABuffer(nn.Module):
    """Two names of one buffer that changes, which torch.export does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", self.a)

    def forward(self, x: Any) -> Any:
        self.a.add_(1)
        return x + self.b


@odd("4,3")
class BufferReturned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.ones(3))

    def forward(self, x: Any) -> Any:
        return torch.relu(x), self.a, self.a[1:]


@odd("6,3", refused="MU7020")
class Statistics(nn.Module):
    """The average of all batches so far: the weight of one follows from a count that is a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3, momentum=None, affine=False)

    def forward(self, x: Any) -> Any:
        return self.norm(self.norm(x) * 2)


each(
    ("3,4",),
    "change",
    {
        "clamp_": lambda x: (x * 2).clamp_(-1, 1),
        "pow_": lambda x: x.abs().pow_(2),
        "zero_": lambda x: torch.relu(x).zero_() + 1,
        "swap": lambda x: torch.exp(x).transpose_(0, 1) * 2,
        "squeeze_": lambda x: x.unsqueeze(0).clone().squeeze_(0).relu_(),
        "unsqueeze_": lambda x: x.exp().unsqueeze_(-1),
        "fill_diagonal_": lambda x: x.clone().fill_diagonal_(3).relu(),
        "scatter_": lambda x: x.clone().scatter_(1, torch.zeros(3, 1, dtype=torch.int64), 5.0),
        "tril_": lambda x: x.clone().tril_() * 2,
        "cumsum_": lambda x: x.clone().cumsum_(1),
        "setitem_of_ellipsis": lambda x: _set(x.clone()),
        "addmm_": lambda x: torch.zeros(3, 3).addmm_(x, x.t()).relu(),
        "bernoulli_of_certainty": lambda x: torch.relu(x) * torch.bernoulli(torch.ones(4)),
        "iadd_of_a_view": lambda x: _iadd(x.clone()),
        "resize": lambda x: torch.relu(x).clone().resize_(2, 3),
        "foreach": lambda x: torch._foreach_add([x, x * 2], 1),
    },
)


def _set(x: Any) -> Any:
    x[...] = 3
    x[:, 1] = x[:, 0] + 1
    return x.relu()


def _iadd(x: Any) -> Any:
    x[:, 1:] += x[:, :-1].clone()
    return x.relu()
