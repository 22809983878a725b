"""Problem files become tasks: found, imported, and bounded by the speed of light."""
