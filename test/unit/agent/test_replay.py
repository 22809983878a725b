"""Replays of stop rules over stored runs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from agentruns import begin, fill, make_task, random_times, typical
from hypothesis import given
from hypothesis import strategies as st
from pages import read
from scripted import parts, task

from mucc.agent.budget.choosing import EVERYTHING, choose, pareto, recommend
from mucc.agent.budget.replay import Policy, measure, replay_set, replay_task
from mucc.agent.budget.stopping import Standing, stop_reason
from mucc.agent.budget.traces import Cost, Trace, Try
from mucc.agent.cli.main import main
from mucc.agent.core.strategy import Budget
from mucc.agent.engine.task_run import first_record
from mucc.agent.engine.task_threads import run_tasks
from mucc.agent.report.figures import spent
from mucc.agent.report.reading import Run, read_run
from mucc.agent.report.replays import policy_of, text, traces_of
from mucc.agent.search import make
from mucc.agent.store import RunInfo
from mucc.files.json_data import to_json

TIMES = st.lists(st.none() | st.floats(0.2, 5.0), max_size=50)


def trace(times: list[float | None], *, together: int = 1, key: str = "a", tokens: int = 10) -> Trace:
    """A search with the bound 0.2, the fastest baseline 1 and PyTorch's defaults 2, all in ms."""
    tries = [Try(ms, Cost(1, tokens, 2.0)) for ms in times]
    rounds = [tries[n : n + together] for n in range(0, len(tries), together)]
    return Trace(key, 0.2, 1.0, 2.0, Try(1.5, Cost(0, 0, 5.0)), rounds)


TRACES = st.builds(lambda times, together: trace(times, together=together), TIMES, st.integers(1, 5))
POLICIES = st.builds(
    Policy, st.none() | st.floats(0, 5), st.none() | st.integers(1, 20), st.none() | st.integers(0, 50)
)


@given(TRACES)
def test_everything_is_what_the_run_did(search: Trace):
    taken = replay_task(search, EVERYTHING)
    tries = list(search.tries())
    assert taken.best_ms == min(t.ms for t in tries if t.ms is not None)
    assert taken.cost == sum((t.cost for t in tries), Cost()) and taken.why == ""


@given(TRACES, POLICIES)
def test_a_policy_spends_no_more_and_finds_no_more(search: Trace, policy: Policy):
    taken, everything = replay_task(search, policy), replay_task(search, EVERYTHING)
    assert taken.cost.attempts <= everything.cost.attempts and taken.speedup <= everything.speedup
    assert policy.most is None or taken.cost.attempts <= policy.most
    stopped = stop_reason(
        policy.budget, [t.ms for t in list(search.tries())[: taken.cost.attempts + 1]], 0.2, 1.0
    )
    assert taken.why == stopped or taken.cost == everything.cost


@given(TRACES, st.none() | st.floats(0, 5), st.integers(0, 50), st.integers(0, 50))
def test_larger_budgets_never_lose(search: Trace, epsilon: float | None, one: int, other: int):
    small, large = (replay_task(search, Policy(epsilon, None, most)) for most in sorted((one, other)))
    assert large.speedup >= small.speedup and large.cost.attempts >= small.cost.attempts


