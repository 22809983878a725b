"""Put shards and conditions of `bench.audit` together.

    python -m bench.audit_join --card h100_sxm FOLDER... [--name audit]

A folder is what `bench.audit -o` kept: its rows, of any number of audits, also of a run that was ended. Rows
say which card they are of; those of another card than `--card`, or of none, are refused.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.audit import summary
from bench.common import run_main, write_result
from bench.lines import Lines


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder, the last of those that were made again. Raises OSError."""
    path = folder / "audits.jsonl"
    path.stat()
    found = {str(line["problem"]): dict(line["values"]) for line in Lines(path).found}
    return list(found.values())


def foreign(rows: Sequence[Mapping[str, Any]], card: str) -> dict[str, int]:
    """Return how many rows are of other cards than this, for each; "no card" where a row does not say it."""
    return dict(Counter(str(row.get("card") or "no card") for row in rows if row.get("card") != card))


def main(argv: Sequence[str] | None = None) -> None:
    """Read all folders, and write one result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--card", required=True, help="the folder of results, such as h100_sxm")
    parser.add_argument("--name", default="audit", help="name of the result")
    parser.add_argument("--without", default="", help="A,B: samples that have changed since, left out")
    parser.add_argument("--versions", type=json.loads, default={}, help="of what was audited with, JSON")
    args = parser.parse_args(argv)
    found: list[dict[str, Any]] = []
    for folder in args.folders:
        rows = rows_of(folder)
        if others := foreign(rows, args.card):
            said = ", ".join(f"{count} of {card}" for card, count in others.items())
            parser.error(f"{folder} has rows of other cards than --card {args.card}: {said}")
        found += rows
    rows = [row for row in found if row["name"] not in args.without.split(",")]
    figures = summary(rows)
    print(json.dumps(figures, indent=1))
    write_result(args.card, args.name, rows, figures, extra_versions=args.versions, module="audit_join")


if __name__ == "__main__":
    run_main(main)
