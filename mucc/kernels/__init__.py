"""The kinds of device kernel, a folder each."""
