"""Learning: what the sessions and certificates of a project say about how it is worked on."""
