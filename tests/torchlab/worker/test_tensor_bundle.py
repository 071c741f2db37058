"""What a worker hands over is what was there, bit for bit, and nothing in it can be run."""

import json
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="no torch: NOTHING was handed over")

from esper_agents.torchlab.worker.compare.tensor_bundle import Bundle, BundleError, capture, write  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.compare.tensor_bytes import DTYPES, address  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.target.pytrees import map_tensors  # noqa: E402 - wants torch


class Pair(NamedTuple):
    one: object
    other: object


@dataclass
class Output:
    hidden: object
    loss: object = None


class Slow(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise AssertionError("it was asked")


def through_a_file(thing, **options):
    descriptor = write({"it": capture(thing, **options)}, {"said": 1})
    try:
        return Bundle(descriptor).pieces["it"]
    finally:
        os.close(descriptor)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back_bit_for_bit(name):
    bits = (
        torch.randint(0, 2, (48,), dtype=torch.uint8)
        if name == "bool"
        else torch.randint(0, 255, (48,), dtype=torch.uint8)
    )
    given = torch.empty(0, dtype=DTYPES[name]).set_(bits.untyped_storage())
    back = through_a_file([given]).restore()[0]
    assert back.dtype == given.dtype
    assert torch.equal(torch.empty(0, dtype=torch.uint8).set_(back.untyped_storage()), bits)


def test_strides_offsets_sharing_and_flags_come_back():
    whole = torch.arange(24.0).view(4, 6)
    given = {"whole": whole, "part": whole.t()[1:, ::2], "alone": torch.ones(2, requires_grad=True), "n": 3, "f": -0.0}
    back = through_a_file(given).restore()
    assert back["part"].stride() == given["part"].stride()
    assert back["part"].storage_offset() == given["part"].storage_offset()
    assert torch.equal(back["part"], given["part"])
    back["whole"][0, 1] = 77
    assert back["part"][0, 0] == 77
    assert back["alone"].requires_grad
    assert str(back["f"]) == "-0.0"


def test_one_tensor_in_two_places_comes_back_as_one():
    x = torch.ones(3)
    one, other = through_a_file((x, x)).restore()
    assert one is other


def test_conjugation_stays_one_that_is_made_when_it_is_read():
    given = torch.randn(3, dtype=torch.complex64).conj()
    back = through_a_file(given).restore()
    assert back.is_conj()
    assert torch.equal(back.resolve_conj(), given.resolve_conj())


def test_of_a_large_storage_only_what_is_spanned_is_kept_unless_all_is_wanted():
    part = torch.zeros(10_000)[500:510]
    assert capture(part).nbytes() <= 64
    assert capture(part, is_whole=True).nbytes() == 40_000


def test_containers_of_the_user_come_back_by_an_example():
    given = Pair(Output(torch.ones(2), 1.5), OrderedDict(a=torch.zeros(1)))
    piece = through_a_file(given)
    with pytest.raises(ValueError, match="cannot be made from its name"):
        piece.restore()
    back = piece.restore(Pair(Output(torch.empty(2), 0.0), OrderedDict(a=torch.empty(1))))
    assert isinstance(back, Pair)
    assert isinstance(back.one, Output)
    assert torch.equal(back.one.hidden, torch.ones(2))
    assert isinstance(back.other, OrderedDict)


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (torch.ones(2, 2).to_sparse(), "layout"),
        (torch.empty(3, device="meta"), "device meta"),
        (torch.ones(2).as_subclass(Slow), "need not hold what it says"),
    ],
)
def test_what_has_no_plain_memory_is_named_and_never_read(thing, why):
    (record,) = through_a_file([thing]).tensors
    assert why in record["problem"]
    assert through_a_file([thing]).views() == [None]


def test_a_container_that_makes_its_parts_when_asked_is_not_asked():
    class Lazy(dict):
        def __getitem__(self, key):
            raise AssertionError("it was asked")

        values = items = __iter__ = __getitem__

    piece = capture(Lazy(a=torch.ones(1)))
    assert piece.tree["kind"] == "mapping"
    assert piece.tree["type"].endswith("Lazy")
    assert capture(iter(())).tree["kind"] == "opaque"


def test_replacing_methods_of_tensors_does_not_reach_the_copy(monkeypatch):
    x = torch.arange(4.0)
    monkeypatch.setattr(torch.Tensor, "data_ptr", lambda _: 0)
    monkeypatch.setattr(torch.Tensor, "untyped_storage", lambda _: None)
    assert torch.equal(capture(x).views()[0], x)


def test_a_copy_is_of_the_moment():
    x = torch.zeros(3)
    piece = capture(x)
    x.fill_(1)
    assert torch.equal(piece.views()[0], torch.zeros(3))


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["pieces"]["it"]["storages"][0].update(length=1 << 40),
        lambda header: header["pieces"]["it"]["storages"][0].update(at=-64),
        lambda header: header["pieces"]["it"]["tensors"][0].update(dtype="object"),
        lambda header: header["pieces"]["it"]["tensors"][0].update(storage=7),
        lambda header: header.pop("about"),
    ],
)
def test_a_forged_header_is_refused(change):
    descriptor = write({"it": capture([torch.ones(4)])}, {})
    whole = os.pread(descriptor, 1 << 20, 0)
    size = int.from_bytes(whole[4:12], "little")
    header = json.loads(whole[12 : 12 + size])
    change(header)
    text = json.dumps(header).encode()
    forged = os.memfd_create("forged")
    os.write(forged, b"ESPB" + len(text).to_bytes(8, "little") + text + whole[12 + size :])
    with pytest.raises(BundleError):
        Bundle(forged)
    os.close(descriptor)
    os.close(forged)


@pytest.mark.parametrize("entry", [{"shape": [1 << 20]}, {"offset": 99}, {"stride": [50]}])
def test_a_tensor_outside_of_its_memory_is_refused(entry):
    piece = capture([torch.ones(4)])
    piece.tensors[0].update(entry)
    with pytest.raises(BundleError):
        piece.views()


def test_bytes_that_are_no_bundle_are_refused():
    descriptor = os.memfd_create("nothing")
    os.write(descriptor, b"\x80\x04cos\nsystem\n" * 8)
    with pytest.raises(BundleError):
        Bundle(descriptor)
    os.close(descriptor)


def test_an_address_is_what_the_elements_span():
    x = torch.zeros(8)
    first, last = address(x[2:5])
    assert (first - x.data_ptr(), last - x.data_ptr()) == (8, 20)
    assert address(x[:0]) is None


def test_tensors_are_changed_wherever_they_stand():
    changed = map_tensors({"a": [torch.ones(1)], "b": (Output(torch.ones(1)), 2)}, lambda each: each + 1)
    assert changed["a"][0] == changed["b"][0].hidden == 2
    assert changed["b"][1] == 2
