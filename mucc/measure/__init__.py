"""Running kernels to judge and time them: `mucc run`, the rates of a card, and the search for schedules."""
