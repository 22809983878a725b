"""What is seen of a candidate's code: its file, files beside it, code without a file, changed functions."""

from __future__ import annotations

import builtins
import gc
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import results, tamper, watch  # noqa: E402 (they need torch)

MAIN = """
import audit_watch_helper
made = {}
exec("def doubled(x):\\n    return 2 * x", made)
class Held:
    pass
def run(x):
    y = audit_watch_helper.one_more(x)
    return made["doubled"](y)
"""

HELPER = """
import sys
def one_more(x):
    sys._getframe(0)
    return x + 1
"""


@pytest.fixture
def solution(tmp_path: Path, monkeypatch: Any) -> Any:
    (tmp_path / "audit_watch_main.py").write_text(MAIN)
    (tmp_path / "audit_watch_helper.py").write_text(HELPER)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("audit_watch_main", "audit_watch_helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module("audit_watch_main")


def test_lines_of_helpers_and_of_made_code_are_seen(solution: Any):
    with watch.Tracer(solution.__file__) as tracer:
        assert solution.run(2) == 6
    assert sorted(tracer.lines, key=watch.by_number) == [
        "8",
        "9",
        "<string>:2",
        "audit_watch_helper.py:4",
        "audit_watch_helper.py:5",
    ]


def test_code_of_others_is_not_the_solutions(solution: Any):
    code = watch.Code(solution.__file__)
    assert code.name(sys._getframe()) is None  # pyright: ignore[reportPrivateUsage]
    assert code.has_class_of(solution.Held()) and not code.has_class_of(Path())
    namespace = {"__name__": "collections", "__file__": str(import_module("collections").__file__)}
    exec("import sys\ndef frame(): return sys._getframe()", namespace)
    assert code.name(namespace["frame"]()) is None  # type: ignore[operator]


def test_a_helper_that_looks_at_the_stack_is_told(solution: Any):
    hook = SimpleNamespace(code=watch.Code(solution.__file__), _frame=sys._getframe)  # pyright: ignore[reportPrivateUsage]
    found: list[bool] = []

    def event(depth: int) -> None:
        found.append(watch.Hook._by_candidate(hook) is not None)  # type: ignore[arg-type]  # pyright: ignore

    solution.audit_watch_helper.sys = SimpleNamespace(_getframe=event)
    solution.run(2)
    event(0)
    assert found == [True, False]


def nothing(*_: object) -> list[str]:
    return []


def test_other_code_of_the_same_function_is_told(monkeypatch: pytest.MonkeyPatch):
    before, check = tamper.snapshot(), tamper.sealed()
    assert check(before) == []
    seen_nothing: Any = nothing
    monkeypatch.setattr(watch._work, "__code__", seen_nothing.__code__)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(tamper.changed, "__code__", seen_nothing.__code__)
    assert check(before) == [f"the code of mucc.agent.audit.{n}" for n in ("tamper.changed", "watch._work")]


def test_functions_of_the_solution_are_told_from_those_of_others(solution: Any):
    code = watch.Code(solution.__file__)
    assert code.has_function(solution.run) and code.has_function(solution.audit_watch_helper.one_more)
    assert not code.has_function(gc.collect) and not code.has_function(nothing) and not code.has_function(7)


def test_named_tuples_of_others_are_no_code_of_the_solution(solution: Any):
    pair: Any = NamedTuple("pair", [("a", int), ("b", int)])
    made: dict[str, Any] = {"_tuple_new": vars(builtins)["tuple"].__new__, "__name__": "namedtuple_pair"}
    exec("def other(x):\n    return _tuple_new(tuple, (len(x),))", made)
    with watch.Tracer(solution.__file__) as tracer:
        assert pair(1, 2) == (1, 2)
        assert not tracer.lines
        assert made["other"]("abc") == (3,)
    assert tracer.lines == {"<string>:2"}, "code that does more is"


def test_who_sets_a_handler_of_signals_is_noticed(tmp_path: Path):
    path = tmp_path / "audit_watch_signal.py"
    path.write_text("import signal\ndef asks():\n    return signal.signal(signal.SIGUSR2, signal.SIG_DFL)\n")
    with pytest.MonkeyPatch.context() as patch:
        for owner in {owner for owner, _, _ in watch.QUESTIONS}:
            module = sys.modules[owner]
            for name in {name for other, name, _ in watch.QUESTIONS if other == owner}:
                if hasattr(module, name):
                    patch.setattr(module, name, getattr(module, name))
        patch.setattr(sys, "addaudithook", id)  # a hook stays for good
        hook = watch.Hook(str(path))
        made: dict[str, Any] = {"__file__": str(path)}
        exec(compile(path.read_text(), str(path), "exec"), made)
        made["asks"]()
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert list(hook.seen) == [watch.INTERRUPTS]


def test_operations_of_a_call_are_told_in_all_threads():
    x = torch.rand(4, 4)

    def products() -> None:
        torch.mm(x, x)

    with watch.Operations() as operations:
        assert torch.autograd.profiler._is_profiler_enabled, "it looks like any other"
        torch.relu(x)
        thread = threading.Thread(target=products)
        thread.start()
        thread.join()
    assert not torch.autograd.profiler._is_profiler_enabled
    assert operations.names is not None and {"aten::relu", "aten::mm"} <= {*operations.names}
    assert operations.us == []


def test_operations_end_when_a_call_raises():
    with pytest.raises(KeyError), watch.Operations() as operations:
        torch.rand(1)
        raise KeyError
    assert operations.names and not torch.autograd._profiler_enabled()


def test_functions_of_an_object_that_its_class_does_not_have_are_noticed():
    class Runner:
        def call(self) -> int:
            return 1

    here, there = Runner(), Runner()
    here.calls = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert tamper.shadowed(here, there) == []
    there.call = lambda: 2
    assert tamper.shadowed(here, there) == ["call of a Runner"]


@pytest.mark.parametrize(
    ("owner", "name"), [(watch, "torch"), (watch, "PROCESSES"), (results, "copy"), (watch.Code, "name")]
)
def test_what_our_modules_hold_may_not_be_replaced(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str):
    before = tamper.snapshot()
    monkeypatch.setattr(owner, name, SimpleNamespace())
    said = f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else owner.__name__
    assert f"{said}.{name}" in tamper.sealed()(before)


def test_tables_of_our_modules_may_not_be_changed(monkeypatch: pytest.MonkeyPatch):
    before = tamper.snapshot()
    monkeypatch.delitem(watch.EVENTS, "sys._getframe")
    assert tamper.sealed()(before) == ["what is in mucc.agent.audit.watch.EVENTS"]


def test_a_clock_that_runs_ahead_makes_no_call_longer(monkeypatch: pytest.MonkeyPatch):
    """PyTorch's part of a call would seem small, so that its own profiler's clock counts as well."""
    x, ahead = torch.rand(64, 64), iter(range(0, 9000, 1000))
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: next(ahead)))
    _, rows, seconds = watch.observed(lambda: torch.mm(x, x), torch.device("cpu"))
    assert 0 < sum(row["us"] for row in rows) / 1e6 <= seconds < 900
    assert all("::" in row["name"] for row in rows)


