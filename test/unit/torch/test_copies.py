"""Copies of compiled models, as `copy.deepcopy` and `pickle` make them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from inductor import Mlp, backend, calls  # noqa: E402 (it needs torch)

pytestmark = pytest.mark.usefixtures("compiled_anew")


def test_a_copy_of_a_compiled_model_has_weights_of_its_own_and_the_same_backend():
    made = backend(regions="all")
    model, x = Mlp(), torch.rand(4, 64)
    compiled = torch.compile(model, backend=made)
    first, kernels = compiled(x), calls(made)
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        model.up.weight.zero_()
    torch.testing.assert_close(other(x), first)
    assert calls(made) == kernels > 0  # the copy runs what was compiled


def test_a_compiled_model_comes_back_from_a_pickle_with_the_options_of_its_backend():
    compiled = torch.compile(Mlp(), backend=backend(regions="all"))
    x = torch.rand(4, 64)
    first = compiled(x)
    other = pickle.loads(pickle.dumps(compiled))
    torch.testing.assert_close(other(x), first)
    assert pickle.loads(pickle.dumps(backend(sizes=(1, 8)))).options == backend(sizes=(1, 8)).options
