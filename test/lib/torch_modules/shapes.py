"""Empty tensors, tensors without axes, extents of one, padding, and tensors made of nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_modules.registry import each, odd

F = nn.functional


@odd("", "f16:", "s32:", "bool:")
def tensors_without_axes(self: Any, x: Any, h: Any, n: Any, b: Any) -> Any:
    return (
        torch.relu(x),
        x * h,
        n + 1,
        ~b,
        x.sum(),
        x.view(1),
        x.expand(3),
        x.unsqueeze(0),
        torch.stack([x, x]),
    )


@odd("", "3,4")
def a_tensor_without_axes_as_a_factor(self: Any, s: Any, x: Any) -> Any:
    return s * x, torch.where(s > 0, x, s), x.clamp(max=s), torch.softmax(s, 0), s.mean(), s.max(), s.argmax()


@odd("0,4", "4,3")
def no_rows(self: Any, x: Any, w: Any) -> Any:
    return x @ w, torch.relu(x), x.sum(0), x.sum(1), x.t() @ x, torch.cat([x, w.t()]), x.mean(1), x.any()


@odd("3,0", "0,5")
def nothing_to_sum(self: Any, x: Any, y: Any) -> Any:
    return x @ y + 1, x.sum(1), x.prod(1), torch.cat([x, x], 1), x.all(1), x.reshape(0, 3), x.max(0)[0]


@odd("2,0,3")
def empty_in_the_middle(self: Any, x: Any) -> Any:
    return x.sum(), x.exp().sum(1), F.pad(x, (0, 0, 1, 1)), x.softmax(1), x.flatten(), x[:, :, 1:]


@odd("0")
def empty_vector(self: Any, x: Any) -> Any:
    return x * 2, x.sum(), x.mean(), x.cumsum(0), x.new_zeros(3) + 1


@odd("3,4")
def slices_of_nothing(self: Any, x: Any) -> Any:
    return x[3:], torch.relu(x[:, 4:]), x[1:1].sum(), torch.cat([x[:0], x])


@odd("1,1", "1")
def ones_everywhere(self: Any, x: Any, y: Any) -> Any:
    return (
        x @ x,
        x.sum(0),
        torch.softmax(x, 1),
        x.squeeze() * y,
        x.var(0, correction=0),
        x.std(),
        x.argmax(0),
        x @ y,
    )


@odd("1,5", "5,1")
def outer_products_by_broadcasting(self: Any, x: Any, y: Any) -> Any:
    return x * y, y @ x, x @ y, x + y.t(), (x * y).sum(0, keepdim=True)


@odd("3,4")
def made_of_nothing(self: Any, x: Any) -> Any:
    n = x.shape[1]
    return (
        torch.arange(n) + x,
        torch.arange(1, 9, 2) * x,
        torch.linspace(0, 1, n) * x,
        torch.eye(n)[:3] + x,
        torch.ones_like(x) * 2,
        x.new_full((2, 2), 7) + 1,
        torch.zeros(n, dtype=torch.int32),
        torch.tensor([1.0, 2.0, 3.0, 4.0]) - x,
        torch.full((3, 1), True) & (x > 0),
    )


@odd("3,4")
def constants_alone(self: Any, x: Any) -> Any:
    return (
        torch.arange(5),
        torch.ones(2, 2),
        torch.tensor(3),
        torch.tensor([True, False]),
        torch.empty(0),
        4,
        "x",
        None,
    )


@odd("2,3,5,6")
def pads(self: Any, x: Any) -> Any:
    return (
        F.pad(x, (1, 2)),
        F.pad(x, (1, 0, 0, 2), value=-1.5),
        F.pad(x, (2, 1, 1, 2), mode="reflect"),
        F.pad(x, (2, 1), mode="replicate") if x.dim() == 3 else F.pad(x, (2, 1, 1, 1), mode="replicate"),
        F.pad(x, (2, 1, 1, 2), mode="circular"),
        F.pad(x, (-1, -1, 1, -2)),
        F.pad(x, (0, 0, 0, 0, 1, 1), value=float("inf")),
    )


@odd("s32:3,4", "bool:3,4", "f16:3,4")
def pads_of_other_dtypes(self: Any, n: Any, b: Any, x: Any) -> Any:
    return F.pad(n, (1, 1), value=3), F.pad(b, (1, 1), value=True), F.pad(x, (1, 1), value=600.0)


@odd("2,3,4,5")
def interpolations(self: Any, x: Any) -> Any:
    return (
        F.interpolate(x, scale_factor=2),
        F.interpolate(x, size=(7, 3), mode="bilinear"),
        F.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=True),
        F.interpolate(torch.relu(x), size=(2, 2), mode="area"),
    )


@odd("2,6,4,4")
def images(self: Any, x: Any) -> Any:
    y = F.unfold(x, 2, stride=2)
    return (
        y,
        F.fold(y, (4, 4), 2, stride=2),
        F.pixel_unshuffle(x, 2),
        F.grid_sample(x, torch.zeros(2, 3, 3, 2)),
    )


@odd("3,4")
def shapes_returned(self: Any, x: Any) -> Any:
    return x.shape, x.size(0), x.numel(), x.dim(), x.stride(), torch.relu(x)


each(
    ("2,3,4", "", "5", "1,1,1"),
    "ranks",
    {
        "sum": lambda *a: (
            [x.sum() for x in a] + [x.sum(-1) for x in a] + [x.sum(-1, keepdim=True) for x in a]
        ),
        "mean": lambda *a: [x.mean() for x in a] + [x.mean(-1) for x in a],
        "amax": lambda *a: [x.amax() for x in a] + [x.amax(-1, keepdim=True) for x in a],
        "argmax": lambda *a: [x.argmax() for x in a] + [x.argmin(-1) for x in a],
        "var": lambda *a: [x.var(correction=0) for x in a] + [x.std(-1, correction=0) for x in a],
        "prod": lambda *a: [x.prod() for x in a] + [x.prod(-1) for x in a],
        "cumsum": lambda *a: [x.cumsum(-1) for x in a] + [x.cumprod(0) for x in a],
        "softmax": lambda *a: [torch.softmax(x, -1) for x in a] + [x.log_softmax(0) for x in a],
        "logsumexp": lambda *a: [x.logsumexp(-1) for x in a],
        "norm": lambda *a: [x.norm() for x in a] + [x.norm(dim=-1) for x in a],
        "any": lambda *a: [(x > 0).any() for x in a] + [(x > 0).all(-1) for x in a],
        "flip": lambda *a: [x.flip(-1) for x in a[:1]] + [x.roll(1, -1) for x in a[2:]],
        "sort": lambda *a: [x.sort(-1).values for x in a] + [x.topk(1, -1).values for x in a],
        "max_with_places": lambda *a: (
            [tuple(x.max(-1)) for x in a] + [tuple(x.min(-1, keepdim=True)) for x in a]
        ),
        "median": lambda *a: [x.median() for x in a] + [x.median(-1).values for x in a],
        "cat": lambda *a: [torch.cat([x, x], -1) for x in (a[0], a[2], a[3])],
        "stack": lambda *a: [torch.stack([x, x], -1) for x in a],
        "matmul": lambda *a: [a[0].mT @ a[0], a[2] @ a[2], a[3] @ a[3][0], a[3] @ a[3][0, 0]],
        "reshape": lambda *a: [x.reshape(-1) + 1 for x in a] + [x.reshape(1, -1, 1) * 2 for x in a],
        "squeeze": lambda *a: [x.squeeze() + 1 for x in a] + [x.squeeze(-1) for x in a],
        "broadcast": lambda *a: [a[0] + a[1], a[3] * a[2], a[1] - a[2], torch.maximum(a[0], a[3])],
        "index": lambda *a: [a[0][1], a[2][-1], a[3][0, 0, 0], a[1][None], a[0][:, -1]],
        "item_like": lambda *a: [x.flatten()[0] * 2 for x in a],
        "diff": lambda *a: [x.diff() for x in (a[0], a[2])] + [torch.std_mean(a[0]), torch.var_mean(a[2], 0)],
        "count": lambda *a: [(x > 0).count_nonzero() for x in a] + [(a[0] > 0).sum(-1)],
    },
)
