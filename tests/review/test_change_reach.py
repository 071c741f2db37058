"""The edits of a change are told with the calls that they affect and the writes that reach a lost original."""

from __future__ import annotations

from textwrap import dedent

import pytest

from esper_agents.review.changes import review_change
from esper_agents.review.source import from_bytes

BANK = dedent("""\
    class Bank(Module):
        def __init__(self, size, momentum=0.9):
            self.bank = torch.zeros(size)
            self.momentum = momentum

        def forward(self, batch):
            bank = self.bank.clone().detach()
            self._store(batch)
            return bank

        def _store(self, batch):
            self.bank[0] = batch.detach()


    def smooth(values, options, factor=0.5):
        options = options.copy()
        options["factor"] = factor
        dims = (0, 2)
        return values.sum(dims) * factor
    """)
USERS = dedent("""\
    from bank import Bank, smooth


    class Twice(Bank):
        pass


    def first(x):
        return smooth(x, {}), Bank(4)


    def second(x):
        return smooth(x, {}, factor=0.1), Bank(4, momentum=0.5)
    """)


def changed(tmp_path, old, new):
    """Return the texts of the edits and findings of a change of `bank.py`."""
    assert old in BANK
    before, after = (
        [from_bytes(text.encode(), path) for path, text in (("bank.py", bank), ("users.py", USERS))]
        for bank in (BANK, BANK.replace(old, new))
    )
    found = review_change(tmp_path, before, after, paths=["bank.py"])
    return [edit.text for edit in found.description.edits] + [claim.message for claim in found.report.claims]


def test_a_default_names_the_calls_that_leave_the_parameter_out(tmp_path):
    (text,) = changed(tmp_path, "factor=0.5", "factor=0.9")
    assert text.endswith("1 of 2 calls there take it: users.py:9")


def test_a_default_of_a_constructor_names_the_objects_made_with_it(tmp_path):
    (text,) = changed(tmp_path, "momentum=0.9", "momentum=0.99")
    assert text.endswith("1 of 2 calls there take it: users.py:9")


def test_a_lost_copy_names_the_writes_in_place_that_now_reach_the_original(tmp_path):
    (text,) = changed(tmp_path, ".clone()", "")
    assert "`self.bank` is changed in place at bank.py:12" in text


def test_a_lost_copy_of_a_parameter_names_the_object_of_the_caller(tmp_path):
    texts = changed(tmp_path, "    options = options.copy()\n", "")
    assert any(
        "`options` is changed in place at bank.py:16, so the object of the caller changes" in text for text in texts
    )


@pytest.mark.parametrize(
    ("old", "new", "reach"),
    [
        ("(0, 2)", "(1, 2)", "`dims` is used in line 19; `smooth` is called at users.py:9, users.py:13"),
        ("batch.detach()", "batch.detach() * 2", "`_store` is called at bank.py:8"),
        ("return bank", "return bank * 2", "`Bank` is made at users.py:9, users.py:13; `Bank` is the base of `Twice`"),
    ],
)
def test_an_edit_names_where_its_function_is_called_or_its_class_is_used(tmp_path, old, new, reach):
    (text, *_) = changed(tmp_path, old, new)
    assert reach in text


def test_the_calls_of_a_function_are_named_once(tmp_path):
    texts = changed(tmp_path, "values.sum(dims) * factor", "values.mean(dims) / factor")
    assert sum("`smooth` is called at" in text for text in texts) == 1


AVERAGE = dedent("""\
    class Average:
        def __init__(self, parameters):
            self.shadow = [p.clone().detach() for p in parameters]

        def update(self, parameters):
            for shadow, p in zip(self.shadow, parameters):
                shadow.sub_(0.1 * (shadow - p))

        def load(self, state):
            for i, each in enumerate(state):
                self.shadow[i] = each
    """)


def test_a_lost_copy_in_a_list_names_the_writes_to_its_elements_and_not_new_elements(tmp_path):
    before, after = ([from_bytes(text.encode(), "ema.py")] for text in (AVERAGE, AVERAGE.replace(".clone()", "")))
    found = review_change(tmp_path, before, after, paths=["ema.py"])
    (claim,) = found.report.claims
    assert claim.message.endswith("`p` in `self.shadow` is changed in place at ema.py:7")
    assert not found.description.edits
