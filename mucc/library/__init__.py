"""Loading and calling a library: signatures, extents, dims, checksum, packed operands."""
