"""Whether one function may take another's place, and how much faster it is."""
