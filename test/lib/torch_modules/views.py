"""Views, aliases, and tensors that lie in memory in odd ways."""

from __future__ import annotations

from typing import Any

import torch

from torch_modules.registry import each, odd


@odd("=3,3", "=3,3")
def one_tensor_twice(self: Any, a: Any, b: Any) -> Any:
    return torch.relu(a) @ b


@odd("=3,4", "=3,4", refused="MU7021")
def one_tensor_twice_and_changed(self: Any, a: Any, b: Any) -> Any:
    a.add_(1)
    return b * 2


@odd("3,4")
def argument_returned(self: Any, x: Any) -> Any:
    return x, torch.relu(x)


@odd("3,4")
def view_of_argument_returned(self: Any, x: Any) -> Any:
    return x.t(), x[1:], x.view(-1), torch.exp(x)


@odd("3,4")
def same_result_twice(self: Any, x: Any) -> Any:
    y = torch.sigmoid(x)
    return y, y, y.t()


@odd("4,6")
def views_of_views(self: Any, x: Any) -> Any:
    return torch.relu(x.view(2, 2, 6).transpose(0, 1)[:, 1:].permute(2, 0, 1)[::2]).sum(-1)


@odd("3,4>t")
def transposed_input(self: Any, x: Any) -> Any:
    return torch.relu(x) + x.sum(0)


@odd("3,8>steps", "8>steps")
def strided_inputs(self: Any, x: Any, y: Any) -> Any:
    return torch.tanh(x) * y


@odd("3,4>wide", "4")
def expanded_input(self: Any, x: Any, y: Any) -> Any:
    return torch.exp(x) - y


@odd("2,3,4,5>last")
def channels_last_input(self: Any, x: Any) -> Any:
    return torch.relu(x).mean((2, 3)), x * 2


@odd("2,3,4,5")
def channels_last_inside(self: Any, x: Any) -> Any:
    y = torch.sigmoid(x).to(memory_format=torch.channels_last)
    return y, y.is_contiguous(memory_format=torch.channels_last)


@odd("4,6")
def as_strided_reads(self: Any, x: Any) -> Any:
    return torch.as_strided(torch.relu(x), (3, 2), (2, 5), 1) + 1


@odd("12")
def as_strided_overlaps(self: Any, x: Any) -> Any:
    return torch.as_strided(x, (4, 3), (2, 1)).sum(1)


@odd("12")
def unfolds(self: Any, x: Any) -> Any:
    return torch.relu(x.unfold(0, 4, 2)).mean(1)


@odd("3,1,4", "2,1")
def expands_both_ways(self: Any, x: Any, y: Any) -> Any:
    return x.expand(-1, 2, 4) * y.expand(2, 4)


@odd("3,4")
def expands_to_more_axes(self: Any, x: Any) -> Any:
    return torch.relu(x.expand(2, 5, 3, 4)).amax((0, 2))


@odd("6,4")
def chunks_and_splits(self: Any, x: Any) -> Any:
    a, b = torch.relu(x).chunk(2)
    c, d, e = x.split([1, 2, 1], dim=-1)
    return a - b, c * e, torch.exp(d)


@odd("7,4")
def uneven_chunks(self: Any, x: Any) -> Any:
    return [torch.relu(p) for p in x.chunk(3)], x.tensor_split(3)[1] + 1


@odd("3,4,2")
def unbinds(self: Any, x: Any) -> Any:
    a, b = x.unbind(-1)
    first, *_ = x.unbind(0)
    return a * b, torch.relu(first)


@odd("3,4", "2,4")
def cats_and_stacks(self: Any, x: Any, y: Any) -> Any:
    return torch.cat([torch.relu(x), y, x], 0), torch.stack([x, x * 2, -x], -1), torch.cat([x, x], -1)


@odd("3,4", "f64:2,4", "s32:1,4")
def cats_of_other_dtypes(self: Any, x: Any, y: Any, z: Any) -> Any:
    return torch.cat([x, y, z]) * 2


@odd("s64:3,4", "2,4")
def cats_of_integers_and_floats(self: Any, x: Any, y: Any) -> Any:
    return torch.relu(torch.cat([x, y])), torch.stack([x, x])


@odd("bool:3,4", "bool:3,4")
def cats_of_bools(self: Any, x: Any, y: Any) -> Any:
    return torch.cat([x, y], 1), torch.stack([x, y]).any(0)


@odd("3,4", "0")
def cat_with_an_old_empty_tensor(self: Any, x: Any, y: Any) -> Any:
    return torch.relu(torch.cat([x, y]))


