"""Random programs, built and run on a GPU, against float64 and against PyTorch."""
