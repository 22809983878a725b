"""Options of proposers that ask models: prices, and keys, which are stored nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from modellib import scheduled, task

from mucc.agent.propose.llm import make, prompts
from mucc.agent.propose.llm.endpoint import Usage
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.prices import Price, price_of
from mucc.agent.propose.llm.redaction import holds_key, redact
from mucc.diagnostics.core import DiagnosticError

KEY = "sk-proj-Zx81abcdEFGH2345ijkl"


def test_prices_are_found_by_names_with_dates_and_routers():
    known = price_of("claude-haiku-4-5")
    assert known == Price(1.0, 5.0, 0.1, 1.25)
    assert price_of("claude-haiku-4-5-20251001") == price_of("anthropic/claude-haiku-4-5") == known
    assert price_of("a-model-of-mine") is None
    assert Price(1.0, 10.0, 0.1, 1.25).cost(Usage(1_000_000, 0, 400_000, 200_000)) == pytest.approx(0.69)


def test_prices_can_be_given(tmp_path: Path):
    assert price_of("m", "1,2") == Price(1, 2, 1, 1) and price_of("m", "1,2,0.5") == Price(1, 2, 0.5, 1)
    path = tmp_path / "p.toml"
    path.write_text('[[provider]]\nname = "x"\n[provider.models]\nm = { input = 3, output = 4 }\n')
    assert price_of("m", None, str(path)) == Price(3, 4, 3, 3)
    assert price_of("claude-opus-5", None, str(path)) is not None, "mucc's own list still holds"


@pytest.mark.parametrize("text", ["", "1", "1,x", "-1,2", "1,2,3,4", "inf,1"])
def test_a_price_that_is_none_is_an_error(text: str):
    with pytest.raises(DiagnosticError, match="MU7250"):
        price_of("m", text)


@pytest.mark.parametrize(
    "text", ["[", "x = 1", "[[provider]]\nmodels = 3", "[[provider]]\nmodels.m = {input = 1}"]
)
def test_a_list_of_prices_that_is_none_is_an_error(tmp_path: Path, text: str):
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(DiagnosticError, match="MU7250"):
        price_of("m", None, str(path))
    with pytest.raises(DiagnosticError, match="MU7250"):
        price_of("m", None, str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "sk-ant-api03-abcdefgh_ijkl-mnop1234",
        "Authorization: Bearer abc.def-123456",
        '{"x-api-key": "abcdef123456"}',
        "api_key=abcdef123456",
        "https://me:pass@models.example/v1",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnop1234",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    ],
)
def test_what_looks_like_a_key_is_taken_out(text: str):
    shown = redact(f"before {text} after")
    assert "[redacted]" in shown and shown.startswith("before") and shown.endswith("after")
    assert not holds_key(shown)


def test_secrets_of_the_environment_are_taken_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_MODEL_TOKEN", "correct horse battery")
    monkeypatch.setenv("SHORT_KEY", "abc")
    assert redact("say correct horse battery and abc") == "say [redacted] and abc"


def test_programs_and_plain_words_stay_as_they_are():
    for text in (
        scheduled(),
        prompts.system(),
        prompts.task_text(task()),
        "the secret is patience; a bearer of news",
    ):
        assert redact(text) == text


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("openai", Options(), "MU5001"),
        ("command", Options(), "MU5001"),
        ("openai", Options(model="m", command="x"), "MU5001"),
        ("openai", Options(model="m", context=10), "MU5001"),
        ("openai", Options(model="m", call_timeout=0), "MU5001"),
        ("openai", Options(model="m", key_env=KEY), "MU5001"),
        ("command", Options(command=f"ask --key {KEY}"), "MU5001"),
        ("command", Options(command="ask 'open"), "MU5001"),
        ("command", Options(command="no-such-program-anywhere"), "MU7248"),
    ],
)
def test_options_that_do_not_fit_are_errors(name: str, options: Options, code: str):
    with pytest.raises(DiagnosticError, match=code) as error:
        make(name, options)
    assert KEY not in str(error.value)
