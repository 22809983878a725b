"""How modules are written: control flow, closures, hooks, nesting, modes, keyword arguments, odd results."""

from __future__ import annotations

import functools
from collections import OrderedDict, namedtuple
from typing import Any, NamedTuple

import torch
from torch import nn

from torch_modules.registry import odd

F = nn.functional


class Pair(NamedTuple):
    first: Any
    second: Any


Point = namedtuple("Point", ["x", "y"])


@odd("3,4")
def results_in_a_dictionary(self: Any, x: Any) -> Any:
    return {"relu": torch.relu(x), "more": {"sum": x.sum(), 3: [x, None]}, "n": 4}


@odd("3,4")
def results_in_an_ordered_dictionary(self: Any, x: Any) -> Any:
    return OrderedDict(b=torch.relu(x), a=x.sum())


@odd("3,4")
def results_in_a_named_tuple(self: Any, x: Any) -> Any:
    return Pair(torch.relu(x), Point(x.sum(), 2))


@odd("3,4")
def results_with_constants(self: Any, x: Any) -> Any:
    return torch.relu(x), 1, 2.5, None, True, "text", (), [], {}


@odd("3,4")
def nothing_returned(self: Any, x: Any) -> None:
    torch.relu(x)


@odd(["3,4", "4"], {"a": "3,4", "b": ("4", "3")})
def arguments_nested(self: Any, xs: Any, more: Any) -> Any:
    return torch.relu(xs[0] + xs[1]) * more["a"], more["b"][0] + 1, more["b"][1][:, None] * xs[0]


@odd("3,4", 2.0, 3, True, None, "gelu")
def arguments_of_python(self: Any, x: Any, s: Any, n: Any, flag: Any, nothing: Any, how: Any) -> Any:
    x = x * s if flag else x
    x = getattr(F, how)(x)
    return x.repeat(1, n) if nothing is None else x


@odd("3,4")
def defaults(self: Any, x: Any, scale: float = 0.5, bias: Any = None) -> Any:
    return torch.relu(x) * scale + (0 if bias is None else bias)


@odd("3,4", keywords={"mask": "bool:3,4", "scale": 2.0})
def keywords(self: Any, x: Any, *, mask: Any = None, scale: float = 1.0) -> Any:
    return torch.where(mask, torch.relu(x), 0) * scale


@odd("3,4", keywords={"c": "4", "b": "3,4"})
def keywords_in_another_order(self: Any, a: Any, b: Any, c: Any) -> Any:
    return torch.relu(a - b) * c


@odd("3,4", "4", "3,4")
def many_arguments(self: Any, *xs: Any) -> Any:
    return torch.relu(sum(xs[1:], xs[0]))


@odd("3,4", "unused")
def unused_text(self: Any, x: Any, y: Any) -> Any:
    return torch.relu(x)


@odd("3,4", "5")
def unused_argument(self: Any, x: Any, y: Any) -> Any:
    return torch.relu(x)


@odd("4,4")
def control_flow_on_shapes(self: Any, x: Any) -> Any:
    for n in range(x.shape[0]):
        x = x @ x.t() * 0.1 if n % 2 else torch.relu(x)
    while x.dim() < 4:
        x = x[None]
    return x if x.numel() > 3 else x * 2


@odd("4,4", refused="MU7020")
def control_flow_on_values(self: Any, x: Any) -> Any:
    return torch.relu(x) if x.sum() > 0 else torch.exp(x)


@odd("4,4", refused="MU7020")
def shape_of_values(self: Any, x: Any) -> Any:
    return torch.relu(x)[: int((x > 0).sum())].sum()


@odd("4,4")
def value_read(self: Any, x: Any) -> Any:
    return torch.relu(x) * x.sum().item()


@odd("4,4")
def constant_read(self: Any, x: Any) -> Any:
    return torch.relu(x) * torch.tensor(3.0).item(), x * int(torch.tensor(2))


@odd("4,4")
class ConstantReadAtFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.linspace(1, 2, 5)[3].item()
        self.rates = [x.item() for x in torch.linspace(0, 0.5, 3)]

    def forward(self, x: Any) -> Any:
        return torch.relu(x) * self.scale + self.rates[2]


@odd("4,4")
def closures(self: Any, x: Any) -> Any:
    scale = 3

    def inner(y: Any) -> Any:
        return y * scale + x

    return inner(torch.relu(x)), (lambda y: y - 1)(x)


@odd("4,4")
def partials(self: Any, x: Any) -> Any:
    f = functools.partial(F.leaky_relu, negative_slope=0.3)
    return functools.reduce(torch.add, [f(x), x, torch.relu(x)]), [*map(torch.exp, (x, x))][1]


@odd("4,4")
def comprehensions(self: Any, x: Any) -> Any:
    rows = {n: row.relu() for n, row in enumerate(x)}
    return sum(rows.values()), torch.stack([r * n for n, r in rows.items()])


@odd("4,4")
def exceptions(self: Any, x: Any) -> Any:
    try:
        y = x * {"a": 1}["b"]
    except KeyError:
        y = torch.relu(x)
    assert y.shape == (4, 4)
    return y


@odd("4,4")
def gradients_off(self: Any, x: Any) -> Any:
    with torch.no_grad():
        y = torch.relu(x)
    with torch.enable_grad():
        z = y.detach() * 2
    return y, z, x.requires_grad


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2 + 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3


@odd("4,4", gradients=True)
class CustomFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return Doubled.apply(torch.relu(self.layer(x)))


