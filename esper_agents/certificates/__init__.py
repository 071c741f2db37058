"""Certificates: policy, statement, signatures, transparency log, archive and views."""
