"""What audits take, phase by phase, when torch was loaded before.

    python -m bench.audit_costs --device cuda [--times 5] [--name audit_costs] SAMPLE...

Samples are names of files in `test/agent`, such as `cuda/honest`. To compare checkouts, run each in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mucc.agent.audit import Options
from mucc.agent.audit.auditing import Auditor

SAMPLES = Path(__file__).parents[1] / "test" / "agent"


def main(argv: Sequence[str] | None = None) -> None:
    """Audit each sample some times, and print the medians in seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("samples", nargs="+")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args(argv)
    found: dict[str, Any] = {}
    with Auditor() as auditor:
        for name in args.samples:
            rows: list[dict[str, float]] = []
            for _ in range(args.times + 1):  # the first one loads torch
                path = SAMPLES / f"{name}.py"
                started = time.monotonic()
                verdict = auditor.audit(
                    str(path.with_name("problem.py")), str(path), Options(device=args.device, bound=False)
                )
                rows.append({"whole": time.monotonic() - started, **verdict.seconds})
                print(name, verdict.label.value, round(rows[-1]["whole"], 3), file=sys.stderr, flush=True)
            names = sorted({key for row in rows for key in row})
            middle = {key: statistics.median(row.get(key, 0.0) for row in rows[1:]) for key in names}
            found[name] = {key: round(value, 4) for key, value in middle.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
