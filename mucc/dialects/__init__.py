"""The dialects of mucc, and what rewrites them: types, ops, type rules, interpreters, findings of passes."""
