"""What all tests share.

Nothing that was measured on this machine changes what they compile. Processes that tests start hear of Ctrl-C
also where a shell has put the tests into the background.
"""

import os
import signal
import tempfile

os.environ["MUCC_TUNING_DB"] = os.path.join(tempfile.gettempdir(), "mucc-tests-have-none", "tuning.db")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
