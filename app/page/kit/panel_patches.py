"""What this page needs of Panel and Bokeh beyond their public interface: all of it is in this file.

Each private name below has no public counterpart. They are checked when the page is loaded, so that another
version of Panel or Bokeh says what is missing instead of losing changes in silence.
"""

import threading
import warnings
from collections.abc import Callable

import bokeh
import panel
from bokeh.document import Document
from bokeh.server import urls
from panel.io import document as panel_document
from panel.io import location as panel_location
from panel.io.server import WSHandler
from tornado.web import HTTPError

TESTED = {"panel": "1.9", "bokeh": "3.9"}
NEEDED = {  # (module or class, name): what breaks without it
    (
        panel_document,
        "_dispatch_msgs",
    ): "a change made while another is being written is sent with the next one",
    (panel_document, "_WRITE_MSGS"): "the same",
    (panel_document, "_WRITE_BLOCK"): "the same",
    (panel.state, "_change_callbacks"): "messages of the browser may overtake each other",
    (panel.custom.JSComponent, "_event_coroutine"): "the same",
    (panel.custom.JSComponent, "_process_bokeh_event"): "the same",
    (panel.state, "_thread_id_"): "changes made on a thread are sent one by one, or late",
    (panel_location, "parse_query"): "a link with a number of 5,000 digits opens no page",
    (urls, "per_app_patterns"): "a link is answered only after its session is there",
}


def check() -> None:
    """RuntimeError names what this Panel or Bokeh lacks; a warning, what it was not tested with."""
    for (owner, name), consequence in NEEDED.items():
        if not hasattr(owner, name):
            where = getattr(owner, "__name__", type(owner).__name__)
            raise RuntimeError(
                f"Panel {panel.__version__} with Bokeh {bokeh.__version__} has no {where}.{name}: "
                f"{consequence}. k3scope is tested with Panel {TESTED['panel']} and Bokeh {TESTED['bokeh']}."
            )
    for module in (panel, bokeh):
        expected = TESTED[module.__name__]
        if not module.__version__.startswith(f"{expected}."):
            warnings.warn(
                f"k3scope replaces private functions of {module.__name__}, tested with {expected}, "
                f"and this is {module.__version__}: changes may reach the browser late.",
                stacklevel=2,
            )


async def ordered_event(component, document: Document, event) -> None:
    """Handle a message of the browser after those before it; Panel would start a thread for each."""
    for change in list(panel.state._change_callbacks.get(document, {}).values()):
        await change()
    component._process_bokeh_event(document, event)


def run_as_owner(document: Document, action: Callable[[], None]) -> None:
    """Run an action on this thread as if it were the document's own; its lock must be held."""
    owners = panel.state._thread_id_
    before = owners.get(document)
    owners[document] = threading.get_ident()
    try:
        action()
    finally:
        owners[document] = before


def hand_over(document: Document) -> None:
    """From now on the document belongs to the calling thread, whichever has made it."""
    panel.state._thread_id_[document] = threading.get_ident()


class PageSocket(WSHandler):
    """Sends each frame at once: a message of Bokeh is three, and the second would wait for the other side's
    delayed acknowledgement of the first, 40 ms or a round trip.
    """

    def prepare(self):
        """Also for a browser that says the request is of the same origin, where Tornado does not look: a name
        that an attacker lets stand for this address is of the same origin too.
        """
        origin = self.request.headers.get("Origin")
        if origin is not None and not self.check_origin(origin):
            raise HTTPError(403)
        return super().prepare()

    def open(self) -> None:
        self.set_nodelay(True)
        super().open()

    async def send_message(self, message) -> None:
        """Without the traceback of an error: its paths are nobody's concern, and it is in the log."""
        if message.msgtype == "ERROR":
            message.content["traceback"] = None
        await super().send_message(message)


def serve_pages_with(handler: type) -> None:
    """Let `handler` answer the address of a page; Bokeh takes the handlers of an app from this list."""
    urls.per_app_patterns[-1] = ("/?", handler)
    urls.per_app_patterns[:] = [
        (path, PageSocket if issubclass(kind, WSHandler) else kind) for path, kind in urls.per_app_patterns
    ]


def _dispatch_all(dispatch):
    async def dispatch_all(document: Document) -> None:
        """Panel drops its mark of messages that wait when it has written the ones before, and then passes
        by those that came meanwhile: without this a page may miss a change until the next one.
        """
        if document in panel_document._WRITE_MSGS:
            panel_document._WRITE_BLOCK[document] = True
        await dispatch(document)

    return dispatch_all


check()
panel_document._dispatch_msgs = _dispatch_all(panel_document._dispatch_msgs)
# The page reads its link itself; Panel would evaluate every value, and fail at some.
panel_location.parse_query = lambda query: {}