@odd("2,3,4")
def negative_axes(self: Any, x: Any) -> Any:
    return x.sum(-2), x.transpose(-1, -3), x.unsqueeze(-2), torch.softmax(x, -3), x.select(-2, -1)


@odd("3,4,5")
def slices(self: Any, x: Any) -> Any:
    return torch.relu(x[1:, ::2, -3:-1]), x[..., None, 0] * 2, x[-1][:, 1:100], x[2:1].sum()


@odd("2,3,4")
def flips_and_rolls(self: Any, x: Any) -> Any:
    return x.flip(0, -1), x.roll(2, 1), x.roll((1, -5), (0, 2)), x.roll(3), torch.fliplr(x), torch.rot90(x)


@odd("4,5")
def triangles(self: Any, x: Any) -> Any:
    return x.tril(), x.triu(1), x.tril(-2) + x.triu(3), torch.relu(x).tril(10)


@odd("4,4")
def diagonals(self: Any, x: Any) -> Any:
    return x.diagonal(), torch.diag(x, 1), torch.diag(x[0]), x.trace(), torch.diag_embed(torch.relu(x))


@odd("4,6")
def movedims(self: Any, x: Any) -> Any:
    y = x.view(2, 2, 6)
    return y.movedim(0, -1).relu(), y.swapaxes(0, 2), y.mT, y.flatten(0, 1), y.unflatten(2, (3, -1))


@odd("1,3,1,4")
def squeezes(self: Any, x: Any) -> Any:
    return (
        x.squeeze().relu(),
        x.squeeze(0).exp(),
        x.squeeze((0, 2)),
        x.squeeze(1),
        x.unsqueeze(0).unsqueeze(-1),
    )


@odd("3,4")
def repeats(self: Any, x: Any) -> Any:
    return x.repeat(2, 3), x.repeat(2, 1, 1).relu(), x.repeat_interleave(2, 1), x.tile((2,)), x.repeat(1, 0)


@odd("4", "3")
def grids(self: Any, x: Any, y: Any) -> Any:
    a, b = torch.meshgrid(x, y, indexing="ij")
    return a * b, torch.outer(x, y).relu(), torch.cartesian_prod(x, y).sum(1)


@odd("2,6")
def reshapes_that_copy(self: Any, x: Any) -> Any:
    return (
        x.t().reshape(3, 4).relu(),
        x.t().contiguous().view(-1),
        x.reshape(-1, 1, 3).transpose(0, 2).reshape(-1),
    )


@odd("3,4")
def dtype_views(self: Any, x: Any) -> Any:
    return torch.relu(x.view(torch.int32).view(torch.float32)), x.view(torch.uint8).sum()


@odd("3,4")
def detached(self: Any, x: Any) -> Any:
    y = x.detach()
    return torch.relu(y), y, x.clone(), torch.clone(x.t())


@odd("3,4", "3,4")
def results_in_another_layout(self: Any, x: Any, y: Any) -> Any:
    return torch.relu(x).t(), (x + y).t() * 2, torch.empty_like(x.t()).fill_(2)


@odd("2,3,4")
def broadcasting_between_axes(self: Any, x: Any) -> Any:
    return x[:, :, None] * x[:, None], x + x.sum((0, 2), keepdim=True), x - x[0, 0, 0]


each(
    ("2,3,4",),
    "view",
    {
        "narrow": lambda x: x.narrow(1, 1, 2) * 2,
        "index_with_ellipsis": lambda x: x[..., 1, None].relu(),
        "index_with_number_and_none": lambda x: x[None, 1, :, None].exp(),
        "hsplit": lambda x: [p + 1 for p in torch.hsplit(x, 3)],
        "dstack": lambda x: torch.dstack([x, x]).relu(),
        "column_stack": lambda x: torch.column_stack([x[0], x[1]]) * 3,
        "ravel_of_transposed": lambda x: x.transpose(0, 2).ravel() + 1,
        "view_as": lambda x: x.view_as(torch.empty(4, 3, 2)).relu(),
        "adjoint": lambda x: x.adjoint().relu(),
        "slice_scatter": lambda x: x.slice_scatter(x[:, 1:2], 1, 0, 1).relu(),
        "slice_scatter_steps": lambda x: x.slice_scatter(x[:, :, :2] * 2, 2, 0, 4, 2),
        "select_scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, 2).relu(),
        "diagonal_scatter": lambda x: x.diagonal_scatter(x[:, 0, :3] * 2, 0, 1, 2),
        "as_strided_scatter": lambda x: torch.relu(x).as_strided_scatter(torch.ones(2), (2,), (3,), 1),
        "pixel_shuffle": lambda x: torch.pixel_shuffle(torch.relu(x).view(4, 3, 2), 2),
        "channel_shuffle": lambda x: torch.channel_shuffle(torch.relu(x).view(1, 6, 2, 2), 3),
        "block_diag": lambda x: torch.block_diag(x[0], x[1].relu()),
        "unsafe_chunk": lambda x: [p.relu() for p in torch.unsafe_chunk(x, 2, 2)],
        "positive": lambda x: (+x).relu(),
    },
)


