"""Parts of `watch` that run in the measurement process."""
