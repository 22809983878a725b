"""Measuring schedules, and the search for the fastest; `mucc.tune` has the public names."""
