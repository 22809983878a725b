"""Running sums and products along an axis, with pointwise work before and behind."""
