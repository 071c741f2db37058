"""What the source of a callable says about its parameters: dimensions, kinds of values, texts and classes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="no torch: NO source was read")

from esper_agents.torchlab.worker.scaffold.guesses import concrete, guessed, is_abstract, sizes_of  # noqa: E402
from esper_agents.torchlab.worker.scaffold.usage import uses_of  # noqa: E402


def rearrange(x, _pattern):
    return x


def einsum(_equation, *operands):
    return operands


def attend(q, k, images, *, mode, table, prior, loader):
    batch, heads, steps, width = q.shape
    einsum("b h i d, b h j d -> b h i j", q, k)
    rearrange(images, "b c (h p) w -> b h w (p c)")
    if mode == "full" or mode in ("causal", "local"):
        table.items()
    for _ in loader:
        prior.log_prob(q)
    return batch, heads, steps, width


def renamed(x):
    x = [x]
    a, b = x.shape
    return a, b


def checked(kernel):
    if not isinstance(kernel, (int, torch.nn.Module, Base)):
        raise TypeError
    return kernel


class Base(torch.nn.Module):
    def forward(self, x):
        """Return the output."""
        raise NotImplementedError("write this")


class Derived(Base):
    def forward(self, x):
        return x


def test_dimensions_are_those_that_the_source_unpacks_or_names_in_a_pattern():
    uses = uses_of(attend)
    assert uses["q"].shape == ("batch", "heads", "steps", "width")
    assert uses["k"].shape == ("b", "h", "j", "d")
    assert uses["images"].shape == ("b", "c", "(h p)", "w")
    assert sizes_of(("b", "c", "(h p)", "w")) == (2, 3, 64, 32)
    assert sizes_of(("B", "T", "C")) == (2, 16, 64)


def test_texts_members_and_checks_tell_the_kind_of_a_parameter():
    uses = uses_of(attend)
    assert list(uses["mode"].texts) == ["full", "causal", "local"]
    assert (uses["table"].kinds, uses["prior"].kinds, uses["loader"].kinds) == (
        {"mapping"},
        {"distribution"},
        {"iterable"},
    )
    assert list(uses_of(checked)["kernel"].types) == ["int", "Base"]


def test_a_name_that_is_assigned_again_is_no_longer_the_parameter():
    assert uses_of(renamed)["x"].shape == ()


def test_code_without_source_has_no_uses():
    assert uses_of(len) == {}


def test_the_first_guess_follows_the_uses():
    found = {name: each.text for name, each in guessed(attend)}
    assert found["q"] == "torch.randn((2, 4, 16, 32))"
    assert (found["mode"], found["table"]) == ("'full'", "{}")
    assert found["prior"].startswith("torch.distributions.Normal(")


def test_a_base_class_is_replaced_by_one_that_implements_it():
    assert (is_abstract(Base), is_abstract(Derived)) == (True, False)
    assert concrete(Base) is Derived
