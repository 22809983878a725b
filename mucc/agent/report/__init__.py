"""What a run did, for people and programs: live on a terminal, as a table, as one HTML page, as JSON."""
