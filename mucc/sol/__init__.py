"""Speed-of-light bounds of whole programs: of source files, and of imported modules."""
