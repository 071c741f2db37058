"""Published certificates of a project, read as an archive; writes nothing into the project."""
