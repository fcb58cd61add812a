"""The Lab after a run: which pictures are wanted, made by the runner's threads and shown one by one."""

import asyncio
import re
from dataclasses import replace
from functools import partial

import panel as pn

from k3scope.app.lab.lab_views import VIEWS, At, Choice, Slot, chosen_layer
from k3scope.app.model_cards import badge
from k3scope.app.page.kit import templates
from k3scope.app.page.kit.static import styles
from k3scope.app.page.lab import continuation_panel, lab_text, linked_cursor
from k3scope.app.page.lab.components import Bar, Strip
from k3scope.app.page.lab.image_views import images
from k3scope.app.page.lab.intervention_panel import change_form
from k3scope.app.page.lab.plot_slot import Place
from k3scope.app.page.lab.selection import Sight, marks, picture_of, shared, words
from k3scope.app.runs.forward_pass import Run, Whole
from k3scope.app.runs.run_session import PLAIN, Runs
from k3scope.model.measure.picture import Picture

WITHOUT = "the run without changes"
AGAIN = "This run is being passed through the model again."
GONE = "This run is no longer whole in memory: press Run in the dock to see inside it again."
# what a visitor who looks at a view is likely to change
CHANGED = {"tokens": "sublayer", "routing": "routes", "memory": "decay", "attention": "head", "depth": "mix"}
TITLES = [[key, view.title] for key, view in VIEWS.items()]


