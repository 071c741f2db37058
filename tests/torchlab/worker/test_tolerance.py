"""What passes as rounding and what does not, on numbers whose errors are known."""

import pytest

torch = pytest.importorskip("torch", reason="no torch: NOTHING was judged")

from esper_agents.torchlab.worker.compare.equivalence import _may_overflow  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.compare.numeric_error import pooled, ulp  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.compare.pytree_diff import compared  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.compare.rounding_noise import RoundingNoiseMode, jitter  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.compare.tensor_bundle import capture  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.compare.tolerance import Runs, fit  # noqa: E402 - wants torch


def runs(function, other, *inputs, shifts=0, dtype=torch.float64):
    baseline = function(*inputs)
    wide = [each.to(dtype) if each.is_floating_point() else each for each in inputs]
    shifted = []
    for seed in range(shifts):
        moved = jitter(inputs, 2 * seed)
        with RoundingNoiseMode(2 * seed + 1):
            shifted.append(function(*moved))
    return Runs(baseline, other(*inputs), function(*wide), shifted)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(3)


def product(x, w):
    return x @ w


def in_blocks(x, w):
    return sum(x[:, at : at + 32] @ w[at : at + 32] for at in range(0, x.shape[1], 32))


@pytest.mark.parametrize("size", [16, 128, 1024])
def test_a_sum_in_another_order_passes(size):
    x, w = torch.randn(32, size), torch.randn(size, 32)
    assert fit(runs(product, in_blocks, x, w, shifts=6)).is_passed


