"""Weights of a module in inference are turned once, to the order in which kernels read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn

from xdsl.ir import SSAValue  # noqa: E402

from mucc.compiler.driver import compile_text  # noqa: E402
from mucc.diagnostics.core import Source  # noqa: E402
from mucc.dialects.cutlass.ops import SpaceKernelOp  # noqa: E402
from mucc.dialects.cutlass.views import source_of  # noqa: E402
from mucc.torch.importer.python import from_torch  # noqa: E402


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(32, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.Conv2d(32, 64, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 2, 2),
    )


def copied(text: str) -> list[str]:
    """The parameters that are weights, and that kernels read which are no convolutions."""
    (program,) = compile_text(Source("k.mcu", text)).programs
    names: dict[SSAValue, str] = dict(
        zip(program.body.block.args, (n.data for n in program.arg_names), strict=True)
    )
    maps = (op for op in program.kernels if isinstance(op, SpaceKernelOp) and op.name == "cutlass.map")
    read = [names.get(source_of(load.source)) for op in maps for load in op.loads]
    return sorted(name for name in read if name and (name == "w" or "weight" in name))


def test_the_library_copies_no_weights():
    module, x = network().eval(), torch.randn(2, 32, 8, 8)
    found = from_torch(module, (x,))
    assert all(d.is_good for d in found.verify(x))
    assert "weight_folded: f32[32, 3, 3, 32]" in found.text and "f32[32, 2, 2, 64]" in found.text
    assert "f32[64, 32, 1, 1]" in found.text  # the same in memory
    assert copied(found.text) == []
    assert len(copied(from_torch(module, (x,), whole=True).text)) == 2


def test_the_order_that_the_manual_shows_needs_no_copy():
    manual = Path(__file__).parents[4] / "docs" / "runtime.md"
    shown = next(t for t in manual.read_text().split("```") if "kernel prepare(" in t)
    layer = shown[shown.index("kernel layer(") :]
    assert copied(layer) == []
    plain = layer.replace("permute(w, (0, 3, 1, 2))", "w").replace("[64, 3, 3, 64]", "[64, 64, 3, 3]")
    assert copied(plain) == ["w"]
    (prepare, _) = compile_text(Source("k.mcu", shown)).programs
    assert len(list(prepare.kernels)) == 1


def test_in_training_weights_are_taken_as_they_are():
    module = nn.Sequential(nn.Conv2d(32, 32, 3), nn.ReLU()).train()
    found = from_torch(module, (torch.randn(2, 32, 8, 8),))
    assert "f32[32, 32, 3, 3]" in found.text and "prepared" not in found.driver


def test_few_channels_are_read_as_they_lie():
    module = nn.Sequential(nn.Conv2d(3, 32, 3), nn.Conv2d(32, 32, 3, groups=32)).eval()
    assert "prepared" not in from_torch(module, (torch.randn(2, 3, 8, 8),)).driver


def test_one_weight_of_two_layers_is_turned_once():
    first, second = nn.Conv2d(32, 32, 3), nn.Conv2d(32, 32, 3)
    second.weight = first.weight
    module, x = nn.Sequential(first, nn.ReLU(), second).eval(), torch.randn(2, 32, 8, 8)
    found = from_torch(module, (x,))
    assert found.driver.count(".permute(") == 1 and all(d.is_good for d in found.verify(x))
    driver = found.interpreted()
    for _ in range(2):
        assert torch.allclose(driver(x), module(x), atol=1e-2)
        with torch.no_grad():
            first.weight.mul_(2)
