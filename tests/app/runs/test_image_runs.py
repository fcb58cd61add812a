"""Runs with images: the prompt they make, the limit, the link that brings them back."""

import dataclasses
import hashlib
import sqlite3

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from visitor import Visitor

from k3scope.app.cli import main
from k3scope.app.page.dock.dock import dock
from k3scope.app.page.dock.result_message import chips
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_status import summary
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.app.runs.uploads import Upload, accept, sample
from k3scope.assets import samples
from k3scope.model.presets import K3_TINY

PLACEHOLDER = K3_TINY.media_pad


class Guest(Visitor):
    """A visitor who adds sample images before a prompt."""

    def run(self, prompt, *names):
        for name in names:
            self.session.add_sample(name)
        return super().run(prompt)


def blank(width: int, height: int) -> Upload:
    """An image by its size alone; enough to be counted."""
    return Upload("blank", b"", (width, height))


def test_a_run_without_images_keeps_its_id():
    spec = RunSpec("k3-random", "0123456789ab", "hello")
    assert spec.id == "3s44swnttgy5"
    assert "images" not in spec.canonical
    with_image = RunSpec("k3-random", "0123456789ab", "hello", ("00" * 32,))
    assert with_image.id == "46rd7cmwyb3r"  # a link of today must work tomorrow
    for kept in (spec, with_image):
        assert RunSpec.read(kept.canonical) == kept


def test_a_run_equals_the_command_line(runner, tmp_path, capsys):
    out = tmp_path / "trace.safetensors"
    files = [f"--image={samples.path(name)}" for name in ("ring", "ramp")]
    assert main(["trace", "k3-random", "--prompt", "what?", *files, "--out", str(out)]) == 0
    tensors = load_file(out)
    job = runner.submit("k3-random", "what?", [sample("ring"), sample("ramp")])
    run = job.future.result(60)
    assert [piece.id for piece in run.tokens] == tensors["token_ids"][0].tolist()
    assert len(run.tokens) == job.tokens
    probs = tensors["logits"][0, -1].softmax(-1)
    assert run.next[0][0].id == int(probs.argmax())
    assert run.next[0][1] == pytest.approx(float(probs.max()), rel=1e-4)
    assert run.spec.images == tuple(
        hashlib.sha256(samples.path(name).read_bytes()).hexdigest() for name in ("ring", "ramp")
    )


def test_the_order_of_images_makes_another_run(runner):
    pair = [sample("ring"), sample("ramp")]
    runs = [runner.submit("k3-random", "order", images).future.result(60) for images in (pair, pair[::-1])]
    assert runs[0].id != runs[1].id


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (
            [(1920, 1080)],
            r"The image becomes 2,691 rows, and the text has 1[0-9] tokens: together 2,70[0-9]; ",
        ),
        ([(800, 800)] * 3, r"The 3 images become 2,523 rows, and the text has "),
        ([(1260, 1260)], r"The image becomes 2,025 rows, and the text has [0-9]+ tokens: together 2,049; "),
    ],
)
def test_rows_count_as_tokens_and_the_sentence_names_both(runner, images, sentence):
    before = runner.count("k3-random", "image 1260x1260") + 3  # words around the one image
    prompt = "x" * (2049 - 2025 - before) if images[0][0] == 1260 else "tall"
    with pytest.raises(ValueError, match=sentence + ".*a run here takes at most 2,048.|" + sentence):
        runner.submit("k3-random", prompt, [blank(*size) for size in images])


def test_a_full_run_is_taken(runner):
    images = [blank(1260, 1260)]
    room = 2048 - 2025 - runner.count("k3-random", "image 1260x1260") - 3
    job = runner.submit("k3-random", "x" * room, images)
    job.cancel()
    assert job.tokens == 2048


def test_a_model_without_a_tower_takes_no_images(monkeypatch):
    runner = Runner()
    model = runner._workers["k3-random"].model
    monkeypatch.setattr(model, "config", dataclasses.replace(model.config, vision=None))
    with pytest.raises(ValueError, match="k3-random has no vision tower, so it takes no images"):
        runner.submit("k3-random", "x", [sample("ring")])