@pytest.mark.parametrize("size", [16, 128, 1024])
@pytest.mark.parametrize(
    "coarse",
    [
        lambda x, w: (x.bfloat16() @ w.bfloat16()).float(),
        lambda x, w: (x.half() @ w.half()).float(),
        lambda x, w: (((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)) @ w,
    ],
    ids=["bfloat16", "float16", "tf32"],
)
def test_a_shorter_format_inside_does_not_pass(size, coarse):
    x, w = torch.randn(32, size), torch.randn(size, 32)
    assert not fit(runs(product, coarse, x, w, shifts=6)).is_passed


def test_float32_inside_of_float64_does_not_pass():
    x, w = torch.randn(32, 64).double(), torch.randn(64, 32).double()
    assert fit(runs(product, in_blocks, x, w, shifts=6)).is_passed
    assert not fit(runs(product, lambda x, w: (x.float() @ w.float()).double(), x, w, shifts=6)).is_passed


def test_one_number_of_many_that_is_off_by_a_thousandth_does_not_pass():
    x = torch.randn(200, 200)
    wrong = torch.tanh(x)
    wrong[7, 9] *= 1.001
    found = fit(runs(torch.tanh, lambda _: wrong, x))
    assert not found.is_passed
    assert "[7, 9]" in found.detail


def test_small_columns_do_not_hide_behind_large_ones():
    x = torch.randn(64, 64) * torch.logspace(3, -6, 64)
    found = fit(runs(lambda each: each * 1.25, lambda each: torch.where(each.abs() > 1e-4, each * 1.25, 0), x))
    assert not found.is_passed


def test_a_sum_that_nearly_cancels_passes_by_what_noise_does_to_it():
    x = torch.randn(64, 256)
    found = runs(lambda x: x / x.sum(-1, keepdim=True), lambda x: x / (x @ torch.ones(256, 1)), x, shifts=6)
    assert fit(found).is_passed


def test_where_rounding_decides_a_whole_number_either_passes():
    x, w = torch.randn(64, 256), torch.randn(256, 64)
    x[0], w[:, 0] = 0.1, 0.0
    w[:4, 0] = torch.tensor([0.1, 0.2, -0.3, 0.1])
    sign = runs(lambda x, w: (x @ w > 0.01).int(), lambda x, w: (in_blocks(x, w) > 0.01).int(), x, w, shifts=6)
    assert fit(sign).is_passed
    sign.candidate = sign.candidate.clone()
    sign.candidate[5, 5] = 1 - sign.candidate[5, 5]
    found = fit(sign)
    assert not found.is_passed
    assert "[5, 5]" in found.detail


def test_numbers_that_are_none_must_be_in_the_same_places():
    x = torch.randn(8, 8)
    x[1, 2] = float("nan")
    assert fit(Runs(x, x + 0, x.double())).is_passed
    assert not fit(Runs(x, torch.nan_to_num(x), x.double())).is_passed
    x[1, 2] = float("inf")
    assert not fit(Runs(x, -x, x.double())).is_passed


def test_nobody_is_held_to_an_overflow_of_the_baseline():
    x = torch.full((16,), 1e25)
    norm = runs(lambda x: (x * x).sum().sqrt(), lambda x: (x / 1e20).norm() * 1e20, x)
    assert norm.baseline.isinf()
    assert fit(norm).is_passed


def test_an_infinity_that_the_dtype_cannot_avoid_must_be_there():
    x = torch.full((16,), 1e38)
    found = runs(lambda x: x * 10, lambda x: (x * 10).clamp(max=3e38), x)
    assert not fit(found).is_passed


def test_without_a_reference_the_baseline_is_the_truth():
    x = torch.randn(64)
    shifted = runs(torch.exp, torch.exp, x, shifts=6).shifted
    assert fit(Runs(x.exp(), x.exp() * (1 + 2**-23), None, shifted)).is_passed
    assert not fit(Runs(x.exp(), x.exp() * 1.001, None, shifted)).is_passed


def test_a_timed_output_may_be_as_far_off_as_plain_ones_were():
    x = torch.randn(64, 64).bfloat16()
    assert fit(Runs(x, x * 1.01, apart=0.05)).is_passed
    assert not fit(Runs(x, x * 1.5, apart=0.05)).is_passed


def test_a_reference_that_is_not_trusted_excuses_nothing():
    x = torch.randn(64)
    far = Runs(x, x * 1.01, x.double() * 1.02, is_trusted=False)
    assert not fit(far).is_passed


def test_what_is_grossly_wrong_is_settled_by_one_run_with_noise_and_what_is_not_by_six():
    x = torch.randn(64, 64)
    assert fit(runs(torch.tanh, lambda x: x, x, shifts=1)).is_settled
    slightly = lambda x: torch.tanh(x) * (1 + 1e-5)  # noqa: E731 - as short as what it is passed with
    assert not fit(runs(torch.tanh, slightly, x, shifts=1)).is_settled
    assert fit(runs(torch.tanh, slightly, x, shifts=6)).is_settled


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_an_ulp_is_the_distance_to_the_next_number(dtype):
    numbers = torch.tensor([1.0, 1.5, 3.0, 0.1, 60.0], dtype=dtype)
    up = torch.nextafter(numbers, torch.tensor(float("inf"), dtype=dtype))
    assert torch.equal(ulp(numbers.double(), dtype), up.double() - numbers.double())
    assert ulp(torch.zeros(1, dtype=torch.float64), dtype) > 0


def test_a_typical_size_follows_rows_and_columns():
    size = torch.ones(16, 16, dtype=torch.float64)
    size[3] = 100
    assert pooled(size)[3, 0] > pooled(size)[4, 0] > 0.9
    assert pooled(torch.full((2, 3), 5.0).double()).unique().tolist() == pytest.approx([5.0])


def test_noise_moves_every_number_by_an_ulp_and_leaves_zeros():
    x = torch.randn(100)
    x[3] = 0
    (moved,) = jitter((x,), 1)
    assert moved[3] == 0
    assert torch.equal((moved - x).abs() > 0, x != 0)
    assert ((moved - x).abs() <= ulp(x.abs().double(), torch.float32) * 1.01).all()
    plain = torch.exp(x)
    with RoundingNoiseMode(2):
        shaken, joined = torch.exp(x), torch.cat([x, x])
    assert (shaken != plain).all()
    assert torch.equal(joined[:100], x)


def test_float64_numbers_that_differ_by_a_millionth_of_a_millionth_are_equal():
    one = torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert fit(Runs(one, one + 1e-13 * one.std())).is_passed
    assert not fit(Runs(one, one + 1e-10 * one.std())).is_passed


@pytest.mark.parametrize(
    ("rtol", "atol", "is_passed"), [(0, 0, False), (0, 2e-3, True), (1e-1, 0, True), (0, 1e-4, False)]
)
def test_a_stated_tolerance_allows_what_rounding_does_not(rtol, atol, is_passed):
    one = torch.full((64,), 0.5)
    assert fit(Runs(one, one + 1e-3, rtol=rtol, atol=atol)).is_passed is is_passed


def test_a_fused_function_may_be_as_exact_as_functions_of_libraries_are():
    x = -torch.rand(64, 512) * 3 - 2
    by_hand = lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))  # noqa: E731 - two functions side by side
    assert fit(runs(by_hand, torch.nn.functional.gelu, x, shifts=6)).is_passed
    rough = lambda x: torch.nn.functional.gelu(x, approximate="tanh")  # noqa: E731 - as above
    assert not fit(runs(by_hand, rough, x, shifts=6)).is_passed


