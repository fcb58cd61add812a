import pytest
import torch

from k3scope.model.kernels.mxfp4 import GROUP, VALUES, decode, encode


def test_the_first_bytes_of_the_release_decode_to_their_published_values():
    """Layer 1, expert 0, w1: four bytes and their scale."""
    packed = torch.tensor([22, 185, 206, 35] + [0] * 12, dtype=torch.uint8)
    values = decode(packed, torch.tensor([121], dtype=torch.uint8))
    expected = [0.0625, 0.0078125, -0.0078125, -0.0234375, -0.0625, -0.03125, 0.0234375, 0.015625]
    assert values[:8].tolist() == expected
    assert values.dtype == torch.bfloat16


def test_every_byte_gives_its_low_nibble_first():
    packed = torch.arange(256, dtype=torch.uint8).view(16, 16)
    table = [*VALUES, *(-v for v in VALUES)]
    values = decode(packed, torch.full((16, 1), 127, dtype=torch.uint8), torch.float64).view(256, 2)
    assert values.tolist() == [[table[b % 16], table[b // 16]] for b in range(256)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [0, 1, 110, 127, 200, 251])
def test_every_scale_is_an_exact_power_of_two(dtype, scale):
    packed = torch.full((16,), 0x22, dtype=torch.uint8)  # thirty-two times 1.0
    values = decode(packed, torch.tensor([scale], dtype=torch.uint8), dtype)
    assert values.double().tolist() == [2.0 ** (scale - 127)] * GROUP


def test_the_scale_that_stands_for_no_number_gives_none():
    assert decode(torch.zeros(16, dtype=torch.uint8), torch.tensor([255], dtype=torch.uint8)).isnan().all()


@pytest.mark.parametrize("shape", [(32,), (3, 64), (2, 5, 96)], ids=str)
def test_what_was_decoded_encodes_to_the_same_values(shape):
    generator = torch.Generator().manual_seed(0)
    packed = torch.randint(0, 256, (*shape[:-1], shape[-1] // 2), generator=generator, dtype=torch.uint8)
    scale = torch.randint(100, 130, (*shape[:-1], shape[-1] // 32), generator=generator, dtype=torch.uint8)
    values = decode(packed, scale)
    assert torch.equal(decode(*encode(values)), values)


def test_encoding_takes_the_nearest_value_and_ties_go_to_the_even_code():
    expected = torch.tensor([6.0, 5.0, 3.5, 2.5, 1.75, 1.25, 0.75, 0.25, 0.26, -4.9, 7.9] + [0.0] * 21)
    values = decode(*encode(expected), torch.float32)
    assert values[:11].tolist() == [6.0, 4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.5, -4.0, 6.0]


def test_a_group_of_zeros_stays_zero():
    assert not decode(*encode(torch.zeros(64))).any()


def test_a_width_without_whole_groups_is_refused():
    with pytest.raises(ValueError, match="width of 48"):
        encode(torch.zeros(2, 48))
