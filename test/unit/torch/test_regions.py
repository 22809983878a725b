"""The choice of regions: what of Inductor's graph becomes kernels of mucc, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

from inductor import Graphs, Mlp, backend, calls  # noqa: E402 (it needs torch)

pytestmark = pytest.mark.usefixtures("compiled_anew")


def test_products_are_taken_with_what_follows_them(monkeypatch: pytest.MonkeyPatch):
    graphs, made = Graphs(monkeypatch), backend()
    model, x = Mlp().to(torch.bfloat16), torch.rand(4096, 64).to(torch.bfloat16)
    with torch.no_grad():
        got = torch.compile(model, backend=made)(x)
        torch.testing.assert_close(got, model(x), rtol=2e-2, atol=2e-2)
    first = made.programs[0].kernels[0]
    assert "gelu(" in made.programs[0].text() and any("addmm" in n.name for n in first.piece.nodes)
    assert "mucc.run_kernel.default" in graphs.targets() and "aten.erf.default" not in graphs.targets()
    taken = [d for d in made.divided[0].choice.decisions if d.taken]
    assert taken and all(d.gain > 0.05 * d.mucc for d in taken)


def test_what_gains_nothing_is_inductors_own_graph(monkeypatch: pytest.MonkeyPatch):
    from mucc.runtime.build import MuccWarning
    from mucc.torch.backend.passes import RegionsPass

    def f(x: Any, w: Any) -> Any:
        return torch.softmax(x @ w, -1).sum(0) + torch.cumsum(x, 1).mean()

    x, w = torch.rand(4, 8), torch.rand(8, 8)
    graphs, made = Graphs(monkeypatch), backend()
    with pytest.warns(MuccWarning, match="MU7064") as warned:
        torch.compile(f, backend=made)(x, w)
    assert len([w for w in warned if "MU7064" in str(w.message)]) == 1
    ours = graphs.targets()
    torch._dynamo.reset()
    graphs.graphs.clear()
    monkeypatch.setattr(RegionsPass, "__call__", lambda self, graph: None)
    torch.compile(f, backend=backend())(x, w)
    assert ours == graphs.targets() and not made.programs


def test_the_margin_decides():
    model, x = Mlp().to(torch.bfloat16), torch.rand(4096, 64).to(torch.bfloat16)
    with torch.no_grad():
        counts: list[int] = []
        for margin in (0.0, 100.0):
            torch._dynamo.reset()
            made = backend(margin=margin)
            torch.compile(model, backend=made)(x)
            counts.append(calls(made))
    assert counts[0] > 0 and counts[1] == 0


def test_a_graph_that_gains_little_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import regions
    from mucc.torch.backend.passes import RegionsPass

    model, x = Mlp().to(torch.bfloat16), torch.rand(4096, 64).to(torch.bfloat16)
    begun: list[Any] = []
    monkeypatch.setattr(RegionsPass, "begin", lambda *given: begun.append(given[2]))
    counts: list[int] = []
    for least in (0.0, 10.0):
        monkeypatch.setattr(regions, "LEAST", least)
        torch._dynamo.reset()
        made = backend(margin=0.0)
        with torch.no_grad():
            torch.compile(model, backend=made)(x)
        counts.append(calls(made))
        assert bool(begun) == bool(counts[-1])
        begun.clear()
    assert counts[0] > 0 and counts[1] == 0
    reasons = [d.reason for d in made.divided[0].choice.decisions]
    assert any("less than 1000% of the graph" in r for r in reasons)


def test_what_surrounds_a_pool_is_fused_with_it_by_inductor(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import expected, fusible

    pool = nn.Sequential(nn.MaxPool2d(2), nn.GELU(), nn.Flatten(), nn.Linear(400, 120)).to(torch.bfloat16)
    x = torch.rand(64, 16, 10, 10).to(torch.bfloat16)
    seconds: list[float] = []
    for name in (fusible.POOLING, "no such pool"):
        monkeypatch.setattr(fusible, "POOLING", name)
        torch._dynamo.reset()
        made = backend(margin=0.0)
        with torch.no_grad():
            torch.compile(pool, backend=made)(x)
        seconds.append(made.divided[0].choice.alone)
    fused, apart = seconds
    assert fused < apart - expected.LAUNCH


def test_two_products_of_one_operand_are_one_region():
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = (nn.Linear(128, 1024, bias=False) for _ in range(2))

        def forward(self, x: Any) -> Any:
            return F.silu(self.gate(x)) * self.up(x)

    model, x = Gated().to(torch.bfloat16), torch.rand(2, 1024, 128).to(torch.bfloat16)
    made = backend()
    with torch.no_grad():
        got = torch.compile(model, backend=made)(x)
        torch.testing.assert_close(got, model(x), rtol=2e-2, atol=2e-2)
    (kernel,) = made.programs[0].kernels
    assert made.programs[0].text().count("@") == 2 and kernel.results[0].meta["val"].shape == (2, 1024, 1024)


def test_a_cheaper_end_is_left_to_what_follows():
    """A norm behind a residual sum reads it in f32: the region stores the sum, not its f32."""
    norm, linear = nn.LayerNorm(256), nn.Linear(64, 256)

    def f(x: Any, y: Any) -> Any:
        z = y + linear(x)
        return norm(z), z

    for module in (norm, linear):
        module.to(torch.bfloat16)
    made = backend(margin=-1.0)
    x, y = torch.rand(4096, 64).to(torch.bfloat16), torch.rand(4096, 256).to(torch.bfloat16)
    with torch.no_grad():
        torch.compile(f, backend=made)(x, y)
    results = [r.meta["val"].dtype for p in made.programs for k in p.kernels for r in k.results]
    assert results and all(dtype == torch.bfloat16 for dtype in results)


@pytest.mark.parametrize(("heads", "causal"), [(4, True), (2, False)])
def test_attention_is_one_operation_of_a_kernel(heads: int, causal: bool):
    """Inductor sees attention as PyTorch's backend for the device, with fewer heads of keys too."""

    def f(q: Any, k: Any, v: Any) -> Any:
        grouped = k.shape[1] != q.shape[1]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped) * 2

    q, k, v = (torch.rand(2, n, 6, 8) for n in (4, heads, heads))
    made = backend(regions="all")
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(q, k, v), f(q, k, v))
    assert "attention(" in made.programs[0].text()


