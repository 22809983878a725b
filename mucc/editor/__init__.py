"""Editor features: diagnostics, types, declarations, completions, and a language server."""
