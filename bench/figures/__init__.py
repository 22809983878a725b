"""Draw recorded results for the documentation."""
