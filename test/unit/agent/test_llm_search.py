"""Whole searches with a model over HTTP: the engine, its store and its command. Times are scripted."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import scripted
from installed import needs
from modellib import PROGRAM
from modelserver import ModelServer, Reply, Request, chat_events, status, streamed
from scripted import ScriptedEvaluator, parts

from mucc.agent.core.strategy import Budget
from mucc.agent.engine.task_run import first_record
from mucc.agent.engine.task_threads import run_tasks
from mucc.agent.propose.llm import make
from mucc.agent.propose.llm.checking import Checked
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.prices import Price
from mucc.agent.propose.llm.proposer import ModelProposer
from mucc.agent.propose.llm.retrying import Retrying
from mucc.agent.store import TaskState

needs("openai", reason="the client openai is not installed: pip install 'mucc[agent]'")

KEY = "sk-local-0123456789abcdef"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


class Model:
    """Thinks of one tile after another; a third of its answers are of no use."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked % 7 == 0:
            return status(503)
        if self.asked % 5 == 0:
            return streamed(chat_events("Let me think."))
        if request.tool == "nominate":
            items = [
                {"title": f"idea {self.asked}.{n}", "rationale": "r", "kind": "tile", "speedup": 1.2}
                for n in range(2)
            ]
            return streamed(chat_events("", ("nominate", {"hypotheses": items})))
        program = f"{PROGRAM}// {self.asked}\nschedule linear for sm_90a {{\n    stages = {self.asked}\n}}\n"
        candidate = {"change": f"stages {self.asked}", "program": program}
        return streamed(chat_events("", ("implement", {"candidates": [candidate]})))


def unseen(program: str, target: str) -> str:
    return "- linear.out (gemm): tile 128x128x32"


def accept(program: str, imported: str, target: str) -> Checked:
    return Checked("")


def searched(tmp_path: Path, server: ModelServer, budget: Budget) -> Any:
    """The parts of a run that has ended."""
    options = Options(model="scripted", base_url=f"{server.address}/v1")
    endpoint = make("openai", options)._endpoint  # pyright: ignore[reportPrivateUsage]
    retrying = Retrying(3, sleep=lambda _: None)
    proposer = ModelProposer(endpoint, options, Price(1, 10, 0.1, 1), retrying, accept, unseen)
    made = parts(tmp_path, budget=budget, proposer=proposer)
    task = scripted.task()
    task = replace(task, imported=replace(task.imported, program=PROGRAM))
    made.store.put_task(first_record(task))
    ending = run_tasks(made, made.store.tasks())
    assert not ending.problems
    return made


def test_a_search_keeps_what_every_call_cost(tmp_path: Path):
    with ModelServer(model := Model()).serving() as server:
        made = searched(tmp_path, server, Budget(2, 2, 2))
    key = "gemm/square"
    record, calls = made.store.task(key), made.store.calls(key)
    assert record.state is TaskState.DONE and len(made.store.attempts(key)) > 3
    assert len(calls) == model.asked == len(server.requests)
    assert {c.purpose for c in calls} >= {"nominate", "implement"}
    assert {c.error[:6] for c in calls} == {"", "MU7240", "MU7245"}
    assert sum(c.cost or 0 for c in calls if not c.error) > 0
    assert all(c.prompt and not c.estimated for c in calls if not c.error)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in stored and b"gemm/square" in stored


def test_a_budget_of_tokens_ends_a_search(tmp_path: Path):
    with ModelServer(model := Model()).serving() as server:
        made = searched(tmp_path, server, Budget(5, 2, 4, tokens=4000))
    record = made.store.task("gemm/square")
    assert record.state is TaskState.DONE and "token" in record.stop and model.asked < 8


PROBLEM = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 128)

    def forward(self, x):
        return self.up(x)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


def test_optimize_with_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The command, with a problem that is imported and programs that mucc checks."""
    pytest.importorskip("torch", reason="importing a problem needs torch")
    from mucc.agent import evaluate, profile
    from mucc.agent.cli.main import main
    from mucc.agent.engine import device

    monkeypatch.setattr(device, "card_at_hand", lambda: "h200")
    monkeypatch.setattr(evaluate, "make", lambda **_: ScriptedEvaluator())
    monkeypatch.setattr(profile, "analyze", lambda task, *_, **__: scripted.analyze(task, None, None))  # type: ignore
    (tmp_path / "up.py").write_text(PROBLEM)

    def model(request: Request) -> Reply:
        if request.tool == "nominate":
            item = {"title": "a tile", "rationale": "r", "kind": "tile", "speedup": 1.2}
            return streamed(chat_events("", ("nominate", {"hypotheses": [item]})))
        said = request.body["messages"][1]["content"]
        program = re.findall(r"```mcu\n(.*?)```", said, re.DOTALL)[0]
        name = re.findall(r"kernel (\w+)", program)[0]
        candidate = {
            "change": "a tile",
            "program": f"{program}\nschedule {name} for sm_90a {{\n    tile = 64x64x32\n}}\n",
        }
        return streamed(chat_events("", ("implement", {"candidates": [candidate]})))

    with ModelServer(model).serving() as server:
        words = ["--proposer", "openai", "--model", "scripted", "--base-url", f"{server.address}/v1"]
        budget = ["--budget", "1x1x1", "--epsilon", "none", "--price", "1,10,0.1", "-j", "1", "--quiet"]
        run = tmp_path / "run"
        arguments = [
            "optimize",
            str(tmp_path / "up.py"),
            "-o",
            str(run),
            "--precision",
            "tf32",
            "--card",
            "h200",
        ]
        assert main([*arguments, *words, *budget]) == 0, capsys.readouterr().err
    from mucc.agent.store import Store

    with Store(str(run / "run.db")) as store:
        (record,) = store.tasks()
        calls = store.calls(record.task.key)
        attempts = store.attempts(record.task.key)
    assert [c.purpose for c in calls] == ["nominate", "implement"] and all(c.cost for c in calls)
    assert len(attempts) == 2 and "tile = 64x64x32" in attempts[1].candidate.program
    assert KEY.encode() not in (run / "run.db").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ["--base-url", "https://me:secret-12345@models.example/v1"],
        ["--key-env", KEY],
        ["--command", f"ask --key {KEY}"],
    ],
)
def test_secrets_on_the_command_line_are_refused_before_anything_is_kept(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from mucc.agent.cli.main import main

    assert main(["optimize", "p.py", "-o", str(tmp_path / "run"), *words]) == 2
    said = capsys.readouterr().err
    assert "secret-12345" not in said and KEY not in said and not (tmp_path / "run").exists()
