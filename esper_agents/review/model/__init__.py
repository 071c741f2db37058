"""Semantic model of the reviewed code: one abstract interpreter whose events rules query."""
