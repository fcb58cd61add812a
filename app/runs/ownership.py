"""Whose the runs of a visitor are, so that they can be forgotten: a token, and its hash in the store."""

import asyncio
import hashlib
import re
from contextlib import suppress
from functools import partial

from k3scope.app.link.fields import DEFAULTS
from k3scope.app.link.followers import Followed
from k3scope.app.runs import run_status
from k3scope.app.runs.run_store import StoreError

TOKEN = re.compile(r"[0-9a-f]{32}")
OF_A_RUN = ("run_model", "weights", "prompt", "run_id", "interventions", "baseline", "token")  # in the link


class Ownership(Followed):
    """The part of a RunSession, which has the fields named here, that knows the owner of its runs."""

    owner = ""  # as the store knows it; empty: runs of this visitor belong to nobody

    def __init__(self, **params):
        super().__init__(**params)
        self._writing = asyncio.Lock()  # what is forgotten must not be owned afterwards
        self.follow("owner", self._own_result)

    def set_owner(self, token: str) -> None:
        """The 32 hex digits that the browser keeps; anything else is no token."""
        if TOKEN.fullmatch(token):
            self.owner = hashlib.sha256(token.encode()).hexdigest()

    def forget(self) -> None:
        """Remove the runs of this visitor from the server and from the page; what is running stops."""
        self.leave()
        self._set_idle("Removing your runs.")
        self._execute(self._forget)

    def _own_result(self, *_events) -> None:
        """Also one that was in memory already, or that another visitor's job gave.

        The run of a link stays its owner's. One without an owner, as when that one has forgotten it, was kept
        because this visitor opened the link.
        """
        if self.owner and self.result is not None:
            self._execute(partial(self._own, self.result.id, self._linked))

    async def _own(self, run_id: str, linked: bool) -> None:
        async with self._writing:
            with suppress(StoreError):  # the run stays; it only cannot be forgotten as this visitor's
                await asyncio.to_thread(self.runner.own, run_id, self.owner, linked)

    async def _forget(self) -> None:
        shown = [result.id for result in self.history]
        try:  # not on the event loop: it waits for the disk
            async with self._writing:
                removed = await asyncio.to_thread(self.runner.forget, self.owner, shown)
        except StoreError as error:
            problem = run_status.NOT_FORGOTTEN.format(why=error)
            self._dispatch(partial(self._set_idle, problem=problem))
            return
        self._dispatch(partial(self._clear, run_status.forgotten(removed)))

    def _clear(self, text: str) -> None:
        self.leave()  # a run started meanwhile
        self.param.update(result=None, baseline=None, history=[], images=[], prompt="")
        self.state.param.update(**{name: DEFAULTS[name] for name in OF_A_RUN}, generated_ids=[], pending={})
        self._set_idle(text)