def _written_out(relu: bool, batch: int, length: int, heads: int, width: int) -> Any:
    """Return causal attention of `[batch, length, 3 * heads * width]` in operations of its own."""

    def f(qkv: Any) -> Any:
        q, k, v = qkv.view(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * width**-0.5
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        weights = torch.relu(scores) if relu else torch.softmax(scores, -1)
        return (weights @ v).transpose(1, 2).reshape(batch, length, heads * width)

    return f


@pytest.mark.parametrize("relu", [False, True])
def test_attention_that_is_written_out_is_put_together(relu: bool):
    """PyTorch gives products of batches one axis of batches, and softmax as its parts."""
    from mucc.frontend.source import kernel_text

    made, qkv = backend(regions="all"), torch.randn(2, 7, 3 * 4 * 8, dtype=torch.bfloat16)
    f = _written_out(relu, 2, 7, 4, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(qkv), f(qkv), rtol=3e-2, atol=3e-2)
    (kernel,) = made.programs[0].kernels
    text = kernel_text(kernel.op)
    assert text.count("@") == 2 and "exp(" not in text and ("softmax(" in text) != relu
    assert "(8, 7, 7)" not in text, "heads are an axis of their own"


@pytest.mark.parametrize("relu", [False, True])
def test_both_products_of_attention_may_be_one_region(relu: bool):
    import mucc

    x = torch.zeros(4, 512, 3 * 8 * 64, dtype=torch.bfloat16)
    report = mucc.explain(_written_out(relu, 4, 512, 8, 64), x, device="h100_sxm", margin=-0.2)
    (taken,) = (p for p in report.graphs[0].parts if p.is_kernel)
    assert sum("bmm" in operation for operation in taken.operations) == 2


def test_attention_adds_another_product_to_its_scores():
    """DeBERTa and Transformer-XL add products with relative positions, which attention reads."""
    from mucc.frontend.source import kernel_text

    def f(q: Any, k: Any, v: Any, p: Any, places: Any) -> Any:
        relative = torch.gather(q @ p.mT, -1, places.expand(16, 512, 512))
        return ((q @ k.mT + relative) * 0.125).softmax(-1) @ v

    made = backend(target="sm_90a")
    q, k, v, p = (torch.randn(16, n, 64, dtype=torch.bfloat16) for n in (512, 512, 512, 128))
    places = torch.randint(0, 128, (1, 512, 512))
    with torch.no_grad():
        ours, theirs = (g(q, k, v, p, places) for g in (torch.compile(f, backend=made), f))
    torch.testing.assert_close(ours, theirs, rtol=3e-2, atol=3e-2)
    (kernel,) = made.programs[0].kernels
    text = kernel_text(kernel.op)
    assert text.count("@") == 2 and "softmax(" in text


def _shifted(scores: Any) -> Any:
    """Shift row i of scores by i places, as Transformer-XL and Conformer do with those of positions."""
    batch, heads, rows, columns = scores.shape
    padded = F.pad(scores, (1, 0)).view(batch, heads, columns + 1, rows)
    return padded[:, :, 1:].view(batch, heads, rows, columns)


def _relative(qkv: Any, p: Any, u: Any, v: Any) -> Any:
    """Return attention with relative positions of parts of a projection; two things read the queries."""
    q, key, value = (t.unflatten(-1, (8, 64)).transpose(1, 2) for t in qkv.chunk(3, -1))
    scores = (q + u) @ key.mT + _shifted((q + v) @ p.mT)
    return (scores * 0.125).softmax(-1) @ value


def _relative_inputs(length: int) -> list[Any]:
    shapes = ((8, length, 3 * 512), (8, length, 64), (8, 1, 64), (8, 1, 64))
    return [torch.randn(shape).to(torch.bfloat16) for shape in shapes]


def test_attention_reads_shifted_scores_and_parts_of_a_projection():
    """Inductor stores shifted scores once, as the kernel reads them; queries are read outside of it too."""
    made = backend(target="sm_90a")
    shapes = ((8, 512, 3 * 512), (8, 512, 64), (8, 1, 64), (8, 1, 64))
    given = [torch.randn(shape).to(torch.bfloat16) for shape in shapes]
    with torch.no_grad():
        got = torch.compile(_relative, backend=made)(*given)
    torch.testing.assert_close(got, _relative(*given), rtol=3e-2, atol=3e-2)
    (program,) = made.programs
    text = program.text()
    assert text.count("@") == 2 and "softmax(" in text
    assert "x: bf16[8, 512, 1536]" in text and "bf16[8, 8, 512, 512]" in text


def _grouped_weights(x: Any, w: Any, s: Any, z: Any) -> Any:
    """Multiply by weights with scales and zeros of groups of columns, as GPTQ and HQQ have them."""
    wide = (w.view(*s.shape, -1).to(x.dtype) - z[..., None]) * s[..., None]
    return F.linear(x, wide.view(w.shape))


def _repeated_scales(x: Any, w: Any, s: Any, z: Any) -> Any:
    count = w.shape[1] // s.shape[1]
    s, z = (t.repeat_interleave(count, 1) for t in (s, z))
    return F.linear(x, (w.to(x.dtype) - z) * s)


def _scaled_rows(x: Any, w: Any, s: Any, z: Any) -> Any:
    return x @ (s[:, :1] * w.to(x.dtype)).T


@pytest.mark.parametrize("multiply", [_grouped_weights, _repeated_scales, _scaled_rows])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_products_convert_weights_that_a_model_dequantises(multiply: Any, dtype: Any):
    made, w = backend(margin=-100.0), torch.randint(0, 127, (64, 256)).to(dtype)
    x, s, z = (torch.rand(shape).to(torch.bfloat16) for shape in ((3, 16, 256), (64, 4), (64, 4)))
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(multiply, backend=made)(x, w, s, z), multiply(x, w, s, z), rtol=3e-2, atol=3e-2
        )
    assert "dequantize(" in made.programs[0].text()