@given(st.lists(TRACES, min_size=1, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_larger_shared_budgets_never_lose(searches: list[Trace], one: float, other: float):
    small, large = (replay_set(searches, Policy(share=share)) for share in sorted((one, other)))
    everything = replay_set(searches, EVERYTHING)
    for few, many, all_ in zip(small, large, everything, strict=True):
        assert few.speedup <= many.speedup <= all_.speedup
    total = sum(t.cost.attempts for t in everything)
    assert sum(t.cost.attempts for t in large) <= max(one, other) * total + 1e-9
    assert replay_set(searches, Policy(share=1.0))[0].cost == everything[0].cost


def search_under(budget: Budget, times: list[float | None], together: int) -> Trace:
    """What a run with this policy leaves of a search that would find these times."""
    done: list[float | None] = [1.5]
    rounds: list[list[Try]] = []
    while len(done) <= len(times) and not stop_reason(budget, done, 0.2, 1.0):
        count = min(together, Standing.after(done).room(budget, 1.0))
        found = times[len(done) - 1 :][:count]
        done += found
        rounds.append([Try(ms, Cost(1)) for ms in found])
    return Trace("a", 0.2, 1.0, 2.0, Try(1.5, Cost()), rounds)


@given(TIMES, POLICIES, st.integers(1, 5))
def test_the_own_policy_gives_the_own_result(times: list[float | None], policy: Policy, together: int):
    left = search_under(policy.budget, times, together)
    own, everything = replay_task(left, policy), replay_task(left, EVERYTHING)
    assert (own.best_ms, own.cost) == (everything.best_ms, everything.cost)


def test_what_began_together_is_decided_together():
    search = trace([0.5, None, None, 0.3], together=2)
    assert [replay_task(search, Policy(window=w)).cost.attempts for w in (1, 2, 3, 4)] == [2, 3, 4, 4]
    assert replay_task(search, Policy(epsilon=2.0)).cost.attempts == 2
    assert replay_task(search, Policy(epsilon=2.0)).why == "within 200% of the speed of light"


def test_nothing_stops_before_the_baseline_is_beaten():
    assert replay_task(trace([1.4, 1.3, None, 1.2]), Policy(9.0, 1)).cost.attempts == 4


def test_a_task_without_a_result_falls_back():
    nothing = Trace("a", 0.2, 1.0, 2.0, Try(None, Cost()), [[Try(None, Cost(1))]])
    assert replay_task(nothing, EVERYTHING).speedup == 1.0
    slower = Trace("a", 0.2, 1.0, 2.0, Try(None, Cost()), [[Try(4.0, Cost(1))]])
    assert replay_task(slower, Policy(most=0)).speedup == replay_task(slower, EVERYTHING).speedup == 0.5
    assert replay_task(Trace("a", None, None, None, None), EVERYTHING).speedup == 1.0


def test_a_shared_budget_goes_where_the_most_may_be_gained():
    near, far = trace([0.21] * 10, key="near"), trace([1.4 - i / 10 for i in range(10)], key="far")
    near_taken, far_taken = replay_set([near, far], Policy(share=0.6))
    assert far_taken.cost.attempts == 10 and near_taken.cost.attempts == 2
    assert near_taken.why == "the shared budget is spent" and far_taken.why == ""


def test_measures():
    everything = replay_set([trace([0.5, 0.25])], EVERYTHING)
    found = measure(replay_set([trace([0.5, 0.25])], Policy(most=1)), everything)
    assert found.retained == pytest.approx(0.5) and found.attempts_saved == 0.5 and found.by == "tokens"
    assert found.seconds_saved == pytest.approx(2 / 9)
    assert found.efficiency == pytest.approx(0.5 * 20 / 10)
    free = trace([0.5, 0.25], tokens=0)
    found = measure([replay_task(free, Policy(most=0))], [replay_task(free, EVERYTHING)])
    assert found.by == "attempts" and found.tokens_saved == 0.0 and found.efficiency < 1


def sets(count: int, seed: int = 0) -> list[list[Trace]]:
    """Runs whose searches get better mostly at the beginning."""
    rng = random.Random(seed)
    return [[trace(random_times(rng, 40)[1:], key=str(n)) for n in range(count)]]


def test_the_recommendation_is_the_cheapest_that_keeps_enough():
    choice = choose(sets(8))
    found = choice.measures[choice.recommended]
    assert found.retained >= 0.95 and found.attempts_saved > 0.1
    for policy, other in choice.measures.items():
        assert other.retained < 0.95 or other.price >= found.price, policy
    prices = [choice.measures[p].price for p in choice.front]
    kept = [choice.measures[p].retained for p in choice.front]
    assert prices == sorted(prices) and kept == sorted(set(kept)) and kept[-1] == pytest.approx(1.0)
    assert choice.left_out is not None and choice.left_out.splits == 8
    assert choice.halves is not None and choice.halves.worst <= choice.halves.retained <= 1.0 + 1e-9
    assert sum(choice.halves.chosen.values()) == choice.halves.splits
    json.dumps(choice.to_json(), allow_nan=False)


def test_nothing_is_recommended_that_loses():
    searches = [[trace([None] * 9 + [0.9, 0.7, 0.5, 0.4, 0.3])]]
    choice = choose(searches, keep=0.99)
    assert choice.recommended == EVERYTHING and choice.left_out is None
    assert recommend({}, 0.95) == EVERYTHING and pareto({}) == []


def test_the_same_problem_of_two_runs_is_left_out_together():
    choice = choose([*sets(3), *sets(3, seed=1)])
    assert choice.tasks == 6 and choice.problems == 3 and choice.left_out is not None
    assert choice.left_out.splits == 3


def test_runs_from_stores(tmp_path: Path):
    budget = Budget(epsilon=0.3, window=8)
    with begin(tmp_path / "run", budget=to_json(budget)) as store:
        fill(store, make_task("gemm/square"), [0.9, 0.8, None, 0.7, 0.62], tokens=100, together=2)
        fill(store, make_task("gemm/tall"), [])
    run = read_run(str(tmp_path / "run"))
    (found,) = traces_of(run)
    assert [len(one) for one in found.rounds] == [2, 2] and found.first is not None
    assert [t.ms for t in found.tries()] == [0.9, 0.8, None, 0.7, 0.62]
    assert [t.cost.tokens for t in found.tries()] == [0, 110, 0, 110, 0]
    assert found.first.cost == Cost(0, 0, pytest.approx(6.15))
    assert (found.baseline_ms, found.default_ms, found.bound_ms) == (0.8, 2.0, 0.5)
    assert policy_of([run]) == Policy(0.3, 8, 40)
    said = text(choose([[found]], own=policy_of([run])))
    assert "the runs stopped by ε 30%, w 8, 40 attempts: what they did not try" in said


@pytest.mark.parametrize("strategy", ["mantis", "mi", "mcts"])
def test_a_replay_ends_where_a_run_would_have(tmp_path: Path, strategy: str):
    def run(folder: Path, budget: Budget) -> Run:
        folder.mkdir()
        made = parts(folder, strategy=make(strategy, Budget()), budget=budget)
        made.store.start(RunInfo("optimize", "now", "0", made.options.to_json()))
        for key in ("gemm/square", "mlp/gpt2"):
            made.store.put_task(first_record(task(key)))
        assert not run_tasks(made, made.store.tasks()).problems
        made.store.close()
        return read_run(str(folder))

    everything = traces_of(run(tmp_path / "all", Budget()))
    for epsilon in (0.3, 1.5):
        stopped = run(tmp_path / str(epsilon), Budget(epsilon=epsilon))
        for searched, did in zip(everything, stopped.tasks, strict=True):
            taken = replay_task(searched, Policy(epsilon, None, 40))
            assert taken.best_ms == did.best.ms if did.best else None
            assert taken.cost.attempts == spent(did)
            assert did.record.stop == (taken.why or "the search is complete")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rng = random.Random(3)
    with begin(tmp_path / "many") as store:
        for n in range(5):
            fill(store, make_task(f"gemm/p{n}"), random_times(rng, 30), tokens=50)
    page = tmp_path / "replay.html"
    assert main(["replay", str(tmp_path / "many"), typical(tmp_path / "few"), "-o", str(page)]) == 0
    said = capsys.readouterr().out
    assert (
        "recommended: " in said and "leaving one problem out: " in said and "mucc-agent optimize ... " in said
    )
    assert "Speedup kept against tokens" in " ".join(read(page.read_text()).said)
    assert main(["replay", str(tmp_path / "many"), "--json", "--keep", "0.9"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"]["retained"] >= 0.9 and found["own"] is None and found["by"] == "tokens"
    with begin(tmp_path / "empty"):
        pass
    for argv, code in (
        ([], "MU5001"),
        (["x", "--keep", "2"], "MU5001"),
        ([str(tmp_path / "empty")], "MU7270"),
        ([str(tmp_path / "few"), "-o", str(tmp_path / "few" / "run.db")], "MU5015"),
    ):
        assert main(["replay", *argv]) != 0
        assert code in capsys.readouterr().err


def test_the_benchmark_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from bench import agent, common

    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(agent, "plot", lambda *_: True)
    monkeypatch.setattr(agent, "plot_replay", lambda *_: None)
    agent.main([typical(tmp_path / "run"), "--record", "agent"])
    assert "agent.own_set_over_default_geomean" in capsys.readouterr().out
    found = json.loads((tmp_path / "results" / "h200" / "agent.json").read_text())
    figures = found["summary"]
    assert figures["agent.own_set_over_default_geomean"] == pytest.approx(1.7087, abs=1e-3)
    assert figures["agent.attempts"] == 10 and figures["agent.fallbacks"] == 2
    assert figures["agent.overhead_share"] == pytest.approx(0.00735, abs=1e-4)
    assert 0.95 <= figures["agent.replay_retained"] <= 1 and 0 <= figures["agent.replay_attempts_saved"] < 1
    assert found["versions"]["torch"] == "2.11.0" and len(found["rows"]) == 5
    assert found["rows"][0]["precision"] == "tf32"
    assert (tmp_path / "results" / "h200" / "agent.txt").read_text().startswith("run: 5 tasks")
