"""Jobs of a measurement process: one module per job, discovered by module name."""
