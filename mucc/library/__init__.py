"""What loading and calling a library needs: signatures, dims, checksum, packed operands."""
