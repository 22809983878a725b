"""Libraries of finished kernels that the candidate's process has loaded beside PyTorch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, note
from mucc.agent.audit.observations import Observations

KERNELS = re.compile(
    r"^lib_?(openblas|scipy_openblas|mkl|blis|cublas|cudnn|cusparse|cufft|cutensor|onnxruntime|tvm)"
)


class Libraries:
    """What the system says is mapped, not what the process says."""

    name = "libraries"
    looks_at = "machine code in the memory of the process, as the system tells"

    def check(self, seen: Observations) -> Iterator[Finding]:
        loaded = {os.path.basename(path).partition(".")[0] for path in seen.libraries}
        theirs = sorted(name for name in loaded if KERNELS.match(name))
        if theirs and seen.device == "cpu":
            yield note(self.name, f"has loaded {', '.join(theirs)}", libraries=theirs)
