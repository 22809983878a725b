"""The command line: `main` dispatches to commands, each a module that is imported when it runs."""
