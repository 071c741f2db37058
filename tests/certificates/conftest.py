"""Lets the tests of this room import `certificate_samples` from beside them, and take what time they need."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("certificates", deadline=None)
settings.load_profile("certificates")
