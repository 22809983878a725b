"""From C++ to a file: the jobs of a build, what runs them, the toolchain, the cache."""
