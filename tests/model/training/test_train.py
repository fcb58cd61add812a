import json
import subprocess
import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch

from k3scope.model.init import random_model
from k3scope.model.presets import K3_TINY
from k3scope.model.runs.bits_per_byte import bits_per_byte, token_bytes, token_losses
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.tokenizers.tokenizer import SPECIALS
from k3scope.model.training import tasks
from k3scope.model.training.evaluation import Evaluation, spread
from k3scope.model.training.initial_model import initial_model
from k3scope.model.training.optimizer import Schedule, optimizer, set_rate
from k3scope.model.training.recipes import RECIPES
from k3scope.model.training.token_streams import DataMix, Stream, held_out
from k3scope.model.training.trainer import Settings, Trainer

BYTES = BpeTokenizer([], list(SPECIALS))  # nothing merged: an id is a byte
SMALL = replace(
    K3_TINY, vocab=BYTES.vocab, bos=256, eos=257, pad=259, kinds=("kda", "kda", "mla"),
    d=32, dense=40, kda_heads=2, kda_head_dim=16, a_log_stored=2,
    heads=2, q_rank=20, kv_rank=24, nope_dim=12, shared_key_dim=4, v_dim=16, block=2,
    experts=8, top_k=2, expert_dim=28, latent=24, vision=None,
)  # fmt: skip


@pytest.fixture(scope="module")
def counting():
    texts = [tasks.counting(Random(i)).encode() for i in range(100)]
    ids = [i for text in texts for i in (256, *text)]
    return Stream(np.array(ids, dtype=np.uint16), 256, sum(map(len, texts)))


def trainer(stream, out, steps=20, **options):
    settings = Settings(4, 32, steps, schedule=Schedule(5e-3, warmup=5), **options)
    return Trainer(random_model(SMALL), DataMix({"counting": stream}, {"counting": 1.0}), settings, out)


def loss_of(model, stream):
    ids = held_out({"counting": stream}, 4, 48)["counting"]
    return token_losses(model.eval(), ids).mean().item()


@pytest.fixture(scope="module")
def trained(counting, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    t = trainer(counting, out, log_every=5, evaluate_every=10)
    windows = held_out({"counting": counting}, 2, 32)
    t.evaluation = Evaluation(windows, token_bytes(BYTES))
    t.run()
    return t


def test_twenty_steps_lower_the_loss(trained, counting):
    assert loss_of(trained.model, counting) < loss_of(random_model(SMALL), counting) - 0.5


def test_a_resumed_run_equals_an_uninterrupted_one(trained, counting, tmp_path):
    first = trainer(counting, tmp_path)
    for _ in range(8):
        first.train_step()
    first.save()
    second = trainer(counting, tmp_path)
    assert second.restore()
    second.run()
    assert second.tokens == trained.tokens
    for (name, a), b in zip(second.model.named_parameters(), trained.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.slow
def test_balancing_keeps_every_expert_in_use(counting, tmp_path):
    t = trainer(counting, tmp_path, steps=60)
    gate = next(iter(t.gates.values()))
    with torch.no_grad():
        gate.e_score_correction_bias.copy_(torch.linspace(-0.6, 0.6, SMALL.experts))  # the first ones starve
    t.run()
    shares = torch.stack(list(t.load.values())) * SMALL.experts
    assert shares.min() > 0.1
    assert shares.max() < 3


def test_the_log_has_loss_bits_balance_and_half_lives(trained):
    lines = [json.loads(line) for line in (trained.out / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 10, 15, 20]
    assert lines[-1]["tokens"] == 20 * 4 * 32
    assert {"loss", "rate", "fullest_expert", "emptiest_expert"} <= lines[0].keys()
    assert lines[-1]["bits_per_byte"].keys() == {"counting"}
    assert len(lines[-1]["half_lives"]) == 2  # KDA layers


def test_gate_parameters_learn_at_their_own_rate():
    adam = optimizer(random_model(SMALL).requires_grad_(True), gate_rate=0.25)
    set_rate(adam, 1.0)
    assert [group["lr"] for group in adam.param_groups] == [1, 1, 0.25]
    assert len(adam.param_groups[2]["params"]) == 2 * 4
    assert [group["weight_decay"] > 0 for group in adam.param_groups] == [True, False, False]


def test_the_rate_rises_stays_and_falls():
    schedule = Schedule(rate=1.0, warmup=4, decay=0.5)
    assert [schedule.at(step, 0.1) for step in (0, 1, 3, 9)] == [0.25, 0.5, 1, 1]
    assert [schedule.at(99, progress) for progress in (0.5, 0.75, 1.0)] == [1, 0.5, 0]
    assert Schedule(rate=1.0, decay=0).at(999, 1.0) == 1


def test_the_fresh_model_remembers_over_all_scales():
    recipe = RECIPES["k3-tiny"]
    model = initial_model(recipe, 0)
    assert model.config == K3_TINY
    with torch.no_grad():
        layer = model.language_model.model.layers[0].self_attn
        decay = layer.log_decay(torch.zeros(1, 1, layer.dt_bias.numel()))
    low, middle, high = spread(decay[0])
    assert recipe.half_lives[0] < low < 5
    assert 10 < middle < 50
    assert 100 < high < recipe.half_lives[1]


EXCHANGE = """
import sys, torch
from pathlib import Path
from k3scope.model.training.workers import Workers
workers = Workers(int(sys.argv[1]), 2)
workers.join(sys.argv[2])
means = [torch.tensor([2.0 * workers.rank, 1.0]), torch.tensor([[4.0 * workers.rank]])]
sums = [torch.tensor(3)]
once = workers.in_turn(lambda: Path(sys.argv[2] + ".once").exists() or Path(sys.argv[2] + ".once").touch())
workers.average(means)
workers.add(sums)
print([m.tolist() for m in means], sums[0].item(), workers.agree(workers.rank + 0.5), once)
workers.leave()
"""


@pytest.mark.slow
def test_two_processes_average_add_agree_and_take_turns(tmp_path):
    command = [sys.executable, "-c", EXCHANGE]
    runs = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meeting")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    message = [run.communicate(timeout=120)[0].strip() for run in runs]
    assert message == [f"[[1.0, 1.0], [[2.0]]] 6 1.5 {once}" for once in (None, True)]


def test_bits_per_byte_of_a_uniform_guess():
    losses = torch.full((1, 4), float(np.log(256)))
    targets = torch.tensor([[65, 66, 67, 68]])
    assert bits_per_byte(losses, targets, token_bytes(BYTES)) == pytest.approx(8)
    assert token_bytes(BYTES)[256:].sum() == 0
