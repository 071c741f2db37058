"""Measurements that run under the user's interpreter, with torch and the standard library alone."""

from pathlib import Path

FOLDER = str(Path(__file__).parent)
