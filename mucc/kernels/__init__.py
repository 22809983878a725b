"""Device kernels: an interface, a registry, and one folder for each kind."""
