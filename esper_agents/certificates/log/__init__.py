"""Transparency log: append-only Merkle tree, checkpoints, pins and audit."""
