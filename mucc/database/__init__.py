"""Schedules that were measured: the database, and the pass that takes schedules from it."""