@pytest.mark.parametrize(
    "picture", [Image.new("RGB", (1, 1)), Image.new("LA", (3, 90)), Image.new("1", (30, 2))]
)
def test_odd_pictures_run(runner, picture, tmp_path):
    picture.save(tmp_path / "odd.png")
    image = accept("odd", (tmp_path / "odd.png").read_bytes())
    run = runner.submit("k3-random", "", [image]).future.result(60)
    assert [len(seen.tokens) for seen in run.images] == [image.rows(run.config.vision)]
    assert run.images[0].readers.size  # the token that ends the image


def test_the_rows_of_an_image_are_one_chip(runner):
    run = Guest(runner).run("hi", "ring")
    shown = chips(run)
    image = next(chip for chip in shown if chip[2] == "image")
    words = runner.count("k3-random", "image 150x100")
    assert image == [PLACEHOLDER, "image, 24 rows", "image", words + 2, 24, False]
    assert shown[-1] == [ord("i"), "i", "", len(run.tokens) - 1, 1, False]
    assert sum(chip[4] for chip in shown) == len(run.tokens)
    assert f"{words + 24 + 5} tokens, 24 of them image rows" in summary(run)


def test_the_fifth_image_is_refused_and_one_can_be_taken_out(runner):
    visitor = Guest(runner)
    for name in ("ring", "ramp", "ring", "shapes", "ramp"):
        visitor.session.add_sample(name)
    assert len(visitor.session.images) == 4
    assert "at most 4 images" in visitor.session.problem
    visitor.session.remove(1)
    assert [image.name for image in visitor.session.images] == ["Ring on nothing, padded"] * 2 + ["Shapes"]
    visitor.session.add("notes.txt", b"words")
    assert visitor.session.problem == "notes.txt: not an image in a known format."
    assert len(visitor.session.images) == 3


def test_what_the_browser_sends_is_checked(runner):
    visitor = Guest(runner)
    shown = dock(visitor.session)
    shown._handle_msg({"type": "attach", "name": "a.png", "data": "not base64!"})
    assert visitor.session.problem == "a.png did not arrive whole; please add it again."
    assert shown.received == 1
    shown._handle_msg({"type": "attach_sample", "name": "no such"})
    assert "there is no sample image" in visitor.session.problem
    for index in (-1, 7):
        shown._handle_msg({"type": "remove", "index": index})
        shown._handle_msg({"type": "shrink", "index": index})
    assert shown.attachments == []


def test_a_link_brings_images_back_after_a_restart(tmp_path):
    path = tmp_path / "runs.sqlite"
    first = Guest(Runner(store=Store(path)))
    run = first.run("kept", "ring", "ramp")
    later = Guest(Runner(store=Store(path)), **first.state.linked())
    later.session.open()
    later.settle()
    assert later.session.result.id == run.id
    assert not later.session.problem
    assert [image.name for image in later.session.images] == ["Ring on nothing, padded", "Colour ramp"]


def test_an_image_that_is_gone_is_said_and_can_be_left_out_or_added_again(tmp_path):
    path = tmp_path / "runs.sqlite"
    first = Guest(Runner(store=Store(path)))
    run = first.run("gone", "ring")
    store = Store(path)
    sqlite3.connect(path, isolation_level=None).execute("DELETE FROM images")
    for again in (False, True):
        later = Guest(Runner(store=store), **first.state.linked())
        later.session.open()
        later.settle()
        assert later.session.result is None
        assert "The image of this run is no longer kept here" in later.session.problem
        assert later.session.prompt == "gone"
        then = later.run("gone", *(["ring"] if again else []))
        assert (then.id == run.id) is again


def test_a_link_from_elsewhere_says_that_more_than_its_prompt_belongs_to_it():
    link = Guest(Runner())
    link.run("far away", "ring")
    other = Guest(Runner(), **link.state.linked())
    other.session.open()
    other.settle()
    assert other.session.result.spec.images == ()
    assert "not this prompt alone" in other.session.problem
    assert other.state.run_id == link.state.run_id  # the link stays what it was


def test_going_back_takes_the_images_along(runner):
    visitor = Guest(runner)
    first = visitor.run("back", "ring")
    then = visitor.state.linked()
    visitor.session.remove(0)
    visitor.run("forth")
    visitor.state.param.update(**then)
    visitor.settle()
    assert visitor.session.result.id == first.id
    assert len(visitor.session.images) == 1


def test_the_tower_of_a_model_that_read_only_text_is_random(runner):
    run = Guest(runner).run("tower", "ring")
    assert run.random_weights
    assert run.random_tower
    assert torch.isfinite(torch.from_numpy(run.images[0].stages)).all()
