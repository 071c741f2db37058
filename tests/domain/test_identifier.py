from __future__ import annotations

import threading
import time
from uuid import RFC_4122, UUID

from esper_agents.domain.identifier import Prefix, is_id, new_id


def test_an_identifier_is_a_uuid_of_version_7_with_the_time_in_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    found = new_id(Prefix.SESSION)
    assert is_id(found)
    uuid = UUID(found.removeprefix("ses_"))
    assert (uuid.version, uuid.variant) == (7, RFC_4122)
    assert before <= uuid.int >> 80 <= time.time_ns() // 1_000_000 + 1_000


def test_later_identifiers_sort_after_earlier_ones_although_the_clock_steps_back(monkeypatch) -> None:
    first = [new_id(Prefix.NOTE) for _ in range(10_000)]
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    both = first + [new_id(Prefix.NOTE) for _ in range(100)]
    assert both == sorted(set(both))


def test_threads_get_different_identifiers() -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.extend([new_id(Prefix.FINDING) for _ in range(500)])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4_000
