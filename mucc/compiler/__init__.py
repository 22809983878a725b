"""The compiler as a function: from a source text to IR, C++, schedules and diagnostics."""
