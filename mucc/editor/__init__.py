"""What editors show of a program: diagnostics, types, declarations, completions; and a language server."""
