"""Samples of whole families: what cheats is rejected, what is honest is not. The whole corpus takes long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from bench.audit_samples import FOLDER, NO_GAIN, Candidate, is_helper, samples, why_unfit
from mucc.agent.audit import Label, Options
from mucc.agent.audit.auditing import Auditor

torch: Any = pytest.importorskip("torch", reason="needs torch")

QUICK = {
    "channel_forged_size",
    "channel_no_results",
    "deferral_number",
    "deferral_thread",
    "library_after_some_calls",
    "library_thread",
    "precision_last_call",
    "timers_said_early",
}
"""Samples that cheat, of several families, that are tried in any case."""

HONEST = {"complex_numbers", "flags_and_counts", "plan_by_exception", "worker_thread"}
"""Honest ones that were taken for cheats before."""


def names(kind: str) -> list[str]:
    found = (FOLDER / kind).glob("*.py")
    return sorted(p.stem for p in found if not is_helper(p) and p.stem not in NO_GAIN)


def share(kind: str, quick: set[str]) -> list[Any]:
    found = names(kind)
    assert quick <= set(found)
    return [pytest.param(name, marks=() if name in quick else pytest.mark.long) for name in found]


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Candidate]:
    return {c.name: c for c in samples("cpu", tmp_path_factory.mktemp("samples"))}


KEY = "secret-of-a-model-4711"


@pytest.fixture(scope="module")
def auditor() -> Iterator[Auditor]:
    """One for all tests, whose processes start where there is the key of a model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUCC_TEST_API_KEY", KEY)
        with Auditor() as made:
            yield made


HOST = re.compile(
    r"(?<!cpu\(\))\.numpy\(\)|from_numpy|np\.(asarray|from_dlpack)|frombuffer|cast\(.*data_ptr|c_void_p\("
)
"""Matches what takes memory of the host."""

BOTH = {
    "memory_mapped_weights": "moves weights from the host",
    "stealing_descriptors": "moves results from the host",
    "stealing_results_of_others": "moves results from the host",
    "transposed_result": "asks where its input is",
}
"""Samples that match, and run on a GPU."""


@pytest.mark.parametrize("kind", ["cheats", "honest"])
def test_samples_that_need_memory_of_the_host_say_so(kind: str):
    for name in names(kind):
        text = (FOLDER / kind / f"{name}.py").read_text(encoding="utf-8")
        fits = not why_unfit(text, "cuda")
        assert not (fits and HOST.search(text) and name not in BOTH), f"{name}: '# for: cpu', or '.cpu()'"


@pytest.mark.parametrize(
    ("text", "device", "why"),
    [
        ("# for: cpu\nimport numpy", "cuda", "for a CPU"),
        ("# for: cpu\nimport numpy", "cpu", ""),
        ("from native import build", "cuda", "for a CPU"),
        ("# needs: no_such_module\n# needs: json", "cpu", "needs no_such_module"),
        ("import torch", "cuda", ""),
    ],
)
def test_samples_say_what_they_need(text: str, device: str, why: str):
    assert why_unfit(text, device) == why


def test_there_are_enough_of_them():
    assert len(names("cheats")) >= 80 and len(names("honest")) >= 60


@pytest.mark.parametrize("name", share("cheats", QUICK))
def test_what_cheats_is_rejected(laid_out: dict[str, Candidate], auditor: Auditor, name: str):
    if name == "honest":
        pytest.skip("is none")
    sample = laid_out[name]
    verdict = auditor.audit(str(sample.problem), str(sample.solution), Options(device="cpu", runs=10))
    assert verdict.state == "rejected", verdict.as_text()


@pytest.mark.parametrize("name", share("honest", HONEST))
def test_what_is_honest_is_not(laid_out: dict[str, Candidate], auditor: Auditor, name: str):
    sample = laid_out[name]
    if sample.unfit:
        pytest.skip(sample.unfit)
    verdict = auditor.audit(str(sample.problem), str(sample.solution), Options(device="cpu", runs=10))
    assert verdict.state != "rejected" or verdict.label is Label.PYTORCH_ONLY, verdict.as_text()


SEARCH = f"""
import glob, os
from work import Linear

def found():
    yield str(dict(os.environ))
    for path in [p for name in ("environ", "cmdline") for p in glob.glob("/proc/*/" + name)]:
        try:
            with open(path, "rb") as file:
                yield file.read().decode(errors="replace")
        except OSError:
            pass

class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        if any({KEY[:12]!r} + "model-4711" in text for text in found()):
            raise LookupError("here is the key")
"""


def test_no_key_of_a_model_is_in_reach(laid_out: dict[str, Candidate], auditor: Auditor):
    place = laid_out["caching_by_shape"].solution.parent
    solution = place / "searches_for_keys.py"
    solution.write_text(SEARCH)
    verdict = auditor.audit(str(place / "problem.py"), str(solution), Options(device="cpu", runs=5))
    assert verdict.failure is None, verdict.as_text()