@pytest.mark.parametrize(("at_work", "ended"), [(True, False), (True, True), (False, False)])
def test_a_call_is_queued_where_the_stream_was_at_work_until_it_returned(
    at_work: bool, ended: bool, monkeypatch: pytest.MonkeyPatch
):
    """Only then kernels that start late have waited for the default stream."""
    order: list[str] = []
    event = SimpleNamespace(query=lambda: order.append("asked") or ended)
    stream = SimpleNamespace(record_event=lambda: order.append("recorded") or event)

    def no_mark(device: Any) -> Any:
        raise RuntimeError("no GPU")

    def rows(records: Any, queued: bool) -> list[Any]:
        return [queued]

    def spins(cycles: int) -> None:
        order.append("spins")

    def current(device: Any) -> Any:
        return stream

    def nothing(device: Any) -> None:
        pass

    monkeypatch.setattr(torch.cuda, "_sleep", spins)
    monkeypatch.setattr(torch.cuda, "current_stream", current)
    monkeypatch.setattr(torch.cuda, "synchronize", nothing)
    monkeypatch.setattr(watch, "Mark", no_mark)
    monkeypatch.setattr(watch, "device_rows", rows)
    _, (queued,), _ = watch.observed(lambda: order.append("called"), SimpleNamespace(type="cuda"), at_work)
    assert queued is (at_work and not ended)
    assert order == (["spins", "recorded", "called", "asked"] if at_work else ["called"])
