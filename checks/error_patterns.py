"""Write `esper_agents/traces/error_patterns.json` from the error families: `python checks/error_patterns.py`."""

from __future__ import annotations

import json

from esper_agents.traces.families import PATTERNS_FILE, error_families, required_text


def text() -> str:
    """Return the patterns of all families as JSON lists: family, pattern, and the text that its matches contain."""
    rows = [
        json.dumps([family.name, pattern, required_text(pattern)])
        for family in error_families()
        for pattern in family.patterns
    ]
    return "[\n" + ",\n".join(rows) + "\n]\n"


if __name__ == "__main__":
    PATTERNS_FILE.write_text(text(), encoding="utf-8")
