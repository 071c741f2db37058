"""The growth of the peak of memory with the batch."""

import pytest

from esper_agents.reasoning.memory_scaling import MemoryScaling


def scaling(*peaks, place="loss.py:9"):
    return MemoryScaling(tuple(zip((64, 128, 256), peaks, strict=True)), place)


@pytest.mark.parametrize(
    ("power", "words"), [(1, "in proportion to"), (2, "with the square of"), (3, "with the cube of")]
)
def test_the_power_is_found_beside_memory_that_does_not_depend_on_the_batch(power, words):
    found = scaling(*(50_000 + size**power for size in (64, 128, 256)))
    assert found.power == power
    assert f"grows {words} the batch" in found.in_words("loss", 0)


def test_the_estimate_continues_the_growth_and_keeps_the_fixed_part():
    found = scaling(*(1_000_000 + 8 * size**2 for size in (64, 128, 256)))
    assert found.at(1024) == pytest.approx(1_000_000 + 8 * 1024**2)
    assert found.in_words("loss", 1024).endswith("reached at loss.py:9. Estimate for a batch of 1,024: 8.95 MiB.")


@pytest.mark.parametrize("peaks", [(100, 100, 100), (300, 200, 100), (100, 200, 290), (100, 200, 2_000)])
def test_peaks_that_follow_no_power_are_not_told(peaks):
    assert scaling(*peaks).in_words("loss", 1024) == ""


def test_no_estimate_is_given_for_a_batch_that_was_run():
    assert "Estimate" not in scaling(1_000, 2_000, 4_000).in_words("loss", 128)
