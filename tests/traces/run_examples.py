"""Run the examples of all error families in this process, and print their traces as JSON."""

from __future__ import annotations

import json
import runpy
import sys
import traceback
import warnings
from pathlib import Path


def main() -> None:
    """Run each script of a directory, and print the trace of each by name."""
    traces = {}
    for script in sorted(Path(sys.argv[1]).glob("*.py")):
        with warnings.catch_warnings(record=True) as printed:
            warnings.simplefilter("always")
            try:
                runpy.run_path(str(script), run_name="__main__")
            except Exception:  # noqa: BLE001 - each example fails with its own error
                warned = "".join(f"UserWarning: {each.message}\n" for each in printed)
                traces[script.stem] = warned + traceback.format_exc()
            else:
                traces[script.stem] = ""
    sys.stdout.write(json.dumps(traces))


if __name__ == "__main__":
    main()
