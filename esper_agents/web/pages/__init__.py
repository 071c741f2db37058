"""Pages of the archive, one module for each subject."""