def _along_the_other_axis(x: Any, w: Any, s: Any) -> Any:
    return x @ (w.T.to(x.dtype) * s[:, None])


def _by_neighbours(x: Any, w: Any, s: Any) -> Any:
    """The scale of an element is not that of its row in the matrix that is multiplied."""
    return F.linear(x, (w.view(2, 64, 32).to(x.dtype) * s[:, None]).view(64, 64))


@pytest.mark.parametrize("multiply", [_along_the_other_axis, _by_neighbours])
def test_what_only_looks_like_weights_of_groups_stays_as_it_is(multiply: Any):
    made, w = backend(regions="all"), torch.randint(0, 256, (64, 64)).to(torch.uint8)
    x, s = (torch.rand(shape).to(torch.bfloat16) for shape in ((16, 64), (64,)))
    ours, theirs = (f(x, w, s) for f in (torch.compile(multiply, backend=made), multiply))
    torch.testing.assert_close(ours, theirs, rtol=3e-2, atol=3e-2)
    assert made.programs and "dequantize(" not in made.programs[0].text()


def test_a_token_reads_its_cache_where_it_is(monkeypatch: pytest.MonkeyPatch):
    """Keys and values that heads of queries repeat are copied by Inductor alone; that counts against it."""

    def f(q: Any, k: Any, v: Any) -> Any:
        k, v = (x[:, :, None].expand(16, 8, 4, 512, 128).reshape(16, 32, 512, 128) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v)

    q, k, v = (torch.rand(16, h, n, 128, dtype=torch.bfloat16) for h, n in ((32, 1), (8, 512), (8, 512)))
    graphs, made = Graphs(monkeypatch), backend()
    with torch.no_grad():
        got = torch.compile(f, backend=made)(q, k, v)
    torch.testing.assert_close(got, f(q, k, v), rtol=2e-2, atol=2e-2)
    assert graphs.targets().count("mucc.run_kernel.default") == 1
    (decision,) = made.divided[0].choice.decisions
    rate = made.graph_pass(made.options, "sm_90a", True).costs.rates["dram"]
    copied = 2 * k.numel() * k.element_size() * (1 + 4) / rate
    assert decision.taken and decision.inductor > copied > decision.mucc
    assert made.divided[0].choice.rest < 1e-6, "no copy is left"


