"""The texts that a verdict was derived from are found by digest, those of earlier versions without an archive."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import certificate

from esper_agents.certificates.policy.question_type import kind_of
from esper_agents.certificates.policy.rulebook import digest, rulebook_of, shipped
from esper_agents.certificates.policy.verdict_ceiling import load_policy
from esper_agents.paths import data_folder

EARLIER = data_folder("certificates") / "earlier"


@pytest.mark.parametrize("version", ["0.1.0"])
def test_a_certificate_of_an_earlier_version_is_verified_by_the_texts_of_that_version(version):
    policy, kinds = ((EARLIER / f"{name}-{version}.toml").read_text() for name in ("policy", "question_kinds"))
    made = certificate()
    ceiling = replace(made.verdict.ceiling, policy_sha256=digest(policy))
    old = replace(made, verdict=replace(made.verdict, ceiling=ceiling), question_kinds_sha256=digest(kinds))
    book = rulebook_of(old, None)
    assert (book.policy, book.kinds) == (policy, kinds)
    assert load_policy(policy).lines
    assert kind_of("review this", kinds)
    assert rulebook_of(made, None) == shipped()
