"""What is derived from inputs: each edge is what its name says, and poison comes last."""

import pytest

torch = pytest.importorskip("torch", reason="no torch: NOTHING was derived")

from esper_agents.torchlab.worker.compare.edge_cases import derive  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.compare.tensor_bundle import capture  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.target.module_state import Matching, changed, match, state_of, write  # noqa: E402 - wants torch


@pytest.fixture
def edges():
    torch.manual_seed(0)
    return {each.name: each for each in derive((torch.randn(6, 4), torch.randn(4, 3)), {"n": torch.arange(6)}, 1)}


def test_sizes_follow_the_leading_dimension_of_all_tensors_that_have_it(edges):
    for name, rows in (
        ("leading dimension 1", 1),
        ("leading dimension 5", 5),
        ("leading dimension 9", 9),
        ("leading dimension 0", 0),
    ):
        assert edges[name].args[0].shape == (rows, 4)
        assert edges[name].args[1].shape == (4, 3)
        assert edges[name].kwargs["n"].shape == (rows,)


def test_layouts_hold_the_same_numbers_with_other_strides(edges):
    plain = edges["transposed memory"].args[0].contiguous()
    for name in ("transposed memory", "every second place of memory", "memory that is not aligned"):
        assert torch.equal(edges[name].args[0], plain)
    assert edges["transposed memory"].args[0].stride() == (1, 6)
    assert edges["every second place of memory"].args[0].stride() == (8, 2)
    assert edges["memory that is not aligned"].args[0].data_ptr() % 16 == 4
    assert edges["one row expanded"].args[0].stride(0) == 0


def test_between_the_places_of_a_strided_tensor_stands_what_nobody_may_read(edges):
    x = edges["every second place of memory"].args[0]
    assert x.as_strided(x.shape, x.stride(), 1).isnan().all()


def test_a_swap_of_rows_leaves_the_sum_and_a_few_changes_leave_most(edges):
    plain = edges["transposed memory"].args[0]
    assert edges["two rows swapped"].args[0].sum().item() == pytest.approx(plain.sum().item(), abs=1e-5)
    assert 0 < (edges["few elements changed"].args[0] != plain).sum() <= 2


def test_numbers_reach_where_shortcuts_break(edges):
    tiny, large = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
    assert edges["smallest"].args[0].abs().max() < tiny
    assert large**0.4 < edges["very large"].args[0].abs().max() < large**0.5
    assert edges["NaN in tensor 1"].args[0].isnan().sum() == 1
    assert edges["-infinity in tensor 1"].args[0].isinf().sum() == 1
    assert edges["float64"].args[0].dtype is torch.float64
    assert edges["float64"].kwargs["n"].dtype is torch.int64


def test_weights_get_no_numbers_that_are_none(edges):
    assert not any(each.args[1].isnan().any() for name, each in edges.items() if name.startswith("NaN"))


def test_what_poisons_hidden_state_comes_last(edges):
    first = next(number for number, name in enumerate(edges) if "infinity" in name)
    assert all("infinity" in name or "NaN" in name for name in list(edges)[first:])


def test_an_edge_that_changes_nothing_is_none():
    names = {each.name for each in derive((torch.zeros(4),), {}, 1)}
    assert "zeros" not in names
    assert "large" not in names


def test_two_places_get_one_tensor():
    (edge,) = [each for each in derive((torch.randn(3), torch.randn(3)), {}, 1) if "two places" in each.name]
    assert edge.args[0] is edge.args[1]


def test_inputs_without_a_tensor_have_no_edges():
    assert list(derive((3, "x"), {"flag": True}, 1)) == []


def test_edges_of_large_inputs_are_of_their_first_rows():
    edges = {each.name: each for each in derive((torch.randn(64, 1 << 17),), {}, 1)}
    assert edges["zeros"].args[0].nbytes <= 4 << 20
    assert edges["few elements changed"].args[0].shape == (64, 1 << 17)


class Net(torch.nn.Module):
    def __init__(self, name="layer"):
        super().__init__()
        self.add_module(name, torch.nn.Linear(3, 2))
        self.register_buffer("mean", torch.ones(2), persistent=False)


def values(module):
    return {name: each.detach().clone() for name, each in state_of(module).items()}


def test_parameters_are_matched_by_name_and_loaded():
    one, other = Net(), Net()
    matching = match(other, state_of(one), frozenset(one.state_dict()))
    assert matching.how == "by name"
    assert not matching.unmatched
    assert torch.equal(other.layer.weight, one.layer.weight)


def test_parameters_of_other_names_are_matched_by_position():
    one, other = Net(), Net("renamed")
    matching = match(other, state_of(one), frozenset(one.state_dict()))
    assert matching.how == "by position"
    assert torch.equal(other.renamed.weight, one.layer.weight)


def test_parameters_without_a_counterpart_are_named():
    one, other = Net(), torch.nn.Linear(5, 5)
    before = values(other)
    matching = match(other, state_of(one), frozenset(one.state_dict()))
    assert matching.how == "not at all"
    assert matching.unmatched == ["layer.weight", "layer.bias", "mean"]
    assert all(torch.equal(before[name], each) for name, each in values(other).items())


@pytest.mark.parametrize("how", ["copy", "load", "assign"])
def test_parameters_are_changed_in_each_of_the_ways(how):
    net = Net()
    held = net.layer.weight
    state = changed(capture(state_of(net)), 1).restore()
    write(net, Matching({name: name for name in state}), {name: each.detach() for name, each in state.items()}, how)
    assert torch.equal(net.layer.weight, state["layer.weight"])
    assert (held is net.layer.weight) == (how != "assign")


def test_a_changed_state_moves_all_parameters_and_keeps_variances_positive():
    net = torch.nn.BatchNorm1d(8)
    state = changed(capture(state_of(net)), 1).restore()
    assert (state["weight"] != net.weight).all()
    assert (state["bias"] != 0).all()
    assert (state["running_var"] > 0).all()
    assert state["num_batches_tracked"] == 0
