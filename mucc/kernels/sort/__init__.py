"""Sorting rows, and picking the largest elements of rows, with pointwise work before and behind."""
