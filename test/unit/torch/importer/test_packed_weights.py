"""Weights of 4 bits that a module unpacks from words of its state: packed once, and read so by products."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.torch.importer import from_torch  # noqa: E402

nn: Any = torch.nn
F: Any = torch.nn.functional

N, K, GROUP = 32, 128, 32


def words(*shape: int) -> Any:
    return torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32)


class Model(nn.Module):
    """A product with `weights()`, 16-bit floats of the module's state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("shifts", torch.arange(0, 32, 4, dtype=torch.int32))
        self.state()

    def give(self, **state: Any) -> None:
        for name, value in state.items():
            self.register_buffer(name, value.half() if value.is_floating_point() else value)

    def forward(self, x: Any) -> Any:
        return F.linear(x, self.weights())


class Words(Model):
    """Eight to a word along K, with zeros that are floats, and shifts of int64."""

    def state(self) -> None:
        self.give(w=words(N, K // 8), s=torch.rand(N, K // GROUP), z=15 * torch.rand(N, K // GROUP))

    def weights(self) -> Any:
        w = ((self.w[:, :, None] >> torch.arange(0, 32, 4)) & 15).reshape(N, K // GROUP, GROUP).half()
        return ((w - self.z[:, :, None]) * self.s[:, :, None]).reshape(N, K)


class WholeZeros(Model):
    """The same with zeros in words too, one less than they are, which are subtracted as integers."""

    def state(self) -> None:
        self.give(w=words(N, K // 8), s=torch.rand(N, K // GROUP), z=words(N, 1))

    def weights(self) -> Any:
        w = ((self.w.unsqueeze(-1) >> self.shifts) & 15).to(torch.int8).reshape(N, -1, GROUP)
        z = (((self.z.unsqueeze(-1) >> self.shifts) & 15).to(torch.int8) + 1).reshape(N, -1, 1)
        return ((w - z[:, : K // GROUP]) * self.s[:, :, None]).reshape(N, K)


class Pairs(Model):
    """Two to a byte and signed, as torchao has them, with a scale for each row."""

    def state(self) -> None:
        self.give(w=torch.randint(0, 256, (N, K // 2), dtype=torch.uint8), s=torch.rand(N, 1))

    def weights(self) -> Any:
        w = torch.stack([self.w & 15, self.w >> 4], -1).reshape(N, K).to(torch.int8) - 8
        return w.half() * self.s


class Halves(Model):
    """Groups as rows, of which one half is in the upper bits, as HQQ has them."""

    def state(self) -> None:
        rows = N * K // GROUP
        bytes = torch.randint(0, 256, (rows // 2, GROUP), dtype=torch.uint8)
        self.give(w=bytes, s=torch.rand(rows, 1), z=15 * torch.rand(rows, 1))

    def weights(self) -> Any:
        half = self.w.shape[0]
        w = torch.empty((2 * half, GROUP), dtype=torch.uint8)
        w[:half] = (self.w & 0xF0) >> 4
        w[half:] = self.w & 0x0F
        return ((w.half() - self.z) * self.s).reshape(N, K)


class Columns(Model):
    """Words along the rows of `[K, N]`, as GPTQ has them, with shifts that are a plain attribute."""

    def state(self) -> None:
        self.wf = torch.tensor([list(range(0, 32, 4))], dtype=torch.int32)
        self.give(w=words(K // 8, N), s=torch.rand(K // GROUP, N), z=words(K // GROUP, N // 8))

    def weights(self) -> Any:
        z = torch.bitwise_right_shift(self.z.unsqueeze(2).expand(-1, -1, 8), self.wf.unsqueeze(0))
        z = (torch.bitwise_and(z.to(torch.int8), 15) + 1).reshape(-1, 1, N)
        w = torch.bitwise_right_shift(self.w.unsqueeze(1).expand(-1, 8, -1), self.wf.unsqueeze(-1))
        w = torch.bitwise_and(w.to(torch.int8), 15).reshape(-1, GROUP, N)
        return (self.s.reshape(-1, 1, N) * (w - z)).reshape(K, N)

    def forward(self, x: Any) -> Any:
        return torch.matmul(x, self.weights())


FORMS = {Words: "u4", WholeZeros: "u4", Pairs: "s4", Halves: "u4", Columns: "u4"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_products_read_weights_of_4_bits(form: Any):
    model, x = form().eval(), torch.rand(4, K).half()
    made = from_torch(model, (x,))
    (kernel,) = made.program.kernels
    assert f": {FORMS[form]}[{N}, {K}]" in made.text and "dequantize(" in made.text, made.text
    assert "shift" not in made.text and len(kernel.parameters) <= 4
    assert all(d.is_good for d in made.verify(x))


def test_weights_are_packed_once_for_each_version_of_the_state(monkeypatch: pytest.MonkeyPatch):
    from mucc.library import packing

    packed: list[object] = []
    pack = packing.pack_u4

    def noted(w: Any) -> Any:
        packed.append(w)
        return pack(w)

    monkeypatch.setattr(packing, "pack_u4", noted)
    model, x = Columns().eval(), torch.rand(4, K).half()
    driver = from_torch(model, (x,)).interpreted()
    for _ in range(2):
        torch.testing.assert_close(driver(x), model(x), rtol=1e-2, atol=1e-2)
    assert len(packed) == 1
    model.w.copy_(words(K // 8, N))
    torch.testing.assert_close(driver(x), model(x), rtol=1e-2, atol=1e-2)
    assert len(packed) == 2


def test_what_torch_computes_of_packed_weights_is_unpacked():
    model, x = Words().eval(), torch.rand(4, K).half()
    made = from_torch(model, (x,), target="sm_90a")
    from mucc.torch.importer.capture import capture
    from mucc.torch.importer.program import formats, import_graph
    from mucc.torch.importer.python import ImportedModule

    refused = import_graph(capture(model, (x,)), "none", formats(None), lambda text: "refused")
    driver = ImportedModule(model, refused, made.target)
    assert not refused.kernels and "unpacked(" in driver.driver
    torch.testing.assert_close(driver.interpreted()(x), model(x), rtol=1e-2, atol=1e-2)


def test_a_module_in_training_and_other_readers_keep_their_words():
    class Shown(Words):
        def forward(self, x: Any) -> Any:
            w = (self.w[:, :, None] >> self.shifts) & 15
            return F.linear(x, w.reshape(N, K).half()), w

    class Wraps(Pairs):
        def weights(self) -> Any:
            w = torch.stack([self.w & 15, self.w >> 4], -1).reshape(N, K) - 8  # bytes: 0 - 8 is 248
            return w.half() * self.s

    x = torch.rand(4, K).half()
    for model in (Words().train(), Wraps().eval(), Shown().eval()):
        made = from_torch(copy.deepcopy(model), (x,))
        assert "4[" not in made.text and all(d.is_good for d in made.verify(x)), made.text
