"""What the log may hold: short lines, no prompt, and nothing of who only left."""

import json
import logging

import pytest
from tornado.iostream import StreamClosedError

from k3scope.app.link import query
from k3scope.app.page.log_lines import MAX_LINE, LogFilter

SECRET = "what was typed"


@pytest.fixture
def written():
    """Log a record, and read what is written of it; "" for nothing."""
    log_filter = LogFilter()

    def log(name: str, message: str, *args, error: BaseException | None = None) -> str:
        info = (type(error), error, error.__traceback__) if error else None
        record = logging.LogRecord(name, logging.ERROR, __file__, 1, message, args, info)
        return logging.Formatter().format(record) if log_filter.filter(record) else ""

    return log


def test_a_long_line_is_cut_and_says_by_how_much(written):
    line = written("k3scope", "x" * 100_000)
    assert len(line) < MAX_LINE + 50
    assert line.endswith("(99,500 characters cut)")


@pytest.mark.parametrize(
    ("name", "message", "args"),
    [
        ("tornado.access", "%d %s %.2fms", (404, f"GET /nope?prompt={SECRET.replace(' ', '+')} (::1)", 1.0)),
        ("panel.util", "Could not parse value {%s}", (SECRET,)),
        ("bokeh.server.views.ws", "Unhandled exception receiving a message: %r: %r", ("bad", SECRET)),
        (
            "bokeh.server.protocol_handler",
            "error handling message\n message: %r \n error: %r",
            (SECRET, "bad"),
        ),
    ],
)
def test_no_line_quotes_what_a_visitor_sent(written, name, message, args):
    line = written(name, message, *args)
    assert line
    assert SECRET not in line
    assert SECRET.replace(" ", "+") not in line


def test_a_traceback_names_its_error_and_not_the_text_of_it(written):
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        line = written("tornado.application", "Uncaught exception", error=error)
    assert "Traceback (most recent call last)" in line
    assert "ValueError" in line
    assert "test_log_lines.py" in line
    assert SECRET not in line.replace("raise ValueError(SECRET)", "")


def test_a_visitor_who_leaves_is_no_error(written):
    assert written("asyncio", "Task exception was never retrieved", error=StreamClosedError()) == ""


def test_equal_lines_are_written_once_and_counted(written, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("k3scope.app.page.log_lines.time.monotonic", lambda: now[0])
    lines = [written("k3scope", "again") for _ in range(1000)]
    assert list(filter(None, lines)) == ["again"]
    now[0] += 11
    assert written("k3scope", "again") == "again (999 equal lines left out)"


def test_a_message_that_only_a_library_could_not_read_is_one_line(written):
    try:
        json.loads("[" + SECRET)
    except ValueError as error:
        line = written("bokeh.server.views.ws", "Unhandled exception receiving a message: %r", 1, error=error)
    assert line.endswith("JSONDecodeError")
    assert "\n" not in line


def test_an_error_of_our_own_code_in_a_message_keeps_its_traceback(written):
    try:
        query.parse(None, None)
    except TypeError as error:
        line = written("bokeh.server.protocol_handler", "error handling message %r", 1, error=error)
    assert "Traceback" in line
    assert "query.py" in line
