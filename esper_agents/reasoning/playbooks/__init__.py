"""The offline specialists: one file each, named for its agent, with a generator function `play`."""
