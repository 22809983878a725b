"""Networks that change between channels first and last: what their kernels compute, and their number."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

LAST = {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}


pytestmark = pytest.mark.usefixtures("compiled_anew")


class Block(nn.Module):
    """The part of ConvNeXt's block behind its convolution, for inputs with any number of spatial axes."""

    def __init__(self, channels: int, rank: int, before: bool = False):
        nn.Module.__init__(self)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels, *(1,) * (rank - 2)))
        self.before = before

    def forward(self, x: Any) -> Any:
        y = self.down(F.gelu(self.up(self.norm(x.movedim(1, -1))))).movedim(-1, 1)
        return torch.relu(x - y * self.scale) if self.before else self.scale * y + x


def compiled(module: Any, x: Any) -> Any:
    """Compile by mucc with all regions, compare with PyTorch in values and strides; returns the backend."""
    from mucc.torch.backend.backend import torch_backend

    made = torch_backend(interpret=True, rest="eager", fallback="error", margin=-1e9)
    with torch.no_grad():
        got, wanted = torch.compile(module.eval(), backend=made)(x), module(x)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    assert strides(got) == strides(wanted)
    return made


def strides(tensor: Any) -> list[int]:
    """Return the strides along axes that have more than one element."""
    return [s for s, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent != 1]


def texts(made: Any) -> list[str]:
    from mucc.frontend.source import kernel_text

    return [kernel_text(kernel.op) for program in made.programs for kernel in program.kernels]


def stages(text: str) -> int:
    from mucc.compiler.driver import compile_text
    from mucc.diagnostics import Source
    from mucc.dialects.mu.ops.stage import StageOp

    return sum(isinstance(op, StageOp) for op in compile_text(Source("t.mcu", text)).stages.walk())


@pytest.mark.parametrize("before", [False, True], ids=["scale first", "residual first"])
@pytest.mark.parametrize("shape", [(3, 24, 7), (2, 24, 5, 7), (2, 24, 3, 5, 1)], ids=str)
def test_scale_and_residual_join_the_product(shape: tuple[int, ...], before: bool):
    rank = len(shape)
    x = torch.randn(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
    made = compiled(Block(shape[1], rank, before), x)
    (last,) = (text for text in texts(made) if "permute" in text and "gelu" not in text)
    assert stages(last) == 1


@pytest.mark.parametrize("shape", [(3, 24, 7), (2, 24, 5, 7), (2, 24, 3, 5, 1)], ids=str)
def test_residuals_with_channels_first_in_memory(shape: tuple[int, ...]):
    compiled(Block(shape[1], len(shape)), torch.randn(shape))


@pytest.mark.parametrize("laid", ["both", "image", "weights", "neither"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_patches_of_images(rank: int, laid: str):
    window, shape = ((9, 3, 1), (27, 12, 5)) if rank == 3 else ((9, 3)[:rank], (27, 12)[:rank])
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1](3, 10, window, stride=window)
    x = torch.randn(2, 3, *shape)
    if laid in ("both", "image"):
        x = x.contiguous(memory_format=LAST[rank + 2]) if rank > 1 else x.mT.contiguous().mT
    if laid in ("both", "weights") and rank > 1:
        conv = conv.to(memory_format=LAST[rank + 2])
    made = compiled(conv, x)
    assert made.programs


def test_images_with_channels_last_are_copied_once():
    conv = nn.Conv2d(3, 16, 4, stride=4).to(memory_format=torch.channels_last)
    made = compiled(conv, torch.randn(2, 3, 12, 20).contiguous(memory_format=torch.channels_last))
    (text,) = texts(made)
    assert stages(text) == 2
