"""What a process printed is shown as plain text."""

from __future__ import annotations

import os

import pytest

from mucc.process.output import Printed, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("grün ≤ 3", "grün ≤ 3"),
        ("\x1b[2K\rall good", "?[2K?all good"),
        ("\udcff", "?"),
    ],
)
def test_what_steers_a_terminal_is_not_shown(text: str, shown: str):
    assert plain(text) == shown


def test_printed_lines_are_plain():
    with Printed() as printed:
        os.write(printed.fileno(), b"one\n\x1b[1;1Htwo\xff\n")
        assert printed.last_lines() == "one\n?[1;1Htwo\N{REPLACEMENT CHARACTER}"
