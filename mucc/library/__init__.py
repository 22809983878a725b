"""What loading and calling a library needs: signatures, extents, dims, checksum, packed operands."""
