"""What may stand in the log: short lines, no prompt, nothing of who only left, no line over and over."""

import logging
import re
import time
import traceback
from collections import OrderedDict

from k3scope.assets import ROOT

MAX_LINE = 500  # characters of a message
HANDLED = ("", "bokeh", "panel", "tornado")  # loggers with handlers of their own
AGAIN_S = 10  # an equal line within this time is counted, not written
REMEMBERED = 200  # lines
LEFT = ("StreamClosedError", "WebSocketClosedError", "ConnectionResetError", "BrokenPipeError")
REPEATED = "ProtocolError"  # Bokeh writes one line of it, and then raises it again
# messages of Bokeh and Tornado that quote what a visitor sent after these words
QUOTES = re.compile(
    r"(?s)(exception receiving a message|threw an exception|error handling message|protocol error"
    r"|internal error|could not create new server session|invalid signature|from Origin|malformed).*",
    re.IGNORECASE,
)
LIBRARIES = ("bokeh", "tornado.general", "tornado.application")
OURS = tuple(f"{ROOT.parent}/{folder}/" for folder in ("app", "diagrams", "model"))
QUERY = re.compile(r"\?\S*")


class LogFilter(logging.Filter):
    """Goes on handlers: a filter on a logger would not see what comes from those below it."""

    def __init__(self):
        super().__init__()
        # line -> when it was written, and how many like it were left out since
        self._last: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; its message is then short and without a visitor's text."""
        error = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
        message = record.getMessage()
        said = f"{error.__name__ if error else ''} {message}"
        if any(name in said for name in (*LEFT, REPEATED)):
            return False
        record.msg, record.args = shortened(_without_visitors_text(record.name, message)), ()
        if error and record.name.startswith("bokeh") and not _is_of_ours(record):
            record.msg, record.exc_info = f"{record.msg}: {error.__name__}", None  # a message that is none
        elif error:  # the place is enough: the text of an error may hold what was typed
            record.exc_text = shortened(_traceback(record), 20 * MAX_LINE)
        return self._is_new(record)

    def _is_new(self, record: logging.LogRecord) -> bool:
        now, line = time.monotonic(), record.msg
        written, left_out = self._last.get(line, (None, 0))
        if written is not None and now - written < AGAIN_S:
            self._last[line] = (written, left_out + 1)
            return False
        self._last[line] = (now, 0)
        self._last.move_to_end(line)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        if left_out:
            record.msg = f"{line} ({left_out} equal lines left out)"
        return True


def shortened(text: str, most: int = MAX_LINE) -> str:
    """A text of at most so many characters, with how many were cut."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} characters cut)"


def clean_logs() -> None:
    """Let the filter see all that this process logs."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.WARNING)
    log_filter = LogFilter()
    for name in HANDLED:
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(log_filter)


def _without_visitors_text(logger: str, message: str) -> str:
    if logger == "panel.util":  # it quotes values of links that it takes for JSON
        return "a value of a link is no JSON"
    if logger.startswith(LIBRARIES):
        message = QUOTES.sub(lambda found: f"{found[1]} (what was sent is left out)", message)
    return QUERY.sub("?…", message)


def _is_of_ours(record: logging.LogRecord) -> bool:
    """Whether an error passed our code, and not only that of the libraries, which read the message."""
    return any(frame.filename.startswith(OURS) for frame in traceback.extract_tb(record.exc_info[2]))


def _traceback(record: logging.LogRecord) -> str:
    """Where an error came from and its class, without its text."""
    kind, _error, place = record.exc_info
    return f"Traceback (most recent call last):\n{''.join(traceback.format_tb(place))}{kind.__name__}"
