"""Signatures on what is certified: envelopes, the keys that sign them, and whose keys are trusted."""
