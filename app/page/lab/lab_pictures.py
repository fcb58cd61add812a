"""The Lab after a run: the pictures of a selection, made by the runner's threads and shown one by one."""

import asyncio
from functools import partial
from weakref import ref

import panel as pn

from k3scope.app.lab.lab_views import VIEWS, Choice, Selection, Slot, chosen_layer
from k3scope.app.model_cards import badge
from k3scope.app.page.kit import templates
from k3scope.app.page.kit.events import dispatch, execute
from k3scope.app.page.kit.static import styles
from k3scope.app.page.lab import continuation_panel, lab_text, linked_cursor
from k3scope.app.page.lab.baseline_menu import comparable, name_of_baseline
from k3scope.app.page.lab.components import SelectionBar, TokenStrip
from k3scope.app.page.lab.image_views import image_pictures
from k3scope.app.page.lab.intervention_panel import InterventionPanel
from k3scope.app.page.lab.lab_messages import on_message, on_tap
from k3scope.app.page.lab.lab_snapshot import DROPPED, LabSnapshot, marks, picture_of, text_of
from k3scope.app.page.lab.plot_pane import PlotPane
from k3scope.app.pool.task import Refused
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_session import RunSession
from k3scope.model.runs.run import Run

RUNNING_AGAIN = "This run is being passed through the model again."
# what a visitor who looks at a view is likely to change: the site that the form offers first
LIKELY_SITE = {
    "tokens": "sublayer",
    "routing": "routes",
    "memory": "decay",
    "attention": "head",
    "depth": "mix",
}
TITLES = [[key, view.title] for key, view in VIEWS.items()]


