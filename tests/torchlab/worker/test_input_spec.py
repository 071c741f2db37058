"""Tests of inputs as people write them: what they mean, and that nothing else is ever run."""

import pytest

torch = pytest.importorskip("torch", reason="no torch: NOTHING of inputs was made")

from esper_agents.torchlab.worker.target.input_spec import Spec, TargetError  # noqa: E402 - wants torch


def test_every_input_is_made_by_position_or_by_name():
    made = Spec(["randn(3,4)", "mask=zeros(2,dtype=torch.bool)", "3", "[1, 2]", "None"])()
    assert [type(arg).__name__ for arg in made.args] == ["Tensor", "int", "list", "NoneType"]
    assert made.args[0].shape == (3, 4)
    assert made.kwargs["mask"].dtype is torch.bool


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("randn(3,4)", (3, 4), torch.float32),
        ("torch.rand((2,3))", (2, 3), torch.float32),
        ("rand([5],dtype=float64)", (5,), torch.float64),
        ("randint(0,10,(8,))", (8,), torch.int64),
        ("randint(10,(2,2))", (2, 2), torch.int64),
        ("full((2,),1.5)", (2,), torch.float32),
        ("tensor([1.0,2.0])", (2,), torch.float32),
        ("bernoulli(4,4,p=0.2)", (4, 4), torch.float32),
        ("randperm(7)", (7,), torch.int64),
    ],
)
def test_an_input_for_many_calls_has_the_shape_of_one(text, shape, dtype):
    for each in [Spec([text])(), *Spec([text]).many(5)]:
        assert each.args[0].shape == shape
        assert each.args[0].dtype is dtype


@pytest.mark.parametrize("text", ["randn(3,4)", "randint(0,1000000,(8,))", "rand((2,3))"])
def test_no_two_calls_get_the_same_numbers(text):
    made = Spec([text]).many(6)
    assert not any(torch.equal(one.args[0], other.args[0]) for one in made for other in made if one is not other)


def test_the_same_seed_makes_the_same_inputs():
    def made():
        torch.manual_seed(3)
        return Spec(["randn(4)", "randint(0,9,(3,))"]).many(3)

    for one, other in zip(made(), made(), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.args, other.args, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "randn(3",
        "*args",
        "a, b",
        "x=1, y=2",
        "randn(3,4)); print('here'",
        "(" * 4_000,
    ],
)
def test_what_is_no_input_is_refused_before_anything_is_made(text):
    with pytest.raises(TargetError, match="invalid input"):
        Spec([text])


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "torch.load('x')",
        "torch.ops.aten",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "randn(-1)",
        "randn('a')",
        "randint(5)",
        "zeros(1 << 60)",
        "x",
        "torch",
    ],
)
def test_nothing_but_literals_and_known_makers_is_run(text):
    with pytest.raises(TargetError, match="cannot create the input"):
        Spec([text])()
