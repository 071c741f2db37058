from __future__ import annotations

import multiprocessing
import re
from dataclasses import replace

import pytest
from certificate_samples import certificate
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.views.file_names import (
    LONGEST_SLUG,
    accepted_view_names,
    component_of,
    slugify,
    view_name,
    view_names,
)
from esper_agents.domain.identifier import Prefix, new_id

NAME = re.compile(r"[a-z0-9_]+_[0-9]{8}_[0-9]{6}_[0-9a-f]+\.md")
OTHER_ID = "crt_0198f0a1b2c37d4e8f00112233aabbcc"


def test_a_view_is_named_by_what_was_done_to_what_when_and_by_the_end_of_the_identifier():
    made = replace(certificate(), id=OTHER_ID)
    assert view_name(made) == "code_review_examples_train_20260131_093000_112233aabbcc.md"


def test_the_same_certificate_has_the_same_name_at_any_time():
    made = certificate()
    assert view_name(made) == view_name(replace(made, summary="other"))


def test_two_certificates_of_one_second_do_not_share_a_name():
    one = certificate()
    assert view_name(one) != view_name(replace(one, id=OTHER_ID))


def test_a_certificate_whose_name_is_taken_gets_all_digits_of_its_identifier():
    _, longer = view_names(replace(certificate(), id=OTHER_ID))
    assert longer == "code_review_examples_train_20260131_093000_0198f0a1b2c37d4e8f00112233aabbcc.md"


def test_the_names_that_version_0_1_0_gave_are_still_names_of_a_certificate():
    made = replace(certificate(), id=OTHER_ID)
    assert set(accepted_view_names(made)) - set(view_names(made)) == {
        "code_review_examples_train_20260131_093000.md",
        "code_review_examples_train_20260131_093000_33aabbcc.md",
    }


def test_identifiers_of_one_process_have_different_ends():
    assert len({_end_of_new_id() for _ in range(200_000)}) == 200_000


def test_processes_that_are_forked_at_once_make_identifiers_with_different_ends():
    _end_of_new_id()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        made = pool.starmap(_end_of_new_id, [()] * 400, chunksize=100)
    assert len(set(made)) == 400


def _end_of_new_id():
    return new_id(Prefix.CERTIFICATE)[-12:]


@pytest.mark.parametrize(
    ("paths", "component"),
    [
        ((), "project"),
        ((".",), "project"),
        (("examples/train.py",), "examples_train"),
        (("src/",), "src"),
        (("a/b/c.test.py",), "a_b_c_test"),
        (("a/b.py", "a/c.py"), "a_2_files"),
        (("a/x/b.py", "c/x/d.py"), "2_files"),
        (("a/x/b.py", "a/x/c.py", "a/x/d/e.py"), "a_x_3_files"),
        (("../../etc/passwd",), "etc_passwd"),
        (("/etc/shadow",), "etc_shadow"),
        (("modèle/Entraînement.py",), "modele_entrainement"),
        (("con",), "con_"),
        (("LPT1.py",), "lpt1_"),
        (("a\nb\x00c\u202e.py",), "a_b_c"),
        ((".hidden",), "hidden"),
    ],
)
def test_a_component_stands_for_its_paths(paths, component):
    assert component_of(paths) == component


def test_names_in_other_scripts_stay_apart():
    one, other = component_of(["模型.py"]), component_of(["训练.py"])
    assert one != other
    assert one.startswith("project_")


def test_a_long_name_keeps_its_end_and_stays_apart_from_others():
    one, other = slugify("x" * 200 + "/train"), slugify("y" * 200 + "x" * 200 + "/train")
    assert len(one) == LONGEST_SLUG
    assert re.fullmatch(r"x+_train_[0-9a-f]{8}", one)
    assert one != other


@given(st.text(), st.lists(st.text(), max_size=4))
def test_no_text_makes_a_name_that_leads_elsewhere(text, paths):
    for name in (slugify(text), component_of(paths)):
        assert re.fullmatch(r"[a-z0-9][a-z0-9_]*", name)
        assert len(name) <= LONGEST_SLUG
    made = replace(certificate(), descriptor=text, component=component_of(paths))
    assert NAME.fullmatch(view_name(made))
    assert len(view_name(made)) < 200
