"""Analysis of profile measurements, without torch and without running anything."""
