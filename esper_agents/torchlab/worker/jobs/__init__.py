"""What a worker can be asked to find out: one module each, found by its name."""
