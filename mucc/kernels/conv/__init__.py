"""Convolutions and transposed convolutions, with pointwise work behind."""