def one_by_one(x):
    return x.new_zeros(1).index_add_(0, torch.zeros(len(x), dtype=torch.long), x)


@pytest.mark.parametrize("number", [-1.5256, 0.1, 3.3e-5])
def test_alike_terms_may_be_added_one_by_one(number):
    x = torch.full((4096,), number)
    found = runs(lambda x: x.sum(0, keepdim=True), one_by_one, x, shifts=6)
    assert fit(found).is_passed
    assert not fit(runs(lambda x: x.sum(0, keepdim=True), lambda x: one_by_one(x[:-1]), x, shifts=6)).is_passed


@pytest.mark.parametrize("short", [torch.bfloat16, torch.float16])
def test_terms_that_are_added_in_a_short_format_do_not_pass(short):
    x = torch.randn(4096, 16)
    in_short = lambda x: sum(x.to(short).unbind(0)).float()  # noqa: E731 - as short as what it is passed with
    assert not fit(runs(lambda x: x.sum(0), in_short, x, shifts=6)).is_passed
    assert fit(runs(lambda x: x.sum(0), lambda x: sum(x.unbind(0)), x, shifts=6)).is_passed


def test_which_of_nan_and_infinity_comes_of_infinite_inputs_is_no_fault_but_is_said():
    one, other = torch.ones(8), torch.ones(8)
    one[2], other[2] = float("inf"), float("nan")
    assert not fit(Runs(one, other)).is_passed
    found = fit(Runs(one, other, may_overflow=True))
    assert found.is_passed
    assert found.not_numbers == "1 of 8 differ, the first at [2]: inf became nan"
    other[2] = -float("inf")
    assert not fit(Runs(one, other, may_overflow=True)).is_passed
    other[2] = 3e38
    assert not fit(Runs(one, other, may_overflow=True)).is_passed


@pytest.mark.parametrize(("number", "may_overflow"), [(1e17, True), (float("inf"), True), (1e3, False)])
def test_numbers_whose_products_overflow_are_found(number, may_overflow):
    assert _may_overflow(capture((torch.tensor([1.0, -number]),), is_whole=True)) == may_overflow


def test_a_normal_tensor_may_stand_where_the_baseline_has_one_of_inference_mode():
    with torch.inference_mode():
        restricted = torch.ones(3)
    normal = torch.ones(3)

    def checks(one, other):
        found = compared(capture(one), capture(other), lambda _leaf, runs: fit(runs))
        return [each.check for each in found if each.detail and not each.numbers]

    assert "requires-grad" not in checks(restricted, normal)
    assert "requires-grad" in checks(normal, restricted)
