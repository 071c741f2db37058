"""Evidence has a short identifier in a conversation, and near misses of a model are resolved."""

from __future__ import annotations

import pytest
from briefs import brief, evidence, report

from esper_agents.domain.agent_action import CallTools
from esper_agents.domain.frame import Turn
from esper_agents.domain.handoff import ConsultAnswer
from esper_agents.reasoning.evidence_names import EvidenceNames


@pytest.fixture
def names():
    """Return the names of a conversation with one piece of evidence on record and three from its turns."""
    made = EvidenceNames(brief(evidence=(evidence(0xA1),)))
    turns = [
        Turn(CallTools(()), {}, (report(0xB2), report(0xC3))),
        Turn(CallTools(()), {}, ConsultAnswer("other", "yes", (), (evidence(0xD4).id,))),
    ]
    made.add(turns[:1])
    made.add(turns)
    return made


def test_evidence_is_numbered_in_the_order_in_which_it_is_shown(names):
    text = " ".join(evidence(each).id for each in (0xA1, 0xB2, 0xC3, 0xD4, 0xE5))
    assert names.shortened(text) == f"e1 e2 e3 e4 {evidence(0xE5).id}"


@pytest.mark.parametrize(
    "said",
    ["e3", "E3", " e3 ", "`e3`", "[e3]", "3", "#3", "ev_3", "evidence 3", evidence(0xC3).id, evidence(0xC3).id[:-1]],
)
def test_a_name_is_understood_however_it_is_written(names, said):
    assert names.full(said) == evidence(0xC3).id


def test_one_wrong_character_is_forgiven_if_only_one_identifier_is_meant():
    (long,) = ("ev_0198f3c2a4d17b6e8c55e0d1f2a3b4c5",)
    names = EvidenceNames(brief(evidence=()))
    names._take([long, "ev_5b0e77d2c3a94f1f9d2e6c1a8b7f4e30"])
    assert names.full(long.replace("d1", "d2")) == long


@pytest.mark.parametrize("said", ["e99", "static-review", "", "the review", "ev_9"])
def test_what_means_no_evidence_stays_as_it_is(names, said):
    assert names.full(said) == said
