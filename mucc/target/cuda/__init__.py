"""From the `cutlass` dialect to CUDA C++."""

from mucc.target.cuda.emit import Image, Parts, emit, emit_parts
from mucc.target.cuda.gemm import Skeleton
from mucc.target.cuda.host import argument_alignments
from mucc.target.cuda.memory import EmissionError

__all__ = ["EmissionError", "Image", "Parts", "Skeleton", "argument_alignments", "emit", "emit_parts"]
