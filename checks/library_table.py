"""Write the facts about libraries in the form that the review reads: `python checks/library_table.py`.

Run it after a change in `esper_agents/review/model/data/libraries`; a test compares.
"""

from __future__ import annotations

import json
import tomllib

from esper_agents.review.model.libraries import FOLDER, without_proofs

_SECTIONS = frozenset({"call", "method", "attribute", "hooks"})
FILE = FOLDER.parent / "libraries.json"


def text() -> str:
    """Return the text of the file: one line for each row."""
    files = []
    for path in sorted(FOLDER.glob("*.toml")):
        document = without_proofs(tomllib.loads(path.read_text(encoding="utf-8")))
        parts = []
        for key, value in document.items():
            is_list = key in _SECTIONS
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value) if is_list else ""
            parts.append(f'"{key}": [\n{rows}]' if is_list else f'"{key}": {json.dumps(value)}')
        files.append(f'"{path.stem}": {{' + ", ".join(parts) + "}")
    return "{\n" + ",\n".join(files) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
