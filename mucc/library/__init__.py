"""What a loader reads of a compiled library: signatures, dims, checksum."""
