"""The options of `serve`, and what docs/serving.md says of them and of headers and metrics."""

import argparse
import re
from pathlib import Path

import pytest

from k3scope.app.commands import serve
from k3scope.app.page.http_headers import HEADERS, POLICY, content_policy

DOCS = (Path(__file__).parents[3] / "docs/serving.md").read_text()
ROW = re.compile(r"^\| `(--[a-z-]+)` \| (\S+) \|", re.M)


@pytest.fixture(scope="module")
def options() -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    serve.arguments(parser)
    return {name: action for action in parser._actions for name in action.option_strings}


def test_the_docs_name_options_with_the_defaults_of_the_parser(options):
    rows = ROW.findall(DOCS)
    assert len(rows) == 6
    for name, default in rows:
        expected = {"none": (None, []), "`*`": (None,)}.get(default, (default,))
        value = options[name].default
        assert value in expected or str(value) in expected
    assert serve._frame_ancestors(None) == ("*",)


def test_the_docs_have_every_header_and_directive():
    for name in (*HEADERS, *(directive for directive, _sources, _why in POLICY)):
        assert f"`{name}`" in DOCS


@pytest.mark.parametrize("text", ["0", "70000", "host", ":9100", "a:b"])
def test_where_metrics_listen_is_a_port(text):
    with pytest.raises(ValueError, match="expected a port from 1 to 65535"):
        serve._host_and_port("--metrics", text)


def test_metrics_listen_to_this_machine_unless_a_host_is_named():
    assert serve._host_and_port("--metrics", "9100") == ("127.0.0.1", 9100)
    assert serve._host_and_port("--metrics", "[::]:9100") == ("::", 9100)


@pytest.mark.parametrize("names", [["a; script-src *"], ["none", "self"], [""], ["'self'"]])
def test_who_embeds_the_page_cannot_change_the_policy(names):
    with pytest.raises(ValueError, match="expected"):
        serve._frame_ancestors(names)


def test_who_may_embed_the_page_is_in_the_policy():
    assert content_policy(frame_ancestors=("none",)).endswith("frame-ancestors 'none'")
    assert "frame-ancestors" not in content_policy()