@odd("3,4", gradients=True)
class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x: Any) -> Any:
        return self.b(torch.relu(self.a(x)))


@odd("s64:2,3<7", gradients=True)
class TiedEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Any) -> Any:
        return self.head(torch.tanh(self.embed(ids)))


@odd("3,4")
class SharedModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.blocks = nn.ModuleList([block, block, nn.Linear(4, 4)])

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = x + block(x)
        return x


@odd("3,4")
class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"0": nn.Linear(4, 8), "down": nn.Linear(8, 4)})
        self.scales = nn.ParameterDict({"a": nn.Parameter(torch.ones(4)), "b": nn.Parameter(torch.zeros(4))})
        self.more = nn.ParameterList([nn.Parameter(torch.full((4,), float(n))) for n in range(3)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers.values():
            x = torch.relu(layer(x))
        return x * self.scales["a"] + self.scales["b"] - sum(self.more)


@odd("3,4")
class NestedDeeply(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        net: nn.Module = nn.Linear(4, 4)
        for _ in range(12):
            net = nn.Sequential(net)
        self.net = net

    def forward(self, x: Any) -> Any:
        return torch.relu(self.net(x))


@odd("3,4")
class Hooks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.layer.register_forward_hook(lambda m, args, out: out * 2)
        self.layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.layer(x))


@odd("3,4")
class Modes(nn.Module):
    """A part in evaluation within a module in training."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.norm = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.9)), nn.BatchNorm1d(4)
        self.frozen.eval()

    def forward(self, x: Any) -> Any:
        y = self.norm(self.frozen(x))
        return y * 2 if self.training else y


@odd("3,4")
class PlainTensors(nn.Module):
    """Tensors that are neither parameters nor buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.table = torch.full((4,), 2.0), [torch.ones(4), torch.arange(4.0)]
        self.large = torch.linspace(0, 1, 400).view(100, 4)

    def forward(self, x: Any) -> Any:
        return torch.relu(x) * self.scale + self.table[1] + self.large[:3]


@odd("3,4")
class OddNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.relu_, self.if_ = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)
        self.register_buffer("x", torch.ones(4))
        self.register_buffer("größe", torch.ones(4))
        self.register_parameter("none", None)

    def forward(self, out: Any) -> Any:
        return self.if_(self.relu_(self.kernel(out))) + self.x + self.größe


@odd("3,4", "3,4")
class NamesThatClash(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.ParameterDict({"b": torch.ones(4)})
        self.a_b = nn.Parameter(torch.full((4,), 3.0))

    def forward(self, a_b: Any, kernels: Any) -> Any:
        return torch.relu(a_b * self.a["b"] + self.a_b) - kernels


def scaled(x: Any, *factors: Any) -> Any:
    x = torch.relu(x) * x.sum(0).cumsum(0)
    for factor in factors:
        x = x * factor
    return x.topk(1)[0]


@odd("3,4", "4", "4", "4")
def arguments_with_odd_names(self: Any, module: Any, torch: Any, kernels: Any, operator: Any) -> Any:
    return scaled(module, torch, kernels, operator)


@odd("3,4", "4")
def arguments_with_odder_names(self: Any, module: Any, module_: Any) -> Any:
    return scaled(module, module_)


@odd("3,4")
class StateInPython(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        return torch.relu(x) * 2


@odd("3,4")
class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(self.net, x, use_reentrant=False) + x


@odd("3,4")
def vectorised(self: Any, x: Any) -> Any:
    return torch.vmap(lambda r: torch.relu(r).sum())(x)


@odd("3,4", refused="MU7020")
def gradients_inside(self: Any, x: Any) -> Any:
    return torch.func.grad(lambda y: (y**2).sum())(x)


@odd("3,4", refused="MU7021")
def conditions_of_torch(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda y: torch.relu(y), lambda y: y * 2, (x,))


@odd("3,4")
def devices(self: Any, x: Any) -> Any:
    # Not zeros: Inductor returns x itself for x + 0.
    return torch.ones(4, device=x.device) + x.cpu(), x.to("cpu").relu(), torch.ones(2, device="cpu")


@odd("3,4")
def random_numbers(self: Any, x: Any) -> Any:
    return x + torch.rand(4), torch.relu(torch.randn_like(x)), F.dropout(x, 0.3), torch.randperm(4) + 1


@odd("2,8")
class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(12)])

    def forward(self, x: Any) -> Any:
        kept = []
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
            kept.append(x.mean())
        return x, torch.stack(kept)


@odd("2,6,8", gradients=True)
class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).tril())

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).view(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = (q @ k.mT / 2).masked_fill(~self.mask, float("-inf"))
        return x + self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(2, 6, 8))


@odd("6,8")
class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(8, 3), nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        weight, chosen = torch.softmax(self.gate(x), -1).topk(2)
        every = torch.stack([e(x) for e in self.experts], 1)
        return (every.gather(1, chosen[..., None].expand(-1, -1, 8)) * weight[..., None]).sum(1)


@odd("2,3,8,8")
class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Any) -> Any:
        return F.relu(self.norm(self.a(x)) + self.b(x)).mean((-1, -2))


@odd("3,4", refused="MU7020")
class KeywordForAName(nn.Module):
    """torch.export names a parameter after its path, which is no Python here."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"for": nn.Linear(4, 4)})

    def forward(self, x: Any) -> Any:
        return self.layers["for"](x)
