"""Takes a setting from the environment."""

import os

from work import Linear


class ModelNew(Linear):
    rows = int(os.environ.get("SAMPLE_ROWS", "0")) or None
