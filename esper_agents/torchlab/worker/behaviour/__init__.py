"""Parts of `behaviour` that run in the measurement process."""
