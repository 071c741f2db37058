"""Leaks of many kinds are found with what holds them, and what levels off is not called one."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("torch")

# Target, the kind of holder, its name, and the source of the line that keeps.
LEAKY = [
    ("list_of_losses", "attribute", "Trainer.losses", "self.losses.append(loss)"),
    (
        "attribute_with_graph",
        "attribute",
        "WithState.hidden",
        "self.hidden = self.cell(torch.randn(16, 32), self.hidden)",
    ),
    ("running_sum", "attribute", "Summing.total", "self.total += loss"),
    ("meter_of_tensors", "attribute", "Meter.series['loss']", "self.series.setdefault(name, []).append(number)"),
    ("closure", "closure", "outputs", "outputs.append(output)"),
    ("module_global", "global", "history", "history.append(loss)"),
    ("hook_that_keeps", "closure", "features", "features.append(output)"),
    ("hook_in_each_step", "closure", "batch", "batch = torch.randn(16, 32)"),
    (
        "second_order_gradient",
        "gradient",
        "Training.model.0.weight.grad",
        "training.loss().backward(create_graph=True)",
    ),
    ("retained_graph", "closure", "terms", "terms.append(training.loss())"),
    ("cache_by_identity", "global", "seen", "seen[id(batch)] = batch * 2, batch"),
    ("cache_of_functools", "cache", "functools cache of normalised", None),
    ("queue_without_end", "closure", "recent", "recent.append(batch)"),
    ("queue_that_nobody_reads", "attribute", "Sender.pending.queue", "sender.pending.put(batch)"),
    ("loss_on_context", "closure", "losses", "losses.append(loss)"),
    ("growing_buffer", "attribute", "Bank.bank", "self.bank = torch.cat([self.bank, output.detach()])"),
    ("module_that_keeps_outputs", "attribute", "Encoder.features", "self.features.append(output)"),
    ("default_argument", "default", "kept of default_argument.<locals>.remember", "kept.append(tensor)"),
    ("class_attribute", "class attribute", "Registry.outputs", "Registry.outputs.append(output.detach())"),
    ("exceptions", "closure", "failures", "failures.append(error)"),
    ("suspended_generator", "local", "served of batches", "served.append(torch.randn(16, 32))"),
    (
        "dictionary_by_step",
        "attribute",
        "Slotted.predictions",
        "slotted.predictions[len(slotted.predictions)] = output.detach()",
    ),
]
STEADY = [
    *("bounded_queue", "cache_that_warms_up", "optimizer_state", "replay_that_is_full_soon", "gradient_accumulation"),
    *("numbers", "moving_average", "cache_that_is_hit", "changing_sizes", "plain_module"),
]
MODULES = {"growing_buffer", "module_that_keeps_outputs", "plain_module"}


@pytest.fixture(scope="module")
def leak(ask):
    def look(file, name, **request):
        inputs = ["randn(16,32)"] if name in MODULES else []
        return ask("memory", f"{file}.py:{name}", *inputs, **{"train": True, "steps": 6, **request})["leak"]

    return look


@pytest.mark.sample(7)
@pytest.mark.parametrize(("name", "kind", "holder", "source"), LEAKY, ids=[each[0] for each in LEAKY])
def test_a_leak_is_found_with_what_holds_it_and_the_line_that_keeps(leak, name, kind, holder, source):
    found = leak("leaky", name)
    assert found["is_leak"]
    first = found["holders"][0]
    assert (first["kind"], first["name"]) == (kind, holder)
    assert (source or "") in first.get("source", "")
    assert first.get("file", "leaky.py") == "leaky.py"


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", STEADY)
def test_memory_that_levels_off_is_no_leak(leak, name):
    found = leak("steady", name)
    assert not found["is_growing"]
    assert found["holders"] == []


@pytest.mark.parametrize(
    ("name", "holder", "bound"),
    [("long_bounded_queue", "recent", 1000), ("replay_that_is_full_late", "Replay.transitions", 500)],
)
def test_what_still_fills_is_no_leak_when_its_holder_has_a_bound(leak, name, holder, bound):
    found = leak("steady", name)
    assert found["is_growing"]
    assert not found["is_leak"]
    assert (found["holders"][0]["name"], found["holders"][0]["bound"]) == (holder, bound)


def test_growth_is_told_to_the_byte_by_two_witnesses(leak):
    found = leak("leaky", "queue_without_end")
    batch_bytes = 16 * 32 * 4
    assert found["bytes_per_step"] == batch_bytes
    for witness in ("live_bytes", "profiler_bytes"):
        assert {after - before for before, after in pairwise(found[witness][1:])} == {batch_bytes}


def test_where_nothing_grows_only_the_steps_that_were_asked_for_are_run(leak):
    assert leak("steady", "numbers", steps=7)["steps"] == 7


def test_what_made_the_tensors_that_stay_is_told_with_its_line(leak):
    (made,) = leak("leaky", "queue_without_end")["made_by"]
    assert made["operation"] == "aten.randn.default"
    assert (made["file"], made["shape"], made["dtype"]) == ("leaky.py", [16, 32], "torch.float32")


def test_a_kept_loss_counts_by_its_graph_where_backward_has_freed_what_it_saved(leak):
    found = leak("leaky", "list_of_losses")
    assert found["bytes_per_step"] == 4
    assert found["graph_nodes_per_step"] == 7
    assert found["holders"][0]["graph_of"] == "MeanBackward0"
    assert found["holders"][0]["entries_per_step"] == 1


def test_a_cycle_is_told_by_what_the_garbage_collector_frees(leak):
    found = leak("leaky", "context_of_function")
    assert not found["is_leak"]
    assert set(found["collected_bytes"]) == {16 * 8 * 4}
