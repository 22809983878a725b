"""Which code that reads frames could follow them to the runner, and which only reads where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forks import Forks

pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit.detectors.harness import Harness
from mucc.agent.audit.findings import Severity
from mucc.agent.audit.frames import SHOWN, Frames
from mucc.agent.audit.observations import Observations, Reference, Timing

HONEST = {
    "place of an exception": """
    try:
        raise LookupError
    except LookupError:
        kind, value, tb = sys.exc_info()
        return tb.tb_frame.f_code.co_filename, tb.tb_lineno
""",
    "innermost place": """
    try:
        fail()
    except LookupError as error:
        tb = error.__traceback__
        while tb.tb_next:
            tb = tb.tb_next
        frame = tb.tb_frame
        return frame.f_code.co_name, frame.f_lineno
""",
    "locals of what failed": """
    try:
        fail()
    except LookupError as error:
        return {k: repr(v) for k, v in error.__traceback__.tb_next.tb_frame.f_locals.items()}
""",
    "all of a traceback": """
    try:
        fail()
    except LookupError as error:
        return [(f.f_code.co_name, n, dict(f.f_locals)) for f, n in traceback.walk_tb(error.__traceback__)]
""",
    "inner frames": """
    try:
        fail()
    except LookupError as error:
        found = inspect.getinnerframes(error.__traceback__)
        return [one.function for one in found], inspect.trace()[-1].lineno
""",
    "texts of an exception": """
    try:
        fail()
    except LookupError as error:
        logging.getLogger("k").warning("failed", exc_info=True, stack_info=True)
        made = traceback.TracebackException.from_exception(error, capture_locals=True)
        return traceback.format_exc(), traceback.extract_tb(error.__traceback__), list(made.format())
""",
    "own name": """
    return sys._getframe().f_code.co_name, sys._getframe(0).f_lineno
""",
    "own name by inspect": """
    frame = inspect.currentframe()
    return frame.f_code.co_name if frame is not None else ""
""",
    "the frame is deleted": """
    frame = inspect.currentframe()
    try:
        return inspect.getframeinfo(frame).lineno
    finally:
        del frame
""",
    "name of its own caller": """
    def inner():
        return sys._getframe(1).f_code.co_name
    return inner()
""",
    "generators": """
    steps = (n for n in range(3))
    assert inspect.getgeneratorstate(steps) == "GEN_CREATED" and inspect.getgeneratorlocals(steps) is not None
    first = steps.gi_frame.f_lineno
    list(steps)
    return first, steps.gi_frame is None
""",
    "a coroutine": """
    async def done():
        return 1
    waiting = done()
    line = waiting.cr_frame.f_lineno
    waiting.close()
    return line
