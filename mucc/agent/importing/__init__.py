"""Find problem files, import them, and bound them by the speed of light, which makes tasks of them."""
