from __future__ import annotations

import pytest
from storage_samples import PROJECT

from esper_agents.domain.project import Project
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError
from esper_agents.storage import sessions

OTHER = Project("/elsewhere/toy", "toy", "toy-ba9876543210", is_git=True)


def test_a_session_is_listed_as_it_was_made(store, create):
    held = create("review these 2 files")
    (found,) = sessions.listing(store, PROJECT.key)
    assert (found.id, found.request, found.state) == (held.session, "review these 2 files", SessionState.OPEN)
    assert (found.agent, found.certificate) == ("", "")
    assert found.created_at == found.changed_at == "2027-01-15T08:00:00.123Z"


def test_a_listing_is_newest_first_and_as_long_as_asked(store, create):
    made = [create(str(number)).session for number in range(4)]
    assert [each.id for each in sessions.listing(store, PROJECT.key)] == made[::-1]
    assert [each.id for each in sessions.listing(store, PROJECT.key, limit=2)] == made[:1:-1]


def test_projects_do_not_see_the_sessions_of_one_another(store, create):
    mine, theirs = create(), create(project=OTHER)
    assert [each.id for each in sessions.listing(store, PROJECT.key)] == [mine.session]
    with pytest.raises(NotFoundError):
        sessions.find(store, PROJECT.key, theirs.session)
    assert sessions.find(store, OTHER.key, "latest").id == theirs.session


def test_a_session_is_found_by_its_identifier_its_end_or_as_the_latest(store, create):
    first, last = create().session, create().session
    for wanted in (first, first[-12:], f"ses_{first[-12:]}"):
        assert sessions.find(store, PROJECT.key, wanted).id == first
    assert sessions.find(store, PROJECT.key, "latest").id == last


def test_what_fits_two_sessions_names_none(store, create):
    first, last = create().session, create().session
    shared = next(first[:length] for length in range(len(first), 0, -1) if last.startswith(first[:length]))
    with pytest.raises(NotFoundError):
        sessions.find(store, PROJECT.key, shared)


@pytest.mark.parametrize("wanted", ["", "0", "ses_", "ses_" + "f" * 32, "%", "_" * 36])
def test_what_names_no_session_is_refused_with_the_way_to_find_one(store, create, wanted):
    create()
    with pytest.raises(NotFoundError) as refused:
        sessions.find(store, PROJECT.key, wanted)
    assert refused.value.what == "session"
    assert "did you mean" in refused.value.remedy or refused.value.remedy == "run `esper sessions list`"


def test_without_any_session_there_is_no_latest(store):
    with pytest.raises(NotFoundError):
        sessions.find(store, PROJECT.key, "latest")


def test_what_people_write_comes_back_as_they_wrote_it(store, create):
    request = "pr\u00fcfe 🙂 'quoted' \"\\ ; DROP TABLE session; --\u2028\n"
    create(request)
    assert sessions.find(store, PROJECT.key, "latest").request == request
