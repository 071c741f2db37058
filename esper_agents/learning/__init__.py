"""Learning from the sessions and certificates of a project: reports and proposed skills."""
