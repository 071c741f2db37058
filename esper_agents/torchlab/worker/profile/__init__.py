"""Profile of a target: operations, Python, host syncs, machine ceilings."""