@pytest.mark.parametrize(("heads", "causal"), [(4, False), (4, True)])
def test_attention_is_trained_by_operations_of_kernels(heads: int, causal: bool):
    """The log-sum-exp passes from the graph of the forward to that of the backward pass."""

    def f(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal) * 2

    inputs = [torch.rand(2, n, 6, 8, requires_grad=True) for n in (4, heads, heads)]
    made = backend(regions="all")
    found = torch.autograd.grad(torch.compile(f, backend=made)(*inputs).square().sum(), inputs)
    expected = torch.autograd.grad(f(*inputs).square().sum(), inputs)
    torch.testing.assert_close(found, expected)
    text = "".join(program.text() for program in made.programs)
    assert "attention_logsumexp(" in text
    assert all(f"attention_d{x}(" in text for x in "qkv")


def test_gradients_of_a_softmax_are_part_of_kernels():
    """Inductor writes them with a primitive of its own, `fma`."""

    def f(x: Any, w: Any) -> Any:
        return (x @ w).softmax(-1)

    made = backend(regions="all")
    given = [[torch.rand(6, 8, requires_grad=True), torch.rand(8, 5, requires_grad=True)] for _ in range(2)]
    for ours, theirs in zip(*given, strict=True):
        ours.data.copy_(theirs.data)
    for function, inputs in ((torch.compile(f, backend=made), given[0]), (f, given[1])):
        function(*inputs).square().sum().backward()
    for ours, theirs in zip(*given, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    (kernel,) = made.programs[1].kernels
    assert len(kernel.results) == 2


def test_parts_that_are_assigned_are_read_where_they_are():
    """DeepSeek fills queries and keys of an empty tensor so; no kernel reads or fills that."""
    from mucc.frontend.source import kernel_text

    def f(a: Any, b: Any) -> Any:
        q = a.new_empty(4, 12)
        q[:, :8] = a
        q[:, 8:] = b
        return q @ q.T

    made, given = backend(regions="all"), (torch.rand(4, 8), torch.rand(4, 4))
    torch.testing.assert_close(torch.compile(f, backend=made)(*given), f(*given))
    (kernel,) = made.programs[0].kernels
    text = kernel_text(kernel.op)
    assert "concat(x, x1, axis=1)" in text and "full" not in text


def test_powers_of_numbers_are_part_of_kernels():
    def f(x: Any, w: Any) -> Any:
        return 2 ** (x @ w) + 0.5 ** x.sum() + 2.5 ** x[:1].int()

    made, given = backend(regions="all"), (torch.rand(4, 8), torch.rand(8, 8))
    torch.testing.assert_close(torch.compile(f, backend=made)(*given), f(*given))
    assert len(made.programs[0].kernels) == 1


def test_counting_along_an_axis_is_part_of_a_kernel():
    def f(x: Any) -> Any:
        return torch.where(torch.arange(2, 14, 2) > 5, x, 0.0).exp()

    made, x = backend(regions="all"), torch.rand(3, 6)
    torch.testing.assert_close(torch.compile(f, backend=made)(x), f(x))
    (kernel,) = made.programs[0].kernels
    assert len(kernel.parameters) == 1


def _split(x: Any) -> Any:
    """Split a projection as nanoGPT and GPT-2 do."""
    q, k, v = x[..., :768].split(256, dim=2)
    return tuple(t.view(2, 9, 4, 64).transpose(1, 2) for t in (q, k, v))


def _unbound(x: Any) -> Any:
    """Divide a projection as vision transformers do."""
    return x[..., :768].reshape(2, 9, 3, 4, 64).permute(2, 0, 3, 1, 4).unbind(0)


def _by_head(x: Any) -> Any:
    """Divide a projection whose heads have a query, a key and a value each, as in Bloom."""
    heads = x[..., :768].view(2, 9, 4, 3, 64)
    return tuple(heads[..., i, :].transpose(1, 2) for i in range(3))


def _grouped(x: Any) -> Any:
    """Divide a projection to queries and fewer keys and values, which are repeated, as in Phi-3."""
    q, k, v = x[..., :256], x[..., 256:384], x[..., 384:512]
    q, k, v = (t.view(2, 9, t.shape[2] // 64, 64).transpose(1, 2) for t in (q, k, v))
    k, v = (t[:, :, None].expand(2, 2, 2, 9, 64).reshape(2, 4, 9, 64) for t in (k, v))
    return q, k, v


@pytest.mark.parametrize("divide", [_split, _unbound, _by_head, _grouped])
@pytest.mark.parametrize("written", [False, True])
def test_heads_of_a_projection_are_read_where_they_lie(divide: Any, written: bool):
    """A projection, attention and a product behind it are three kernels, or those of attention alone one."""
    from mucc.compiler.driver import compile_text
    from mucc.diagnostics import Source
    from mucc.dialects.mu.ops.stage import StageOp

    def f(x: Any, w: Any, u: Any) -> Any:
        q, k, v = divide(x @ w)
        if written:
            y = torch.softmax(q @ k.transpose(-2, -1) * 0.125, -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(2, 9, 256) @ u

    x, w, u = torch.randn(2, 9, 64), torch.randn(64, 768) / 8, torch.randn(256, 64) / 16
    given = [t.to(torch.bfloat16) for t in (x, w, u)]
    made = backend(regions="all")
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(*given), f(*given), rtol=3e-2, atol=3e-2)
    (program,) = made.programs
    stages = compile_text(Source("f.mcu", program.text())).stages
    kinds = [op.kind.data for op in stages.walk() if isinstance(op, StageOp)]
    assert kinds == ["contraction", "attention", "contraction"]
