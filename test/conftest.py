"""What all tests share.

Nothing that was measured on this machine changes what they compile. Properties draw the same examples in
every run, and none fails for want of speed; `pytest --hypothesis-profile=random` draws others. Processes that
tests start hear of Ctrl-C also where a shell has put the tests into the background.
"""

import os
import signal
import tempfile

from hypothesis import HealthCheck, settings

settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("mucc", settings.get_profile("random"), derandomize=True)
settings.load_profile("mucc")

os.environ["MUCC_TUNING_DB"] = os.path.join(tempfile.gettempdir(), "mucc-tests-have-none", "tuning.db")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
