"""The compiler as a library: compile source text to IR, C++, schedules and diagnostics."""
