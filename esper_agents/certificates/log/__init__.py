"""The log: an append-only Merkle tree of everything that is signed, its checkpoints, their pins, and its audit."""
