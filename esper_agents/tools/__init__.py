"""Tools that agents can call: one discovered file per tool; each call produces evidence."""