class LabPictures:
    """The bar, the text and the panes of pictures; all views share the panes."""

    def __init__(self, session: RunSession):
        self._session, self._state = session, session.state
        self._snapshot: LabSnapshot | None = None
        # whether the browser has drawn the Lab; without one, as in tests, nothing is waited for
        self._connected = pn.state.curdoc is None or pn.state.curdoc.session_context is None
        self._sent = False  # whether the figures are on their way
        self._repeated: RunResult | None = None  # on its way back into memory
        self._bar = SelectionBar(self._on_message, views=TITLES)
        self._strip = TokenStrip(self._on_message)
        session.follow("lab.busy", lambda event: setattr(self._strip, "busy", event.new))
        self._form = InterventionPanel(session).form
        self._text = pn.pane.HTML(stylesheets=[styles("lab")], sizing_mode="stretch_width", margin=(4, 0))
        count = max(len(view.slots) for view in VIEWS.values())
        self._panes = [PlotPane(self._state, partial(self._choose, i), self._on_tap) for i in range(count)]
        linked_cursor.link([pane.heatmap for pane in self._panes])
        views = (pane.view for pane in self._panes)
        grid = pn.FlexBox(*views, gap="12px 20px", margin=0, sizing_mode="stretch_width")
        # a column each: components have a style of their own that `visible` does not reach
        self._for_tokens = pn.Column(self._strip, sizing_mode="stretch_width", margin=0)
        self._images = pn.Column(image_pictures(session), sizing_mode="stretch_width", margin=0)
        self.view = pn.Column(
            self._bar,
            self._form,
            self._text,
            self._for_tokens,
            grid,
            self._images,
            sizing_mode="stretch_width",
            margin=(4, 20, 20, 20),
        )

    def update(self) -> None:
        """Show the selection of the state; what is already shown stays as it is."""
        result, baseline = self._session.result, self._session.baseline
        full_run = self._session.runner.full_run(result.id)
        for needed in (result, baseline):
            if needed and self._session.runner.full_run(needed.id) is None:
                self._repeat(needed)
                break
        if full_run is None:
            self._snapshot = None
            return
        snapshot = self._take_snapshot(result, full_run)
        # the browser must know the figures before it hears of a change
        if self._sent and not self._connected:
            return
        self._show_selection(snapshot)
        self._sent = True
        if not self._connected:
            return
        if snapshot != self._snapshot:
            fresh = self._snapshot is None or self._snapshot.result is not result
            self._snapshot = snapshot
            if fresh:
                continuation = continuation_panel.describe(result)
                self._strip.param.update(tokens=lab_text.tokens(result), continuation=continuation)
            execute(partial(self._draw, snapshot))

    def _repeat(self, result: RunResult) -> None:
        """Run once more what others have pushed out of memory; it is shown when it is there."""
        if self._repeated is result:
            return
        self._repeated = result
        repeated = self._session.runner.repeat(result.spec, self._session.requester)
        self._set_problem(RUNNING_AGAIN)

        def update_at_end() -> None:
            error = repeated.exception()
            self._set_problem(f"{DROPPED} {error if isinstance(error, Refused) else ''}" if error else "")
            self.update()
            self._repeated = None

        async def wait() -> None:
            await asyncio.wait([asyncio.wrap_future(repeated)])
            dispatch(update_at_end)

        execute(wait)

    def _set_problem(self, problem: str) -> None:
        self._text.object = templates.render(
            "lab_text.html", facts=[], report=[], problem=problem, baseline=""
        )

    def _take_snapshot(self, result: RunResult, full_run: Run) -> LabSnapshot:
        state, baseline = self._state, self._session.baseline
        baseline_run = self._session.runner.full_run(baseline.id) if baseline else None
        name, _, lab_layer = state.lab_view.partition(
            ":"
        )  # a layer of the Lab alone, where another model is drawn
        view = VIEWS[name]
        page_layer = state.layer if state.model == result.spec.model else None
        layer = chosen_layer(view, result.config, int(lab_layer) if lab_layer else None, page_layer)
        heads = 0 if view.problem(result.config) else view.heads(result.config)
        head = state.head if state.head is not None and state.head < heads else 0
        last = len(result.tokens) - 1
        token = last if state.token is None else min(state.token, last)
        return LabSnapshot(
            result,
            ref(full_run),
            ref(baseline_run) if baseline_run else None,
            name_of_baseline(result, baseline) if baseline else "",
            name,
            Selection(layer, head if heads else None, token),
            tuple(self._choice(slot).key for slot in view.slots),
        )

    def _choice(self, slot: Slot) -> Choice:
        return next((c for c in slot.choices if c.key in self._state.plots), slot.choices[0])

    def _show_selection(self, snapshot: LabSnapshot) -> None:
        """Everything that needs no thread: the bar, the chips, the theme, the lines in the plots."""
        view, selection, result = VIEWS[snapshot.view], snapshot.selection, snapshot.result
        shown = 0 if view.problem(result.config) else len(view.slots)
        layers = [[i, f"{i} {result.config.kinds[i].upper()}"] for i in view.layers(result.config)]
        chosen = {
            "layers": layers,
            "layer": selection.layer,
            "heads": view.heads(result.config) if shown else 0,
            "head": selection.head,
            "token": selection.token,
            "tokens": len(result.tokens),
            "text": result.tokens[selection.token].text,
            "baselines": comparable(self._session),
            "baseline": self._state.baseline,
        }
        self._bar.param.update(view=snapshot.view, chosen=chosen)
        self._strip.token = selection.token
        likely = {"what": LIKELY_SITE[snapshot.view], "layer": selection.layer, "index": selection.head}
        self._form.likely = likely
        self._for_tokens.visible = self._images.visible = snapshot.view == "tokens"
        for i, pane in enumerate(self._panes):
            if i < shown:
                pane.offer(view.slots[i], snapshot.choices[i])
            else:
                pane.hide()
            pane.heatmap.colour(self._state.dark)

    async def _draw(self, snapshot: LabSnapshot) -> None:
        """Text and pictures of a snapshot, unless another one is asked for meanwhile."""
        runner = self._session.runner
        tasks = [partial(text_of, snapshot, runner.tokenizer(snapshot.result.spec.model).token)]
        view = VIEWS[snapshot.view]
        slots = () if view.problem(snapshot.result.config) else view.slots
        tasks += [partial(picture_of, snapshot, slot, self._choice(slot)) for slot in slots]
        for i, task in enumerate(tasks):
            content = await asyncio.wrap_future(runner.measure(task))
            if snapshot != self._snapshot:
                return
            dispatch(partial(self._show, snapshot, i - 1, content))

    def _show(self, snapshot: LabSnapshot, index: int, content) -> None:
        """Pane `index` gets its picture, or the sentence why there is none; -1 is the text above."""
        if snapshot != self._snapshot:
            return
        if index < 0:
            self._text.object, self._strip.next = content
        elif isinstance(content, str):
            self._panes[index].refuse(content)
        else:
            pane = self._panes[index]
            pane.show(content, badge(snapshot.result.spec.model))
            pane.heatmap.mark(*marks(snapshot, content))

    def _choose(self, index: int, key: str) -> None:
        """Choose a picture of a slot: the first is shown unless the link names another."""
        slot = VIEWS[self._snapshot.view].slots[index]
        keys = [choice.key for choice in slot.choices]
        others = [name for name in self._state.plots if name not in keys]
        self._state.plots = others if key == keys[0] else [*others, key]

    def _on_message(self, data: dict) -> None:
        if data == {"connected": True}:
            self._connected = True
            self.update()
        elif not continuation_panel.on_message(self._session, data):
            on_message(self._session, data)

    def _on_tap(self, picture, row: int, column: int) -> None:
        on_tap(self._session, self._snapshot, picture, row, column)
