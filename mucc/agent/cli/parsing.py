"""Options that several commands have."""

from __future__ import annotations

import argparse

from mucc.agent.audit.options import PRECISIONS


def add_policy(parser: argparse.ArgumentParser) -> None:
    """What solutions are held to: the format of f32 products, and the card whose bound holds."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="the narrowest format for f32 products (default: declared, f32)",
    )
    parser.add_argument(
        "--card", metavar="CARD", help="the card whose bound holds (default: the one at hand)"
    )
