"""The base of the page's components whose browser half sends dicts."""

from collections.abc import Callable

from k3scope.app.page.kit.events import OrderedComponent, dispatch


class Component(OrderedComponent):
    """Hands each message of the browser, a dict, to the function it was made with, in order."""

    __abstract = True

    def __init__(self, on_message: Callable[[dict], None], **params):
        super().__init__(sizing_mode="stretch_width", margin=0, **params)
        self._on_message = on_message

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict):
            dispatch(lambda: self._on_message(data))
