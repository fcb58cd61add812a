import threading

import numpy as np
import pytest
import torch

from k3scope.model import trace
from k3scope.model.hooks import Probe, record, watch
from k3scope.model.kda import KimiDeltaAttention
from k3scope.model.vision.preprocess import prepare

LAYER = "language_model.model.layers."


def prompt(seed: int) -> torch.Tensor:
    return torch.randint(0, 256, (1, 9), generator=torch.Generator().manual_seed(seed))


def test_probes_leave_the_state_dict_alone(tiny):
    names = {n for n, m in tiny.named_modules() if isinstance(m, Probe)}
    assert names
    assert not [k for k in tiny.state_dict() if any(k.startswith(n + ".") for n in names)]


def test_every_probe_fires(tiny):
    images = prepare([np.zeros((28, 56, 3), np.uint8)], tiny.config.vision)
    values = trace(tiny, torch.tensor([[1, tiny.config.media_pad, 2]]), images=images).values
    assert {n for n, m in tiny.named_modules() if isinstance(m, Probe)} <= values.keys()


@pytest.mark.slow
def test_two_threads_on_one_model_never_mix(tiny):
    ids = [prompt(1), prompt(2)]
    alone = [trace(tiny, i).values for i in ids]
    wrong = []

    def run(which: int):
        for _ in range(30):
            recorded = trace(tiny, ids[which]).values
            point = LAYER + "8.prefix_sum"
            if recorded.keys() != alone[which].keys() or not torch.equal(
                recorded[point], alone[which][point]
            ):
                wrong.append(which)

    threads = [threading.Thread(target=run, args=(i,)) for i in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_watching_twice_adds_no_hook(tiny):
    before = sum(len(m._forward_hooks) for m in watch(tiny).modules())
    assert sum(len(m._forward_hooks) for m in watch(tiny).modules()) == before


def test_a_requested_point_that_never_fires_is_an_error(tiny):
    with pytest.raises(KeyError, match="nowhere"), record(["nowhere"]):
        watch(tiny)(prompt(0))


def test_an_exception_leaves_no_recorder_behind(tiny):
    def stop(_path):
        raise RuntimeError("cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        trace(tiny, prompt(0), on_point=stop)
    recorded = trace(tiny, prompt(0)).values
    assert LAYER + "8.prefix_sum" in recorded


def test_an_edit_changes_what_follows_and_nothing_before(tiny):
    point = LAYER + "4.prefix_sum"
    plain = trace(tiny, prompt(3))
    edited = trace(tiny, prompt(3), edits={point: torch.zeros_like})
    assert torch.equal(plain.layer(4, "self_attn"), edited.layer(4, "self_attn"))
    assert not torch.allclose(plain.logits, edited.logits)
    assert edited.values[point].abs().max() == 0


@pytest.mark.parametrize("ids", [[], [[]], [-1], [2048], [0.5]])
def test_ids_without_an_embedding_are_refused(tiny, ids):
    with pytest.raises(ValueError, match=r"ids (have|run)"):
        trace(tiny, torch.tensor(ids))


def test_decay_stays_above_the_floor(tiny):
    values = trace(tiny, prompt(4)).values
    paths = [n for n, m in tiny.named_modules() if isinstance(m, KimiDeltaAttention)]
    assert len(paths) == 6
    for path in paths:
        decay = values[path + ".decay"]
        assert decay.max() < 0
        assert decay.min() > tiny.config.decay_floor
