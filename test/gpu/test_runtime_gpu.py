"""The runtime on a GPU: numbers, refusals, streams, graphs, torch.compile, several devices."""

from __future__ import annotations

import ctypes
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mucc.measure.verify import compare
from mucc.runtime import Kernel, MuccError

Example = Callable[[str], Any]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def normal(torch: Any, *shape: int, dtype: str = "bfloat16", device: Any = "cuda", scale: float = 1.0) -> Any:
    """Random numbers, other ones in every run."""
    return (torch.randn(*shape, device=device) * scale).to(getattr(torch, dtype))


def layer(torch: Any, m: int, n: int, k: int, device: Any = "cuda") -> tuple[Any, Any, Any]:
    x = normal(torch, m, k, device=device)
    return x, normal(torch, n, k, device=device, scale=k**-0.5), normal(torch, n, device=device)


def gelu(torch: Any, x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.gelu(x.double() @ w.double().T + b.double())


def agrees(torch: Any, out: Any, ref: Any) -> None:
    dtype = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}[out.dtype]
    verdict = compare("y", dtype, out.double(), ref.to(out.dtype).double(), torch)
    assert verdict.good, verdict


SIZES = [
    (1, 8, 8),
    (1, 256, 512),
    (3, 8, 72),
    (127, 264, 200),
    (129, 128, 64),
    (257, 1000, 1000),
    (1024, 2048, 512),
]


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_odd_sizes(torch: Any, example: Example, m: int, n: int, k: int) -> None:
    kernel = example("linear_gelu").linear_gelu
    args = layer(torch, m, n, k)
    out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    assert kernel(*args, out=out) is out
    agrees(torch, out, gelu(torch, *args))
    agrees(torch, kernel(*args), gelu(torch, *args))


def test_nothing_is_written_outside_the_output(torch: Any, example: Example) -> None:
    kernel = example("linear_gelu").linear_gelu
    m, n, k = 77, 264, 136
    args = layer(torch, m, n, k)
    guard = torch.full((m + 256, n), 7.0, device="cuda", dtype=torch.bfloat16)
    kernel(*args, out=guard[128 : 128 + m])
    agrees(torch, guard[128 : 128 + m], gelu(torch, *args))
    assert bool((guard[:128] == 7).all()) and bool((guard[128 + m :] == 7).all())


