"""The command `mucc cache`, and the programs that `mucc cache warm` builds."""

import json
import re
import sys
import types
from pathlib import Path

import pytest
from cachelib import A, entry_file

from mucc.build.cache import Cache, Entry, digest
from mucc.cli.main import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    cache = Cache(str(tmp_path / "cache"))
    monkeypatch.setenv("MUCC_CACHE_DIR", cache.directory)
    return cache


def test_the_command_verifies(here: Cache, capsys: pytest.CaptureFixture[str]):
    here.store("device", A, Entry(b"data"))
    assert main(["cache", "verify"]) == 0 and capsys.readouterr().out == "1 entry was whole\n"
    keys = [digest(str(i)) for i in range(10)]
    for key in keys:
        here.store("host", key, Entry(b"data"))
        entry_file(here, "host", key).write_bytes(b"?")
    assert main(["cache", "verify"]) == 3
    said = capsys.readouterr()
    assert said.out == "1 entry was whole\n"
    assert "warning[MU5204]: 10 entries of 'host' had been damaged and were dropped" in said.err
    assert said.err.count("= note: ") == 9 and "and 2 more" in said.err
    entry_file(here, "device").write_bytes(b"?")
    assert main(["cache", "verify", "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report == {"whole": 0, "damaged": {"device": [str(entry_file(here, "device"))]}, "unreadable": {}}


def test_the_command_reports_a_bad_setting(
    here: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MUCC_CACHE_SIZE", "much")
    assert main(["cache", "stats"]) == 0
    assert "warning[MU5205]" in capsys.readouterr().err


def test_the_command_warms(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[object, ...]] = []
    module = types.ModuleType("mucc.build.warm")
    module.warm = lambda *arguments: asked.append(arguments)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mucc.build.warm", module)
    assert main(["cache", "warm"]) == 0
    assert main(["cache", "warm", "--target", "sm_100a", "--jobs", "2"]) == 0
    assert main(["cache", "warm", "--for", "torch"]) == 0
    found = [(target, jobs, purpose) for target, jobs, _, purpose in asked]
    assert found == [("sm_90a", None, None), ("sm_100a", 2, None), ("sm_90a", None, "torch")]
    for wrong in (["warm", "-j0"], ["warm", "--json"], ["stats", "--jobs=2"], ["clear", "--target=sm_90a"]):
        assert main(["cache", *wrong]) == 2
    for wrong in (["warm", "--for", "jax"], ["stats", "--for", "torch"]):
        assert main(["cache", *wrong]) == 2
    assert len(asked) == 3


def test_kernels_that_could_not_be_warmed_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MUCC_CUTLASS", "/nowhere")
    assert main(["cache", "warm", "-j1"]) == 3
    said = capsys.readouterr()
    assert re.fullmatch(r"built 0 kernels for sm_90a, \d+ could not be built\n", said.out)
    assert "error[MU" in said.err


def test_layers_of_transformers_compile():
    from mucc.build.warm import layers
    from mucc.runtime.build import check

    found = dict(layers())
    assert len(found) == 504
    for name, text in list(found.items())[::61]:
        assert not check(text), name


GPT2 = """\
kernel linear(x: bf16[768, 3072], x1: bf16[8, 1024, 768], x2: bf16[3072]) -> bf16[8, 1024, 3072] {
    return gelu(x1 @ x.T.T + x2, approximate=tanh)
}
"""


def test_what_shares_skeletons_is_filled_once():
    from mucc.build.warm import distinct, layers

    layer = next(item for item in layers() if item[0] == "bf16-activated-nn-8192x3072x768")
    other = next(item for item in layers() if item[0] == "bf16-residual-nt-8192x1024x4096")
    found = distinct([layer, ("gpt2", GPT2), other, layer, ("wrong", "kernel")], "sm_90a")
    assert [name for name, _ in found] == [layer[0], other[0], "wrong"]
