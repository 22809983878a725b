"""Report a run: live on a terminal, as a table, as one HTML page, as JSON."""