def test_every_door_gives_the_same_bits(torch: Any, example: Example) -> None:
    module = example("linear_gelu")
    kernel: Kernel = module.linear_gelu
    m, n, k = 200, 512, 256
    args = layer(torch, m, n, k)
    outs = [torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    kernel.ffi(*args, outs[0])
    kernel.launch(*args, outs[1])
    size = kernel.workspace_bytes(*args, outs[2])
    space = torch.empty(size, dtype=torch.uint8, device="cuda")
    door = ctypes.CDLL(str(module.path)).mucc_linear_gelu
    door.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    # A MuccTensor is a DLTensor, and that is what a DLPack capsule points to.
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsules = [t.__dlpack__() for t in (*args, outs[2])]
    packed = b"".join(ctypes.string_at(pointer(c, b"dltensor"), 48) for c in capsules)
    stream = torch.cuda.current_stream().cuda_stream
    assert door(packed, 4, space.data_ptr() if size else None, size, stream) == 0
    torch.cuda.synchronize()
    for other in (*outs[1:], kernel(*args), kernel.op(*args)):
        assert torch.equal(outs[0], other)


def test_scalars_and_vectors(torch: Any, example: Example) -> None:
    kernel = example("scaled").scaled
    m, n, k = 130, 264, 200
    x, w = normal(torch, m, k, dtype="float16"), normal(torch, n, k, dtype="float16", scale=k**-0.5)
    rows, cols = (torch.rand(s, device="cuda") + 0.5 for s in (m, n))
    base = rows.double()[:, None] * (x.double() @ w.double().T) * cols.double()
    for alpha in (0.5, 2, torch.tensor(0.75)):
        agrees(torch, kernel(x, w, rows, cols, alpha), base * float(alpha))


def test_several_outputs(torch: Any, example: Example) -> None:
    kernel = example("two_outputs_amax").linear_amax
    args = layer(torch, 300, 520, 264)
    ref = torch.relu(args[0].double() @ args[1].double().T + args[2].double())
    for _ in range(3):  # a reduction must start anew each time
        y, amax = kernel(*args)
        agrees(torch, y, ref)
        agrees(torch, amax, ref.abs().max())


def test_stages_and_workspace(torch: Any, example: Example) -> None:
    kernel = example("mlp").mlp
    for m, d, h in [(64, 128, 512), (1, 8, 16), (500, 256, 1024), (33, 128, 512)]:
        x, w1, b1 = layer(torch, m, h, d)
        _, w2, b2 = layer(torch, m, d, h)
        hidden = torch.nn.functional.gelu(x.double() @ w1.double().T + b1.double(), approximate="tanh")
        ref = hidden.bfloat16().double() @ w2.double().T + b2.double()
        agrees(torch, kernel(x, w1, b1, w2, b2), ref)
        out = torch.empty(m, d, device="cuda", dtype=torch.bfloat16)
        kernel.ffi(x, w1, b1, w2, b2, out)  # with the library's own workspace
        agrees(torch, out, ref)


def test_the_workspace_is_reused(torch: Any, example: Example) -> None:
    kernel = example("mlp").mlp
    x, w1, b1 = layer(torch, 256, 512, 128)
    _, w2, b2 = layer(torch, 256, 128, 512)
    out = kernel(x, w1, b1, w2, b2)
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(10):
        kernel(x, w1, b1, w2, b2, out=out)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_calls_keep_no_tensor(torch: Any, example: Example) -> None:
    """Neither a call nor a CUDA graph that is gone holds memory."""
    kernel = example("linear_gelu").linear_gelu

    def used() -> int:
        x, w, b = layer(torch, 512, 1024, 512)
        y = kernel(x, w, b)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            kernel(x, w, b, out=y)
        graph.replay()
        torch.cuda.synchronize()
        del x, w, b, y, graph
        gc.collect()
        return torch.cuda.memory_allocated()

    before = used()
    assert [used() for _ in range(3)] == [before] * 3


def off_by_one(x: Any) -> Any:
    """The same numbers, one element behind an aligned address."""
    return x.new_empty(x.numel() + 1)[1:].view_as(x).copy_(x)


BAD: list[tuple[str, str, Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]]] = [
    ("dtype", "MU6003", lambda t, x, w, b: (x.half(), w, b)),
    ("rank", "MU6004", lambda t, x, w, b: (x[None], w, b)),
    ("device", "MU6005", lambda t, x, w, b: (x, w.cpu(), b)),
    ("all on the CPU", "MU6005", lambda t, x, w, b: (x.cpu(), w.cpu(), b.cpu())),
    ("shape", "MU6006", lambda t, x, w, b: (x, w[:, :-8].contiguous(), b)),
    ("broadcast bias", "MU6006", lambda t, x, w, b: (x, w, b[:1])),
    ("empty", "MU6007", lambda t, x, w, b: (x[:0], w, b)),
    ("slice", "MU6008", lambda t, x, w, b: (x[:, ::2], w[:, ::2], b)),
    ("transposed", "MU6008", lambda t, x, w, b: (x.T.contiguous().T, w, b)),
    ("expanded", "MU6008", lambda t, x, w, b: (x[:1].expand(64, -1), w, b)),
    ("misaligned", "MU6009", lambda t, x, w, b: (off_by_one(x), w, b)),
    ("promise", "MU6011", lambda t, x, w, b: (x[:, :-4].contiguous(), w[:, :-4].contiguous(), b)),
    ("kind", "MU6002", lambda t, x, w, b: (x, w, None)),
    ("numpy", "MU6041", lambda t, x, w, b: (x.float().cpu().numpy(), w, b)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "spoil"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_arguments_launch_nothing(torch: Any, example: Example, code: str, spoil: Any) -> None:
    kernel = example("linear_gelu").linear_gelu
    args = layer(torch, 64, 128, 96)
    with pytest.raises(MuccError) as caught:
        kernel(*spoil(torch, *args))
    assert caught.value.code == code
    agrees(torch, kernel(*args), gelu(torch, *args))  # and the GPU is as well as before


def test_free_strides(torch: Any, example: Example) -> None:
    kernel = example("layouts").view
    b = normal(torch, 64, 72, scale=72**-0.5)
    padded = normal(torch, 33, 80)[:, :72]
    agrees(torch, kernel(padded, b), padded.double() @ b.double().T)
    with pytest.raises(MuccError) as refused:
        kernel(normal(torch, 33, 75)[:, :72], b)
    assert refused.value.code == "MU6009"


def test_bad_outputs(torch: Any, example: Example) -> None:
    kernel = example("linear_gelu").linear_gelu
    args = layer(torch, 64, 128, 96)
    good = torch.empty(64, 128, dtype=torch.bfloat16, device="cuda")
    for out, code in [
        (good.float(), "MU6003"),
        (good[:63], "MU6006"),
        (good.T.contiguous().T, "MU6008"),
        (3, "MU6002"),
    ]:
        with pytest.raises(MuccError, match=f"{code}: argument '"):
            kernel(*args, out=out)


def test_cuda_graph(torch: Any, example: Example) -> None:
    kernel = example("linear_gelu").linear_gelu
    x, w, b = layer(torch, 64, 256, 128)
    kernel(x, w, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernel(x, w, b)
    for _ in range(3):
        x.copy_(normal(torch, 64, 128))
        y.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        agrees(torch, y, gelu(torch, x, w, b))


def test_cuda_graph_with_a_workspace_of_its_own(torch: Any, example: Example) -> None:
    kernel = example("mlp").mlp
    x, w1, b1 = layer(torch, 192, 512, 128)
    _, w2, b2 = layer(torch, 192, 128, 512)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # not even a first call outside is needed
        y = kernel(x, w1, b1, w2, b2)
    x.copy_(normal(torch, 192, 128))
    graph.replay()
    torch.cuda.synchronize()
    hidden = torch.nn.functional.gelu(x.double() @ w1.double().T + b1.double(), approximate="tanh")
    agrees(torch, y, hidden.bfloat16().double() @ w2.double().T + b2.double())


def test_the_raw_door_does_not_allocate_during_capture(torch: Any, example: Example) -> None:
    kernel = example("mlp").mlp
    x, w1, b1 = layer(torch, 4096, 4096, 128)
    _, w2, b2 = layer(torch, 4096, 128, 4096)
    out = torch.empty(4096, 128, dtype=torch.bfloat16, device="cuda")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            with pytest.raises(MuccError, match="MU6014"):
                kernel.launch(x, w1, b1, w2, b2, out)
        finally:
            graph.capture_end()
    kernel.launch(x, w1, b1, w2, b2, out)
    torch.cuda.synchronize()
    assert bool(out.isfinite().all())


def test_other_streams(torch: Any, example: Example) -> None:
    kernel = example("linear_gelu").linear_gelu
    x, w, b = layer(torch, 512, 1024, 512)
    ref = gelu(torch, x, w, b)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)  # a launch on another stream than `side` would overtake the fill below
        x2 = torch.zeros_like(x)
        x2.copy_(x)
        first = kernel(x2, w, b)
    second = kernel(x2, w, b, stream=side)
    third = kernel(x2, w, b, stream=side.cuda_stream)
    side.synchronize()
    for out in (first, second, third):
        agrees(torch, out, ref)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_torch_compile(torch: Any, example: Example, mode: str) -> None:
    kernel = example("linear_gelu").linear_gelu
    torch.compiler.reset()

    @torch.compile(fullgraph=True, mode=mode)
    def function(x: Any, w: Any, b: Any) -> Any:
        return kernel(x * 2, w, b) + 1

    for m in (64, 64, 96):
        x, w, b = layer(torch, m, 256, 128)
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            agrees(torch, function(x, w, b), gelu(torch, x * 2, w, b).bfloat16().double() + 1)


def test_the_operator_is_well_formed(torch: Any, example: Example) -> None:
    kernel = example("linear_gelu").linear_gelu
    torch.library.opcheck(
        kernel.op, layer(torch, 64, 256, 128), test_utils=("test_schema", "test_faketensor")
    )


def test_two_devices(torch: Any, example: Example) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    kernel = example("linear_gelu").linear_gelu
    for index in (1, 0, 1):
        args = layer(torch, 200, 264, 136, device=f"cuda:{index}")
        agrees(torch, kernel(*args), gelu(torch, *args))
        assert torch.cuda.current_device() == 0
    x, w, b = layer(torch, 64, 128, 96)
    with pytest.raises(MuccError, match=r"MU6005: argument 'w' .* got one on cuda:1"):
        kernel(x, w.to("cuda:1"), b)
    with torch.cuda.device(1):
        args = layer(torch, 200, 264, 136, device="cuda:1")
        agrees(torch, kernel(*args), gelu(torch, *args))
        assert torch.cuda.current_device() == 1


def test_many_calls_with_changing_tensors(torch: Any, example: Example) -> None:
    """What a library remembers of its last calls must not be used for other pointers or sizes."""
    kernel = example("linear_gelu").linear_gelu
    sets = [layer(torch, m, n, k) for m in (8, 136) for n in (128, 264) for k in (64, 200)]
    refs = [gelu(torch, *s) for s in sets]
    for _ in range(4):
        order = torch.randperm(len(sets)).tolist()
        for i, out in [(i, kernel(*sets[i])) for i in order]:
            agrees(torch, out, refs[i])


def test_each_kernel_of_a_run_is_timed(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from mucc.cli.main import main

    path = Path(__file__).resolve().parents[2] / "examples" / "mlp.mcu"
    given = ["run", str(path), "--dims", "M=2048,D=1024,H=4096", "--iters", "20", "--profile", "--json"]
    assert main(given) == 0
    report = json.loads(capsys.readouterr().out)
    stages = report["stages"]
    assert [s["name"] for s in stages] == ["h", "out"]
    assert all(0.2 < s["share_of_bound"] <= 1 for s in stages)
    assert 0.7 < sum(s["time_us"] for s in stages) / report["time_us"] < 1.4
