"""Signatures: DSSE envelopes, signing keys, SSH countersignatures and trusted keys."""
