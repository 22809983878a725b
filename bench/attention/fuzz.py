"""Attention called with random lengths, scales and masks on this GPU, against float64.

    python -m bench.attention.fuzz --calls 600 -o build/attention_fuzz

A few programs are built (`--build-only` needs no GPU), and each is called many times: lengths of 1 to 5,000,
inputs times 1, 3 and 10, rows and sequences that see no key. A result is good where its error is at most
1.5 times that of softmax whose weights and result are rounded to the type of the inputs. `--on-host` needs no
GPU: the C++ of the kernels runs on the CPU (bench/host), which takes seconds for lengths of 200.
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench.attention.forms import FORMS, Form
from bench.common import at_least_one, run_main
from bench.runner import Options, build_problems, loaded
from mucc.library.errors import MuccError

LONGEST = 5000
SCORES = 1 << 25
"""The most scores of a call, all of which are computed in float64."""

KEYS_ON_HOST = 64
"""The fewest keys of f32 for which wgmma is used on the host, where calls are short."""

SLACK = 1.5
FLOOR = 2.0**-11
"""A relative error that is always good: scores have those of f32."""

ROUNDOFF = 2.0**-20
"""An error of gradients, relative to sums of the sizes of their parts, that is good."""

NARROW = 2.0**-9
"""The same of e4m3, and of its log-sum-exps: tensor cores add up products of 8 bits with about 14 bits."""

SUMS_FLOOR = 1e-5
"""An error of log-sum-exps, relative to their size and 1, that is good."""


class Call:
    """A call of a form: its inputs, and what it should give."""

    def __init__(self, torch: Any, form: Form, rng: random.Random, longest: int, device: str = "cuda"):
        self.torch, self.form, self.device = torch, form, device
        self.queries = 1 if form.few else round(math.exp(rng.uniform(0, math.log(longest))))
        self.keys = round(math.exp(rng.uniform(0, math.log(longest))))
        if form.page:
            self.keys = -(-self.keys // form.page) * form.page
        room = max(1, SCORES // (self.queries * self.keys))
        self.sizes = {name: rng.randint(1, 3) for name in "BHG"}
        while math.prod(self.sizes.values()) > room:
            self.sizes[max(self.sizes, key=lambda n: self.sizes[n])] -= 1
        self.by = rng.choice((1, 3, 10))
        self.inputs = [self._operand(at, self.by if at < 2 else 1) for at in range(3)]
        self.more = {part.split(":")[0]: self._further(part.split(":")[0], rng) for part in self._named()}

    def __str__(self) -> str:
        return f"{self.form.key} {self.sizes} queries {self.queries} keys {self.keys} times {self.by}"

    @property
    def given(self) -> list[Any]:
        """What the kernel is called with besides outputs: keys and values may lie in pages."""
        q, k, v = self.inputs
        if not (page := self.form.page):
            return [q, k, v, *self.more.values()]
        torch, count = self.torch, k.shape[0] * (self.keys // page)
        order = torch.randperm(count + 3, device=self.device)[:count]
        table = order.reshape(k.shape[0], -1).to(torch.int32)
        # What few queries do not see may be anything.
        unseen = torch.zeros(k.shape[0], self.keys, dtype=torch.bool, device=self.device)
        if self.form.few and "n" in self.more:
            unseen = torch.arange(self.keys, device=self.device) >= self.more["n"][:, None]
            unused = unseen.reshape(k.shape[0], -1, page).all(-1)
            numbers = torch.tensor((-1, count + 2, 1 << 30), dtype=torch.int32, device=self.device)
            table[unused] = numbers[torch.randint(3, (int(unused.sum()),), device=self.device)]
        pools: list[Any] = []
        for x in (k, v):
            hidden = unseen.reshape(k.shape[0], *[1] * (x.ndim - 3), -1, 1)
            x = x.float().masked_fill(hidden, math.nan).to(x.dtype)
            by_page = x.reshape(*x.shape[:2], -1, page, x.shape[-1]).permute(0, 2, 3, 1, 4)
            pool = torch.full((count + 3, *by_page.shape[2:]), math.nan, device=self.device).to(x.dtype)
            # PyTorch indexes no tensors of 8-bit floats.
            bits = torch.uint8 if x.dtype.itemsize == 1 else x.dtype
            pool.view(bits)[order] = by_page.reshape(count, *by_page.shape[2:]).view(bits)
            pools.append(pool)
        return [q, *pools, table, *self.more.values()]

    @property
    def dtype(self) -> Any:
        torch = self.torch
        types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
        return (types | {"e4m3": torch.float8_e4m3fn})[self.form.dtype]

    @property
    def result_dtype(self) -> Any:
        return self.torch.bfloat16 if self.form.dtype == "e4m3" else self.dtype

    def _narrowed(self, x: Any) -> Any:
        """Round float64 to what products are of: the type of the inputs, or tf32 where that is f32."""
        if self.form.dtype != "f32":
            return x.to(self.dtype).double()
        bits = x.float().view(self.torch.int32)
        return (bits & -8192).view(self.torch.float32).double()

    def _named(self) -> list[str]:
        return re.split(r", (?=\w+:)", self.form.more) if self.form.more else []

    def _lead(self, at: int) -> list[int]:
        return [int(d) if d.isdigit() else self.sizes[d] for d in self.form.lead[min(at, 1)].split(", ")]

    def _operand(self, at: int, by: float) -> Any:
        shape = [*self._lead(at), self.keys if at else self.queries, self.form.widths[at == 2]]
        # The products of all scales stay in the range of f16.
        return (self.torch.randn(shape, device=self.device) * by).to(self.dtype)

    def _further(self, name: str, rng: random.Random) -> Any:
        torch, rows = self.torch, self.queries
        match name:
            case "of_row" | "of_key":
                return self._labels(rows if name == "of_row" else self.keys, rng)
            case "sink":
                return torch.randn(self.sizes["H"], device=self.device) * rng.choice((1, 10))
            case "x":
                return self._operand(0, 1)[..., : self.form.widths[1]].contiguous()
            case "w":
                dtype = torch.float32 if "w: f32" in self.form.more else self.dtype
                shape = (*self._lead(0), rows, self.keys)
                return (torch.randn(shape, device=self.device) * rng.choice((1, 10))).to(dtype)
            case "slope":
                return torch.rand(self.sizes["H"], device=self.device)
            case "n":
                lengths = [
                    rng.choice((0, self.keys, rng.randint(0, self.keys))) for _ in range(self.sizes["B"])
                ]
                return torch.tensor(lengths, device=self.device, dtype=torch.int32)
            case "m":
                kept = torch.rand(self.sizes["B"], 1, rows, self.keys, device=self.device) < rng.choice(
                    (0.01, 0.5, 1)
                )
                kept[..., :: rng.randint(1, 9), :] = False
                return kept.to(torch.int8)
            case _:
                bias = torch.randn(rows, self.keys, device=self.device) * rng.choice((1.0, 1e4, 1e30))
                bias[:: rng.randint(1, 9)] = -math.inf
                return bias

    def _labels(self, count: int, rng: random.Random) -> Any:
        """Draw document numbers for positions of sequences: sorted in four fifths of the draws."""
        torch, documents = self.torch, rng.choice((1, 3, 20, 200))
        labels = torch.randint(0, documents, (self.sizes["B"], count), device=self.device, dtype=torch.int32)
        return labels if rng.random() < 0.2 else labels.sort(-1).values

    def scores(self, *, narrowed: bool = False) -> Any:
        """Return the scores in float64, of inputs as products have them where `narrowed`."""
        torch = self.torch
        q, k = (self._narrowed(x.double()) if narrowed else x.double() for x in self.inputs[:2])
        i, j = (torch.arange(n, device=self.device) for n in (self.queries, self.keys))
        more = {n: x.double() if x.is_floating_point() else x for n, x in self.more.items()}
        return self.form.score(q @ k.mT / math.sqrt(q.shape[-1]), i[:, None], j[None], more)

    def expected(self) -> tuple[Any, Any]:
        """Return the result in float64, and that with what kernels round rounded."""
        v = self.inputs[2].double()
        exact = self._result(*self._weights(self.scores()), v)
        weights, total, empty = self._weights(self.scores(narrowed=True))
        # The largest weight of e4m3 is 256.
        by = 256.0 if self.form.dtype == "e4m3" else 1.0
        rounded = self._result(self._narrowed(weights * by) / by, total, empty, self._narrowed(v))
        return exact, rounded.to(self.result_dtype).double()

    def _weights(self, scores: Any) -> tuple[Any, Any, Any]:
        """Return the weights of scores, by what they are divided, and which rows have none."""
        most = scores.amax(-1, keepdim=True)
        empty = most == -math.inf
        if not self.form.normalised:
            return scores.masked_fill(scores == -math.inf, 0.0), 1.0, most.isnan()
        weights = (scores - most.masked_fill(empty, 0.0)).exp()
        total = weights.sum(-1, keepdim=True)
        if "sink" in self.more:
            sinks = self.more["sink"].double().reshape(-1, *[1] * (scores.ndim - 2))
            total = total + (sinks - most).exp()
        return weights, total, empty

    def _result(self, weights: Any, total: Any, empty: Any, v: Any) -> Any:
        mean = (weights @ v / total).masked_fill(empty, self.form.empty)
        return mean + self.more["x"].double() if self.form.adds else mean

    def error(self, kernel: Any) -> tuple[float, float]:
        """Return the relative error of a result, and how large it may be; infinity where NaN differ."""
        if self.form.gives == "gradients":
            return self._error_of_gradients(kernel)
        exact, rounded = self.expected()
        out = self._filled(exact.shape, self.result_dtype)
        floor = NARROW if self.form.dtype == "e4m3" else FLOOR
        if self.form.gives == "result":
            kernel(*self.given, out=out)
            return _error(out, exact, rounded, floor)
        sums = self._filled(exact.shape[:-1], self.torch.float32)
        kernel(*self.given, out=(out, sums))
        least = NARROW if self.form.dtype == "e4m3" else SUMS_FLOOR
        of_sums = _sums_error(sums, self.scores().logsumexp(-1), self._parts(), least)
        shares = [_error(out, exact, rounded, floor), of_sums]
        return max(shares, key=lambda share: share[0] / share[1] if share[1] else math.inf)

    def _parts(self) -> Any:
        """Return for each row the largest sum of the sizes of the products that a score is made of."""
        q, k = (x.double().abs() for x in self.inputs[:2])
        return (q @ k.mT / math.sqrt(q.shape[-1])).amax(-1)

    def _filled(self, shape: Any, dtype: Any) -> Any:
        return self.torch.full(shape, math.nan, device=self.device, dtype=dtype)

    def _error_of_gradients(self, kernel: Any) -> tuple[float, float]:
        """Compare the gradients of all operands, of a random gradient of the result."""
        torch = self.torch
        scores, result = self.scores(), self.expected()[1].nan_to_num()
        sums = scores.logsumexp(-1)
        gradient = torch.randn(result.shape, device=self.device).to(self.dtype)
        outputs = tuple(self._filled(x.shape, x.dtype) for x in self._differentiated)
        y = result.to(self.dtype)
        kernel(*self.inputs, *self.more.values(), y, sums.float(), gradient, out=outputs)
        shift = sums.masked_fill(sums == -math.inf, math.inf)[..., None]
        weights = (scores - shift).exp()
        found = (0.0, 1.0)
        exact = self._gradients(weights, y, gradient, lambda x: x)
        rounded = self._gradients(weights, y, gradient, lambda x: x.to(self.dtype).double())
        # What cancels leaves what roundings of f32 are of the parts.
        parts = self._gradients(weights, y.abs(), gradient.abs(), lambda x: x, whole=True)
        for own, right, near, part in zip(outputs, exact, rounded, parts, strict=True):
            error, most = _error(own, right, near)
            size = max(float(right.norm()), 1e-30)
            share = error, most + ROUNDOFF * float(part.norm()) / size
            found = max(found, share, key=lambda s: s[0] / s[1] if s[1] else math.inf)
        return found

    def _gradients(
        self, weights: Any, y: Any, gradient: Any, rounded: Callable[[Any], Any], *, whole: bool = False
    ) -> list[Any]:
        """Compute gradients in float64, with what kernels round rounded by a function.

        With `whole` sums of sizes are computed, which nothing cancels in.
        """
        q, k, v = (x.abs().double() if whole else x.double() for x in self.inputs)
        by, dy = 1 / math.sqrt(q.shape[-1]), gradient.double()
        sums = (dy * y.double()).sum(-1, keepdim=True) * (-1 if whole else 1)
        weights = rounded(weights)
        changes = rounded(weights * (dy @ v.mT - sums))
        found = [changes @ k * by, changes.mT @ q * by, weights.mT @ dy]
        found += [changes] if self.form.learned else []
        return [rounded(x.sum_to_size(own.shape)) for x, own in zip(found, self._differentiated, strict=True)]

    @property
    def _differentiated(self) -> list[Any]:
        """The tensors whose gradients are computed."""
        return [*self.inputs, *([self.more[self.form.learned]] if self.form.learned else [])]


def _error(found: Any, exact: Any, rounded: Any, floor: float = FLOOR) -> tuple[float, float]:
    """Return a relative error, and how large it may be; infinity where NaN differ."""
    found, size = found.double(), max(float(exact.nan_to_num().norm()), 1e-30)
    if not bool((found.isnan() == exact.isnan()).all()):
        return math.inf, 0.0
    distances = [float((x - exact).nan_to_num().norm()) / size for x in (found, rounded)]
    return distances[0], SLACK * distances[1] + floor


def _sums_error(found: Any, exact: Any, parts: Any, least: float) -> tuple[float, float]:
    """Return the largest error of log-sum-exps, and how large it may be: that of scores in f32.

    `parts` are the sizes of what may cancel in a score.
    """
    empty = exact == -math.inf
    if not bool(((found == -math.inf) == empty).all()):
        return math.inf, 0.0
    exact = exact.masked_fill(empty, 0.0)
    size = 1 + exact.abs() + ROUNDOFF / 4 / SUMS_FLOOR * parts
    distance = (found.double().masked_fill(empty, 0.0) - exact).abs() / size
    return float(distance.max()), least


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.attention.fuzz", description=__doc__)
    parser.add_argument("--calls", type=at_least_one, default=600, help="calls of all programs (600)")
    parser.add_argument("--only", default="", metavar="REGEX", help="programs such as causal64 that match")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--longest", type=at_least_one, default=LONGEST, help=f"the most queries and keys ({LONGEST})"
    )
    parser.add_argument(
        "-o", "--output", default="build/attention_fuzz", metavar="WORK", help="folder of libraries"
    )
    stages = parser.add_mutually_exclusive_group()
    stages.add_argument("--build-only", action="store_true", help="call nothing; needs no GPU")
    stages.add_argument("--run-only", action="store_true", help="take libraries as they are")
    stages.add_argument(
        "--on-host", action="store_true", help="run the C++ of kernels on the CPU, and check each access"
    )
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=1)
    args = parser.parse_args()
    folder = Path(args.output)
    forms = [form for form in FORMS if re.search(args.only, form.key)]
    if not forms:
        raise SystemExit(f"no program matches '{args.only}'")
    if args.on_host:
        with tempfile.TemporaryDirectory(prefix="mucc-fuzz-") as made:
            kernels = {form.key: _on_host(form, args.target, Path(made)) for form in forms}
            return run(forms, kernels, args.calls, args.seed, args.longest, "cpu")
    if not args.run_only and (failed := build_problems(forms, folder, Options(args.target, args.jobs, 600))):
        raise SystemExit("\n".join(f"{key}: {error}" for key, error in failed.items()))
    if args.build_only:
        return 0
    kernels = {form.key: loaded(form, folder)[0] for form in forms}
    return run(forms, kernels, args.calls, args.seed, args.longest)


def _on_host(form: Form, target: str, folder: Path) -> Callable[..., None]:
    """Return what calls the C++ of a form's kernels, which the first call builds for the host."""
    from bench.host.calls import HostKernel
    from mucc.compiler.compilation import Options as Compiling
    from mucc.compiler.driver import compile_text
    from mucc.diagnostics.core import Source
    from mucc.kernels.attention import emission

    emission.WARPGROUP_KEYS = KEYS_ON_HOST

    @cache
    def kernel() -> HostKernel:
        compilation = compile_text(Source(f"{form.key}.mcu", form.text), Compiling(target, tuned=False))
        compilation.sink.raise_if_errors()
        own = folder / form.key
        own.mkdir()
        # Atomics add the gradients of queries in an order that may differ.
        return HostKernel(compilation, own, processors=3, same_bits=form.gives != "gradients")

    def call(*given: Any, out: Any) -> None:
        kernel().launch(*given, *(out if isinstance(out, tuple) else (out,)))

    return call


def run(
    forms: Sequence[Form],
    kernels: Mapping[str, Callable[..., None]],
    calls: int,
    seed: int,
    longest: int,
    device: str = "cuda",
) -> int:
    """Call the programs in turns; 1 where a result is wrong."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(seed)
    rng = random.Random(seed)
    wrong = 0
    largest = dict.fromkeys(kernels, 0.0)
    for number in range(calls):
        form = forms[number % len(forms)]
        call = Call(torch, form, rng, longest, device)
        try:
            error, most = call.error(kernels[form.key])
        except MuccError as refused:
            print(f"{call}: {refused}", flush=True)
            error, most = math.inf, 0.0
        largest[form.key] = max(largest[form.key], error / most if most else math.inf)
        if not error <= most:
            wrong += 1
            print(f"WRONG {call}: error {error:.2e}, at most {most:.2e}", flush=True)
    for key, share in largest.items():
        print(f"{key:12} {share:.2f} of the error that is allowed")
    print(f"{calls} calls, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    run_main(main)
