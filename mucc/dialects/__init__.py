"""The dialects of mucc. They import nothing else of mucc but each other."""
