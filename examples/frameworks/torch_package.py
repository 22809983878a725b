"""Put a module with a mucc kernel into packages of torch.export and of AOTInductor, and run them.

    python examples/frameworks/torch_package.py [FOLDER]

Whoever loads a package loads the kernel's library first, which defines its operator.
"""

import sys
import tempfile
from pathlib import Path

import torch

import mucc

module = mucc.compile((Path(__file__).parents[1] / "rms_norm.mcu").read_text())
rms_norm = module.rms_norm_gain


class Block(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.linspace(1, 2, width), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(rms_norm(x + 1, self.gain)) * 2


block = Block(1000).cuda()
x = torch.randn(37, 1000, device="cuda")
scale = torch.rsqrt(((x + 1) ** 2).mean(1, keepdim=True) + 1e-5)
wanted = torch.tanh((x + 1) * scale * block.gain) * 2

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="mucc-"))
program = torch.export.export(block, (x,), dynamic_shapes={"x": {0: torch.export.Dim("rows", max=4096)}})


def check(name, run):
    error = (run(x) - wanted).abs().max().item()
    fewer = (run(x[:5]) - wanted[:5]).abs().max().item()
    print(f"{name}: largest error {error:.1e}, with fewer rows {fewer:.1e}", flush=True)
    assert error < 1e-4 and fewer < 1e-4


torch.export.save(program, folder / "block.pt2")
check("torch.export", torch.export.load(folder / "block.pt2").module())

package = str(folder / "block.aoti.pt2")
path = torch._inductor.aoti_compile_and_package(program, package_path=package)
check("AOTInductor", torch._inductor.aoti_load_package(path))
