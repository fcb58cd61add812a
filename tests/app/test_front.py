"""`import k3scope`: what a script, a notebook and a type checker find there."""

import ast
import inspect
import subprocess
import sys

import pytest

import k3scope


@pytest.mark.parametrize("name", k3scope.__all__)
def test_every_name_is_there(name):
    assert getattr(k3scope, name) is not None


def test_the_names_are_listed_before_they_are_loaded():
    assert set(k3scope.__all__) <= set(dir(k3scope))
    assert set(k3scope.__all__) == {"__version__", *k3scope._HOMES}


def test_type_checkers_see_the_same_names():
    (guarded,) = [n for n in ast.parse(inspect.getsource(k3scope)).body if isinstance(n, ast.If)]
    homes = {
        alias.name: statement.module.removeprefix("k3scope.")
        for statement in guarded.body
        for alias in statement.names
    }
    assert homes == k3scope._HOMES


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="lode"):
        k3scope.lode  # noqa: B018


def test_importing_it_loads_no_torch():
    code = "import sys, k3scope; print([n for n in ('torch', 'numpy', 'panel') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_model_with_its_tokenizer_goes_on():
    model, tokenizer = k3scope.load("k3-tiny"), k3scope.tokenizer("k3-tiny")
    ids = tokenizer.encode("1 2 3")
    assert k3scope.trace(model, [ids]).ids.tolist() == [ids]
    assert len(list(k3scope.generate(model, ids, 2))) == 2
