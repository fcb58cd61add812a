"""How many sessions there may be: each costs memory, whether a page or a websocket asks for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from bokeh.protocol.exceptions import ProtocolError
from bokeh.server.contexts import ApplicationContext
from bokeh.server.tornado import BokehTornado
from tornado.web import HTTPError

# Bokeh lets a session go that no websocket has opened for 15 s; it would look every 17 s
UNUSED = {"unused_session_lifetime_milliseconds": 15_000, "check_unused_sessions_milliseconds": 5_000}


class SessionLimit:
    """Counts the sessions of an application of Bokeh and those being made."""

    def __init__(self, application: BokehTornado, most: int):
        self._contexts, self._most, self._making = list(application.applications.values()), most, 0
        for context in self._contexts:
            context.create_session_if_needed = self._bounded(context)

    @property
    def full(self) -> bool:
        return self._making + sum(len(context.sessions) for context in self._contexts) >= self._most

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place while a session is made. HTTPError 503 when there is none."""
        if self.full:
            raise HTTPError(503)
        self._making += 1
        try:
            yield
        finally:
            self._making -= 1

    def _bounded(self, context: ApplicationContext):
        """A websocket that names no session makes one too; a page has its place already."""
        create = context.create_session_if_needed

        async def create_session(session_id, request=None, token=None):
            by_websocket = request is not None and request.headers.get("Upgrade", "").lower() == "websocket"
            if not by_websocket or any(session.id == session_id for session in context.sessions):
                return await create(session_id, request, token)
            try:
                with self.place():
                    return await create(session_id, request, token)
            except HTTPError:
                raise ProtocolError("there are as many sessions as --max-sessions allows") from None

        return create_session
