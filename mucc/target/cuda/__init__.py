"""From the `cutlass` dialect to CUDA C++."""

from mucc.target.cuda.emit import emit
from mucc.target.cuda.host import argument_alignments
from mucc.target.cuda.memory import EmissionError

__all__ = ["EmissionError", "argument_alignments", "emit"]
