"""A place on the page that the browser draws and that hears what is done there."""

from collections.abc import Callable

from k3scope.app.page.kit.events import OrderedComponent, dispatch


class Component(OrderedComponent):
    """Sends each message of the browser, a dict, to the function it was made with."""

    __abstract = True

    def __init__(self, on_message: Callable[[dict], None], **params):
        super().__init__(sizing_mode="stretch_width", margin=0, **params)
        self._on_message = on_message

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict):
            dispatch(lambda: self._on_message(data))
