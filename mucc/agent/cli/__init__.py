"""The command line of `mucc-agent`."""
