import math

import numpy as np
import pytest

from k3scope.model.training.baselines import ORDERS, SEPARATOR, byte_models, compressed


def test_each_order_is_the_witten_bell_formula_counted_by_hand():
    # after "a" the training text has b twice and c once: p(b | a) = (2 + 2 p(b)) / (3 + 2)
    train, held = b"abacab", b"ab"
    unigram = lambda n: (n + 3 / 256) / (6 + 3)  # noqa: E731  # three kinds in six bytes
    expected = -(math.log2(unigram(3)) + math.log2((2 + 2 * unigram(2)) / 5)) / 2
    assert byte_models(train, held)["order 1"] == pytest.approx(expected)


def test_unknown_bytes_cost_what_is_left_over():
    bits = byte_models(b"aaaa" * 50, b"zz")
    assert all(math.isfinite(bits[f"order {n}"]) and bits[f"order {n}"] > 8 for n in ORDERS)


def test_longer_contexts_help_on_text_that_repeats():
    text = b"the cat sat on the mat and the rat ate the hat. " * 40
    bits = byte_models(text, text[:500])
    assert bits["order 5"] < bits["order 3"] < bits["order 1"]


def test_probabilities_of_all_bytes_sum_to_one():
    train = b"abracadabra" * 3
    total = sum(2 ** -(2 * byte_models(train, b"a" + bytes([b]))["order 1"]) for b in range(1, 256))
    first = 2 ** -byte_models(train, b"a")["order 1"]
    separator = 1 - total / first  # the byte that is never asked for
    assert np.isclose(separator, 0, atol=1e-3)


def test_separators_are_no_bytes_to_predict():
    joined = SEPARATOR.join(["abc"] * 4).encode()
    assert compressed(joined)["xz"] > compressed(b"abc" * 4)["xz"]
    assert byte_models(joined, joined)["order 3"] < 3
