"""Batch normalisation in inference becomes part of the weights before it, and only where that is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn

from mucc.torch.importer.python import ImportedModule, from_torch  # noqa: E402


def trained(module: Any) -> Any:
    """A module in inference, whose normalisations have seen something."""
    torch.manual_seed(0)
    for part in module.modules():
        if getattr(part, "running_mean", None) is not None:
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.affine:
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    return module.eval()


def verified(module: Any, x: Any) -> ImportedModule:
    found = from_torch(module, (x,), whole=True)
    assert all(d.is_good for d in found.verify(x))
    return found


FOLDED: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "conv": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
        (2, 3, 5, 5),
    ),
    "grouped": (lambda: nn.Sequential(nn.Conv1d(4, 6, 3, groups=2), nn.BatchNorm1d(6)), (2, 4, 7)),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 2, 2, groups=2), nn.BatchNorm2d(6, affine=False)),
        (2, 4, 3, 3),
    ),
    "linear": (lambda: nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4)), (5, 3)),
    "two in a row": (lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4)), (5, 3)),
}


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name: str):
    make, shape = FOLDED[name]
    found = verified(trained(make()), torch.randn(shape))
    assert "rsqrt" not in found.text and "_shift" in found.text and "folded_norm(" in found.driver
    assert len(found.program.kernels) == 1 and not found.program.opaque
    assert not any("batch_norm" in row.operation for row in found.rows)


Module: Any = nn.Module


class Residual(Module):
    """A convolution whose result is read beside its normalisation."""

    def __init__(self) -> None:
        Module.__init__(self)
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return self.norm(y) + y


class Given(Module):
    """A convolution with weights from outside."""

    def __init__(self) -> None:
        Module.__init__(self)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Any) -> Any:
        return self.norm(nn.functional.conv2d(x, x[:4, :, :1, :1]))


KEPT: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "read elsewhere": (lambda: trained(Residual()), (2, 3, 5, 5)),
    "weights that are arguments": (lambda: trained(Given()), (4, 3, 5, 5)),
    "another axis": (lambda: trained(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(5))), (2, 5, 3)),
    "infinite scale": (
        lambda: trained(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, eps=0.0))),
        (5, 3),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str):
    make, shape = KEPT[name]
    found = verified(make(), torch.randn(shape))
    assert "rsqrt" in found.text and "folded_norm" not in found.driver


def test_16_bit_weights_and_training_keep_the_normalisation():
    """Weights of 16 bits would be rounded anew, and in training the statistics are those of the batch."""

    def model() -> Any:
        return trained(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))

    x, frozen = torch.randn(2, 3, 5, 5), model().train()
    for module, given in ((model().half(), x.half()), (model().train(), x)):
        assert "folded_norm" not in from_torch(module, (given,), whole=True).driver
    frozen[1].eval()
    assert "folded_norm" not in from_torch(frozen, (x,), whole=True).driver


def test_a_driver_follows_its_weights():
    module, x = trained(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())), torch.randn(5, 3)
    driver = from_torch(module, (x,), whole=True).interpreted()

    def agrees() -> bool:
        return torch.allclose(driver(x), module(x), atol=1e-5)

    assert agrees() and agrees()
    with torch.no_grad():
        module[1].running_var.mul_(3)
        module[0].bias.add_(1)
    assert agrees()
    other = trained(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    module.load_state_dict(other.state_dict())
    module[0].weight = nn.Parameter(torch.rand(4, 3))
    assert agrees()
    module[0].weight.data.mul_(2)  # torch does not count this
    assert not agrees()
    driver.forget()
    assert agrees()
