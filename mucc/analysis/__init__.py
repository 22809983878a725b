"""Analyses of `mu` programs: what they must compute and move, whatever the schedule."""
