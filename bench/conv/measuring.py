"""Times and errors of a convolution, all contenders on the same tensors. Imports torch where it is called."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from bench.conv.forms import ConvForm
from bench.gemm.measure import captured, timed
from bench.layers.measuring import ROUNDOFF, SLACK, TF32, draw, error_of
from bench.runner import Session, Values

Call = Callable[[], Any]


@contextlib.contextmanager
def searching(torch: Any, on: bool) -> Generator[None]:
    """Let cuDNN time its algorithms and take the fastest one, or not."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def laid(tensor: Any, form: ConvForm, *, last: bool) -> Any:
    """Return a tensor whose channels are innermost in memory, or the spatial axes; axes stay as they are."""
    rank = tensor.dim()
    if rank < 3 or last == form.channels_last:
        return tensor
    away, back = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    if not last:
        away, back = back, away
    return tensor.permute(away).contiguous().permute(back)


def widened(torch: Any, tensor: Any) -> Any:
    """Return a tensor of 8 bits as bf16, which holds its numbers, and others as they are."""
    return tensor.to(torch.bfloat16) if tensor.element_size() == 1 else tensor


def others(torch: Any, form: ConvForm, inputs: Sequence[Any], compiled: Sequence[str]) -> dict[str, Call]:
    """Return PyTorch's contenders by name. cuDNN has both orders of axes, where it has a layer in both."""
    layer = form.in_pytorch(torch)
    found: dict[str, Call] = {"eager": partial(layer, *inputs)}
    for name, last in (("nchw", False), ("nhwc", True)):
        if form.channels_last or inputs[0].dim() > 3 or not last:
            found[name] = partial(layer, *(laid(x, form, last=last) for x in inputs))
    for name, mode in (("compile", None), ("autotune", "max-autotune-no-cudagraphs")):
        if name in compiled:
            torch._dynamo.reset()
            found[name] = partial(torch.compile(layer, mode=mode, dynamic=False), *inputs)
    return found


def measure(session: Session, kernel: Any, form: ConvForm) -> Values:
    """One row: errors, times in ms, rates. A contender that cannot be run is named in `failed`.

    f32 is multiplied in tf32 by all, as PyTorch's convolutions do by default. `over_cudnn` is over the best
    of cuDNN's times, with its search and without.
    """
    torch = session.torch
    torch.manual_seed(0)
    given = [draw(torch, i) for i in form.inputs]
    theirs = [widened(torch, x) for x in given]
    result = kernel(*given)
    result.fill_(float("nan"))
    kernel(*given, out=result)
    moved, failed = sum(x.nbytes for x in (*given, result)), dict[str, str]()
    row: Values = {"bytes": moved, "failed": failed, **_judged(torch, form, theirs, result)}
    calls: dict[str, Call] = {"mucc": captured(torch, lambda: kernel(*given, out=result))}
    for name, call in others(torch, form, theirs, session.compiled).items():
        try:
            with searching(torch, name in ("nchw", "nhwc")):
                calls[name] = captured(torch, call)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:200]
    times = timed(torch, calls, session.rounds)
    mine = times["mucc"]
    row |= {f"{name}_ms": round(ms, 6) for name, ms in times.items()}
    row["of_copy"] = moved / mine * 1e3 / session.copy
    row["tflops"] = form.flops / mine * 1e-9
    best = {"cudnn": min((times[n] for n in ("eager", "nchw", "nhwc") if n in times), default=None)}
    named = {name: times[name] for name in ("eager", "compile", "autotune") if name in times}
    return row | {f"over_{name}": ms / mine for name, ms in {**named, **best}.items() if ms is not None}


def _judged(torch: Any, form: ConvForm, given: Sequence[Any], result: Any) -> Values:
    """The error of a result from float64, that of PyTorch, and whether the first is good.

    The first and the last element of the batch are judged: in float64 the whole of it can take seconds. Where
    they depend on others, the whole is held against PyTorch in f32 that is not rounded to tf32.
    """
    layer, worst = form.in_pytorch(torch), {"error": 0.0, "torch_error": 0.0}
    names = [i.name for i in form.inputs]
    if not form.batched:
        with torch.backends.cudnn.flags(allow_tf32=False):
            exact = layer(*(x.float() if x.is_floating_point() else x for x in given))
        worst = {
            "error": error_of(torch, result, exact),
            "torch_error": error_of(torch, layer(*given), exact),
        }
    for at in (0, result.shape[0] - 1) if form.batched else ():
        part = [x[at : at + 1] if name in form.batched else x for name, x in zip(names, given, strict=True)]
        exact = layer(*(x.double() for x in part))
        found = {"error": result[at : at + 1], "torch_error": layer(*part)}
        for name, value in found.items():
            worst[name] = max(worst[name], error_of(torch, value, exact))
    least = max(ROUNDOFF[str(result.dtype).removeprefix("torch.")], TF32)
    return {**worst, "good": worst["error"] <= max(SLACK * worst["torch_error"], least)}
