"""Contractions: products of matrices with an epilogue."""
