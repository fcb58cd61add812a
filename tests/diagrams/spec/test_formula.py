import pytest

from k3scope.diagrams.spec import formula

SIZES = {"d": 7168, "heads": 96, "head_dim": 128, "eps": 1e-5}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("2*d", 14336),
        ("d*(heads + 1) - 3", 7168 * 97 - 3),
        ("-heads", -96),
        ("2*d*heads*head_dim", 176160768),
    ],
)
def test_a_formula_is_a_number(text, number):
    assert formula.evaluate(text, SIZES) == number


@pytest.mark.parametrize(
    "text", ["d**2", "d/2", "f(d)", "d if d else 1", "'a'", "True", "d[0]", "__import__('os')", "d +", ""]
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        formula.evaluate(text, SIZES)


def test_a_misspelt_name_gets_the_nearest_one():
    with pytest.raises(ValueError, match="did you mean 'heads'"):
        formula.evaluate("d*head", {"d": 1, "heads": 2})


def test_writing_keeps_the_value():
    text = "d*(heads + head_dim) - heads*2"
    assert formula.filled(text, SIZES) == "7,168 × (96 + 128) - 96 × 2"
    assert formula.latex("d*head_dim") == r"\mathrm{d} \cdot \mathrm{head\_dim}"


def test_subtraction_of_a_sum_keeps_its_parentheses():
    text = "d - (heads + 1)"
    written = formula.filled(text, SIZES).replace(",", "").replace("×", "*")
    assert eval(written) == formula.evaluate(text, SIZES)


def test_shapes_and_sentences():
    assert formula.shape("[B, T, heads*head_dim]", SIZES | {"B": 1, "T": 5}) == (1, 5, 12288)
    assert formula.fill_braces("width {d}, {heads*2} of them", SIZES) == "width 7,168, 192 of them"
    with pytest.raises(ValueError, match="no shape"):
        formula.shape("B, T", SIZES)
