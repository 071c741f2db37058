"""Codes and names of rules whose diagnostics another module makes.

The rules are loaded in every review, and the comparison of changes only for changes.
"""

GUARD, GUARD_NAME = "ESP702", "guard-removed"
TEST, TEST_NAME = "ESP703", "test-removed"