""",
    "contexts and warnings": """
    @contextlib.contextmanager
    def scope():
        yield
    with contextlib.suppress(LookupError), scope(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("slow", stacklevel=2)
        fail()
    logging.getLogger("k").info("at", stack_info=True)
""",
    "assertions as in tests": """
    import unittest
    case = unittest.TestCase()
    with case.assertRaises(LookupError) as caught:
        fail()
    return caught.exception.__traceback__
""",
    "a hook for exceptions": """
    def hook(kind, value, tb):
        return [tb.tb_frame.f_code.co_name, getattr(tb, "tb_lineno")]
    try:
        fail()
    except LookupError:
        return hook(*sys.exc_info())
""",
    "beside code that could": """
    names = [getattr(sys, name) for name in ("argv", "path")]
    try:
        fail()
    except LookupError as error:
        frame = error.__traceback__.tb_frame
        return names, frame.f_lineno, frame.f_globals["__name__"]
""",
}

CHEATS = {
    "callers": "    return sys._getframe().f_back\n",
    "callers by depth": "    return sys._getframe(1).f_code\n",
    "callers by a number": "    return [sys._getframe(n) for n in (0, 1)]\n",
    "followed": """
    frame = inspect.currentframe()
    while frame is not None:
        frame = frame.f_back
""",
    "a computed name": """
    try:
        raise LookupError
    except LookupError as error:
        return getattr(error.__traceback__.tb_frame, "f_" + "back")
""",
    "handed on": """
    try:
        raise LookupError
    except LookupError as error:
        return inspect.getouterframes(error.__traceback__.tb_frame)
""",
    "out of its locals": """
    try:
        raise LookupError
    except LookupError as error:
        frame = error.__traceback__.tb_frame
    return error_of(frame.f_locals["frame"], "f_back")
""",
    "walked": """
    try:
        raise LookupError
    except LookupError as error:
        return next(traceback.walk_tb(error.__traceback__))[0].f_back
""",
    "inner frames": """
    try:
        raise LookupError
    except LookupError:
        return inspect.trace()[0].frame.f_back
""",
    "a generator that runs": """
    def frames():
        yield walk.gi_frame.f_back
    walk = frames()
    return next(walk)
""",
    "a generator's frame for later": """
    def frames():
        yield held.f_back
    walk = frames()
    held = walk.gi_frame
    return next(walk)
""",
    "a pattern": """
    try:
        raise LookupError
    except LookupError as error:
        match error.__traceback__.tb_frame:
            case object(f_back=back):
                return back
""",
    "made code with the file's name": """
    text = "import sys\\ndef back():\\n    return sys._getframe().f_back"
    made = {"__file__": __file__}
    exec(compile(text, __file__, "exec"), made)
    return made["back"]()
""",
    "objects of a stack": "    return inspect.stack()[1].frame.f_locals\n",
}

SHOWS = {
    "inspect": "    return inspect.stack()[0].function\n",
    "traceback": "    return traceback.format_stack()\n",
    "printed": "    traceback.print_stack(limit=2)\n",
}

HEAD = """
import contextlib, inspect, logging, sys, traceback, warnings

def fail():
    local = 3
    raise LookupError(local)

def error_of(*values):
    return values

def run():
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks("mucc.agent.audit.watch") as made:
        yield made


Seen = Callable[[str], list[str]]


@pytest.fixture
def seen(tmp_path: Path, forks: Forks) -> Seen:
    """Return what a hook says of a function; a hook stays for as long as its process, which is its own."""

    def found(body: str) -> list[str]:
        path = tmp_path / "solution.py"
        path.write_text(HEAD + body)
        told = forks.run(f"""
import runpy, sys
sys.path.insert(0, {str(tmp_path)!r})
from mucc.agent.audit import watch
hook = watch.Hook({str(path)!r})
runpy.run_path({str(path)!r})["run"]()
print("\\n".join(hook.seen))
""")
        return told.split("\n")[:-1] if told.strip() else []

    return found


@pytest.mark.parametrize("name", HONEST)
def test_who_reads_where_it_is_is_not_noticed(seen: Seen, name: str):
    assert seen(HONEST[name]) == []


@pytest.mark.parametrize("name", CHEATS)
def test_who_can_follow_frames_is_noticed(seen: Seen, name: str):
    assert "looks at the stack of its callers" in seen(CHEATS[name])


@pytest.mark.parametrize("name", SHOWS)
def test_text_of_the_stack_is_told_from_its_objects(seen: Seen, name: str):
    assert seen(SHOWS[name]) == [SHOWN]


def test_names_in_helpers_count(tmp_path: Path, seen: Seen):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "__init__.py").write_text("def follow(frame):\n    return frame.f_back\n")
    assert "looks at the stack of its callers" in seen(
        "    from beside import follow\n    return follow(sys._getframe())\n"
    ), "a helper could follow it"


def test_files_beside_that_are_not_loaded_do_not_count(tmp_path: Path, seen: Seen):
    (tmp_path / "another_attempt.py").write_text("def follow(frame):\n    return eval('frame.f_back')\n")
    assert seen(HONEST["all of a traceback"]) == []


def test_source_without_frames_is_not_read(tmp_path: Path):
    path = tmp_path / "solution.py"
    path.write_text("def run(f):\n    return eval('f.f_back')\n")
    assert not Frames(str(path)).follows


@pytest.mark.parametrize(
    ("said", "severity"),
    [([SHOWN], Severity.UNSURE), ([SHOWN, "sets a trace function"], Severity.REJECT), ([], None)],
)
def test_text_of_the_stack_is_no_guilt(said: list[str], severity: Severity | None):
    seen = Observations("cpu", "declared", None, [], [], Timing(), Reference(), None, [], said)
    assert [f.severity for f in Harness().check(seen)] == ([severity] if severity else [])
