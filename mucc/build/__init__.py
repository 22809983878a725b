"""Build libraries from C++: jobs, the pool that runs them, the toolchain, the cache."""
