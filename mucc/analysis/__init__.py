"""Analyses of `mu` programs: operations and bytes, independent of schedules."""
