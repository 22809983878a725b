"""What a compiled library says about itself: manifest, signatures, dims, checksum."""
