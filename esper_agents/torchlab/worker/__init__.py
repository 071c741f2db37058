"""Runs under the user's interpreter, with torch and the standard library alone: nothing else of ours is there."""
