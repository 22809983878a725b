"""What all tests share: nothing that was measured on this machine changes what they compile."""

import os
import tempfile

os.environ["MUCC_TUNING_DB"] = os.path.join(tempfile.gettempdir(), "mucc-tests-have-none", "tuning.db")
