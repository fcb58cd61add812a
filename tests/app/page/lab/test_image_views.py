"""The sentences over the pictures of an image."""

import pytest
from visitor import Visitor

from k3scope.app.page.lab.image_views import image_text


@pytest.fixture(scope="module")
def result(runner):
    visitor = Visitor(runner)
    visitor.session.add_sample("ring")
    return visitor.run("hi")


def sentences(result, token):
    image = result.images[0]
    layer = next(iter(image.attended))
    return " ".join(image_text(result, image, layer, token, image.stages[-1]).split())


def test_the_rows_of_an_image_are_counted(result):
    image = result.images[0]
    rows = f"24 in all, tokens {image.tokens[0]} to {image.tokens[-1]}."
    assert rows in sentences(result, None)
    assert "The tokens of text after the image give" in sentences(result, None)


def test_a_chosen_token_of_text_is_named(result):
    last = len(result.tokens) - 1
    assert f"Token {last}, “i”, gives" in sentences(result, last)


def test_a_token_of_the_image_itself_is_none_that_reads_it(result):
    assert "The tokens of text after the image give" in sentences(result, result.images[0].start)