class Room:
    """The row, the words and the places of pictures; all views share the places."""

    def __init__(self, runs: Runs):
        self._runs, self._state = runs, runs.state
        self._sight: Sight | None = None
        self._here = pn.state.curdoc is None or pn.state.curdoc.session_context is None
        self._sent = False  # whether the figures are on their way
        self._recalled: Run | None = None  # on its way back into memory
        self._bar = Bar(self._told, views=TITLES)
        self._strip = Strip(self._told)
        runs.param.watch(lambda event: setattr(self._strip, "busy", event.new), "busy")
        self._form = change_form(runs)
        self._words = pn.pane.HTML(stylesheets=[styles("lab")], sizing_mode="stretch_width", margin=(4, 0))
        most = max(len(view.slots) for view in VIEWS.values())
        self._places = [Place(self._state, partial(self._choose, i), self._tapped) for i in range(most)]
        linked_cursor.link([place.drawn for place in self._places])
        views = (place.view for place in self._places)
        self._grid = pn.FlexBox(*views, gap="12px 20px", margin=0, sizing_mode="stretch_width")
        # a column each: parts have a style of their own that `visible` does not reach
        self._for_tokens = pn.Column(self._strip, sizing_mode="stretch_width", margin=0)
        self._images = pn.Column(images(runs), sizing_mode="stretch_width", margin=0)
        self.view = pn.Column(
            self._bar, self._form, self._words, self._for_tokens, self._grid, self._images,
            sizing_mode="stretch_width", margin=(4, 20, 20, 20),
        )  # fmt: skip

    def look(self) -> None:
        """Show what the state asks for; what is already shown stays as it is."""
        run = self._runs.run
        whole = self._runs.runner.whole(run.id)
        other = self._runs.reference
        if gone := next((r for r in (run, other) if r and self._runs.runner.whole(r.id) is None), None):
            self._recall(gone)
        if whole is None:
            self._sight = None
            return
        sight = self._wanted(run, whole)
        if not self._here and self._sent:  # the browser must know the figures before it hears of a change
            return
        self._follow(sight)
        self._sent = True
        if not self._here:
            return
        if sight != self._sight:
            fresh = self._sight is None or self._sight.run is not run
            self._sight = sight
            if fresh:
                self._strip.param.update(tokens=lab_text.tokens(run), added=continuation_panel.about(run))
            pn.state.execute(partial(self._draw, sight))

    def _recall(self, run: Run) -> None:
        """Pass a run once more that others have pushed out of memory; it is shown when it is there."""
        if self._recalled is run:
            return
        self._recalled = run
        try:
            job = self._runs.again(run.spec)
        except ValueError as error:
            self._say(f"{GONE} {error}")
            return
        self._say(AGAIN)

        async def await_() -> None:
            await asyncio.wait([asyncio.wrap_future(job.future)])
            self._say(GONE if job.future.exception() else "")
            self.look()
            self._recalled = None

        pn.state.execute(await_)

    def _say(self, problem: str) -> None:
        self._words.object = templates.render(
            "lab_words.html", facts=[], report=[], problem=problem, against=""
        )

    def _wanted(self, run: Run, whole: Whole) -> Sight:
        state, other = self._state, self._runs.reference
        name, _, own = state.lab.partition(":")
        view = VIEWS[name]
        same = state.model == run.spec.model
        layer = chosen_layer(view, run.config, int(own) if own else None, state.layer if same else None)
        heads = view.heads(run.config)
        head = state.head if state.head is not None and state.head < heads else 0
        last = len(run.pieces) - 1
        token = last if state.token is None else min(state.token, last)
        choices = tuple(self._choice(slot).key for slot in view.slots)
        theirs = self._runs.runner.whole(other.id) if other else None
        at = At(layer, head if heads else None, token)
        return Sight(run, whole, theirs, called(run, other) if other else "", name, at, choices)

    def _choice(self, slot: Slot) -> Choice:
        return next((c for c in slot.choices if c.key in self._state.plots), slot.choices[0])

    def _follow(self, sight: Sight) -> None:
        """Everything that answers at once: the row, the chips, the theme, the lines in the plots."""
        view, at, run = VIEWS[sight.view], sight.at, sight.run
        layers = [[i, f"{i} {run.config.kinds[i].upper()}"] for i in view.layers(run.config)]
        self._bar.param.update(
            view=sight.view,
            chosen={
                "layers": layers, "layer": at.layer, "heads": view.heads(run.config), "head": at.head,
                "token": at.token, "tokens": len(run.pieces), "text": run.pieces[at.token].text,
                "runs": comparable(self._runs), "against": self._state.against,
            },
        )  # fmt: skip
        self._strip.token = at.token
        self._form.at = {"what": CHANGED[sight.view], "layer": at.layer, "index": at.head}
        self._for_tokens.visible = sight.view == "tokens"
        self._images.visible = sight.view == "tokens"
        for i, place in enumerate(self._places):
            if i < len(view.slots):
                place.offer(view.slots[i], sight.choices[i])
            else:
                place.hide()
            place.drawn.colour(self._state.dark)

    async def _draw(self, sight: Sight) -> None:
        """Words and pictures of a sight, unless another one is wanted meanwhile."""
        view = VIEWS[sight.view]
        made = [partial(words, sight, self._runs.runner.tokenizer(sight.run.spec.model).piece)]
        made += [partial(picture_of, sight, slot, self._choice(slot)) for slot in view.slots]
        for i, make in enumerate(made):
            found = await asyncio.wrap_future(self._runs.runner.measuring.submit(make))
            if sight != self._sight:
                return
            pn.state.execute(partial(self._show, sight, i - 1, found), schedule=True)

    def _show(self, sight: Sight, index: int, found) -> None:
        if sight != self._sight:
            return
        if index < 0:
            self._words.object, self._strip.next = found
        elif isinstance(found, str):
            self._places[index].refuse(found)
        else:
            place = self._places[index]
            place.show(found, badge(sight.run.spec.model))
            place.drawn.mark(*marks(sight, found))

    def _choose(self, index: int, key: str) -> None:
        """Take a picture of a slot; the first is there unless another one is in the link."""
        slot = VIEWS[self._sight.view].slots[index]
        keys = [choice.key for choice in slot.choices]
        kept = [name for name in self._state.plots if name not in keys]
        self._state.plots = kept if key == keys[0] else [*kept, key]

    def _told(self, data: dict) -> None:
        if data == {"here": True}:
            self._here = True
            self.look()
        if continuation_panel.told(self._runs, data):
            return
        state, run = self._state, self._runs.run
        match data:
            case {"view": str(name)} if name in VIEWS:
                state.lab = name
            case {"layer": int(layer)} if 0 <= layer < run.config.layers:
                self._set_layer(layer)
            case {"head": int(head)} if head >= 0:
                state.head = head
            case {"token": int(token)} if 0 <= token < len(run.pieces):
                state.token = token
            case {"against": str(chosen)} if chosen in dict(comparable(self._runs)):
                state.against = chosen

    def _set_layer(self, layer: int) -> None:
        state = self._state
        view = state.lab.partition(":")[0]
        if state.model == self._runs.run.spec.model:
            state.param.update(layer=layer, lab=view)
        else:
            state.lab = f"{view}:{layer}"

    def _tapped(self, picture: Picture, row: int, column: int) -> None:
        """A click in a plot chooses what its row and its column stand for."""
        top, bottom, left, right = picture.numbers
        if not (top <= row <= bottom and left <= column <= right):
            return
        for number, first, word, names in (
            (row, top, picture.down, picture.rows),
            (column, left, picture.across, picture.columns),
        ):
            if word == "token":
                self._told({"token": int(shared(self._sight)[number])})
            elif word.endswith("head"):
                self._told({"head": number})
            elif "layer" in word and number - first < len(names):
                self._tapped_layer(names[number - first])

    def _tapped_layer(self, name: str) -> None:
        if found := re.search(r"(\d+)$", name):
            self._set_layer(int(found[1]))


def comparable(runs: Runs) -> list[list[str]]:
    """What the run on show can be compared with: value and label."""
    run = runs.run
    plain = [[PLAIN, WITHOUT]] if run.spec.changes else []
    known = [
        [other.id, label(other)]
        for other in runs.history
        if other.id != run.id and other.spec.model == run.spec.model
    ]
    chosen = runs.state.against
    if chosen and chosen not in dict([*plain, *known]):
        known.append([chosen, f"run {chosen}"])
    return [["", "nothing"], *plain, *known]


def called(run: Run, other: Run) -> str:
    """How the run is called that another is compared with."""
    return WITHOUT if other.spec == replace(run.spec, changes="") else label(other, 60)


def label(run: Run, most: int = 24) -> str:
    """A run in a menu, with so many characters of its prompt."""
    prompt = run.spec.prompt if len(run.spec.prompt) <= most else run.spec.prompt[: most - 1] + "…"
    count = len(run.changes)
    return f"“{prompt}”" + (f", {count} change{'s' if count > 1 else ''}" if count else "")