@odd("4", refused="MU7020")
def combinations(self: Any, x: Any) -> Any:
    return torch.combinations(x).prod(1)


@odd("3,1,4")
def repeats_whole_tensors(self: Any, x: Any) -> Any:
    return torch.relu(x).repeat(2, 3, 1), x.repeat(2, 1, 1, 2) + 1, torch.tile(x, (2,)) * 2


@odd("2,6,8")
def windows_beside_each_other(self: Any, x: Any) -> Any:
    return torch.relu(x.unfold(1, 2, 2).unfold(2, 3, 3)), x.unfold(-1, 3, 2).amax(-1)


@odd("2,3,4,5")
def enlarges_by_repeating(self: Any, x: Any) -> Any:
    F = torch.nn.functional
    return F.interpolate(torch.relu(x), scale_factor=2), F.interpolate(x, size=(8, 15)) + 1


@odd("2,3,5")
def enlarges_by_fractions(self: Any, x: Any) -> Any:
    return torch.nn.functional.interpolate(torch.relu(x), size=8) * 2


@odd("3,4")
def rolls_over_all_elements(self: Any, x: Any) -> Any:
    return torch.relu(x).roll(5), x.roll(-1) - x


@odd("5,5")
def triangles_of_bools(self: Any, x: Any) -> Any:
    seen = torch.ones(5, 5, dtype=torch.bool).tril(1)
    return x.masked_fill(~seen, -1.0), torch.where(torch.full((5, 5), True).triu(), x, 2 * x)


@odd("3,4")
def copies_that_leave(self: Any, x: Any) -> Any:
    y = torch.relu(x)
    z = torch.exp(x)
    return y.clone(), z.t().clone(), z, z.clone(), torch.sigmoid(x).view(-1).clone(), x.t().clone()


@odd("24")
def memory_read_by_strides(self: Any, x: Any) -> Any:
    y = (x * 2).view(4, 6)
    return (
        x.view(2, 3, 4).transpose(0, 2).as_strided((4, 3), (3, 1)),
        y[1:, ::2].as_strided((3, 2), (2, 0), 1),
        torch.relu(y.T).as_strided((3, 2), (2, 1)),
        torch.as_strided_copy(y[2:], (2, 2), (1, 5)),
    )


@odd("4,6")
def constants_copied_before_a_call_of_pytorch(self: Any, x: Any) -> Any:
    places = (torch.arange(3) * 1).clone()
    return (
        torch.relu(x.T).reshape(-1)[torch.full([], 1) + places],
        torch.searchsorted(torch.arange(6.0).clone(), x),
    )


@odd("24")
def memory_read_through_many_views(self: Any, x: Any) -> Any:
    y = torch.relu(x)
    z = y.view(4, 6)
    return (
        y.as_strided((4, 5), (5, 1), 1).as_strided((2, 2), (3, 1), 2),
        z.chunk(2, 1)[1].as_strided((2, 2), (6, 1)),
        torch.exp(z).unbind(0)[2].as_strided((2, 2), (1, 1)),
        x.view(4, 6).T.as_strided((2,), (7,), 1) * 2,
    )


@odd("4,6")
def memory_written_by_strides(self: Any, x: Any) -> Any:
    y = torch.relu(x)
    new = x[0, :4].exp()
    once = y.T.as_strided_scatter(new, (4,), (5,), 1)
    return (
        once,
        once.as_strided((3, 2), (6, 1), 2) + 1,
        x.T.as_strided_scatter(new, (4,), (5,), 1),
        (y + 1)[1:].as_strided_scatter(new, (4,), (2,)),
        y.as_strided_scatter(new.view(2, 2), (2, 2), (6, 1), 3) * 2,
    )


@odd("2,3,4,5")
def memory_of_a_convolution(self: Any, x: Any) -> Any:
    y = torch.conv2d(x, torch.ones(2, 3, 1, 1))
    return y.as_strided((6, 4), (3, 1), 2), torch.relu(x).as_strided((5, 4), (3, 1), 2)
