"""Attention: both products and the softmax between them in one kernel, with pointwise work on the scores."""
