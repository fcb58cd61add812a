"""What the gallery says of its prompts, measured on the weights that ship."""

import numpy as np
import pytest
import torch

from k3scope.app.examples import MODEL, Example, examples
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.interventions.intervention import loads
from k3scope.model.measure import attention, kda_memory
from k3scope.model.presets import K3_TINY
from k3scope.model.runs.lab import Run, lab

EXAMPLES = {example.name: example for example in examples()}
STORY = "A story that keeps its names"
FRENCH = (
    "Mia avait un ballon rouge. Un jour, Mia alla à la rivière et perdit le ballon. Elle chercha sous le "
    "pont, mais le ballon n'était pas là."
)


def run_of(name: str) -> tuple[Example, Run]:
    """The example of that name, and its pass."""
    example = EXAMPLES[name]
    return example, lab(example.prompt, example.model, loads(example.values["interventions"]))


def likely(run: Run) -> np.ndarray:
    """Probability of each token as the model awaited it; the first is awaited by nobody."""
    return run.lens.tokens.prob


def where(run: Run, token: str) -> list[int]:
    return [i for i, text in enumerate(run.token_texts) if text == token]


def test_a_story_keeps_what_it_is_about():
    _, run = run_of(STORY)
    for token in (" bell", " Lily"):
        first, again = where(run, token)
        assert likely(run)[first] < 0.3
        assert likely(run)[again] > 0.6
    assert likely(run)[where(run, " park")[0]] < 0.3


def test_no_head_of_k3_tiny_picks_the_number_of_the_key():
    example, run = run_of("Keys and values")
    signs, question = where(run, "="), where(run, "?")[0]
    numbers = {run.token_texts[i - 1]: i + 1 for i in signs if i < question}
    asked = [i for i in signs if i > question]
    shown = attention.probs(run, int(example.values["lab_view"].partition(":")[2]), example.values["head"])
    rows = shown[asked][:, list(numbers.values())]  # [asked, told]
    assert rows.min() > 0.1
    assert rows.max() < 1.4 * rows.min()
    for layer in (3, 7, 8):
        for head in range(run.config.heads):
            looks = attention.probs(run, layer, head)[asked][:, list(numbers.values())]
            own = torch.stack(
                [looks[n, list(numbers).index(run.token_texts[i - 1])] for n, i in enumerate(asked)]
            )
            assert own.sum() <= max(0.5, 0.5 * looks.sum())  # of 5 rows


def test_copies_need_a_memory_that_does_not_fade():
    (_, plain), (_, fading) = run_of("Nonsense, repeated"), run_of("The copy, with a memory that fades")
    period = plain.token_texts.index(" li", 1)
    assert np.mean(likely(plain)[1:period]) < 0.25
    assert np.mean(likely(plain)[period + 1 : 2 * period] < 0.5) < 0.2
    assert np.min(likely(plain)[2 * period :]) > 0.8
    assert np.mean(likely(fading)[period:]) < 0.25


def test_a_head_of_the_specialist_looks_at_what_followed_the_last_time():
    example, run = run_of("A head that finds the last time")
    looks = attention.probs(run, 3, example.values["head"])
    period = run.token_texts.index(" li", 1)
    later = range(period, run.length)
    followed = [[j + 1 for j in range(i % period, i, period)] for i in later]
    totals = [looks[i, at].sum().item() for i, at in zip(later, followed, strict=True)]
    assert all(x > 5 * len(at) / (i + 1) for x, at, i in zip(totals, followed, later, strict=True))
    assert np.mean(totals) > 0.7


def test_with_that_attention_silenced_no_copy_is_continued():
    (_, plain), (_, silenced) = (
        run_of("A head that finds the last time"), run_of("The copy, with that attention silenced")
    )  # fmt: skip
    period = plain.token_texts.index(" li", 1)
    assert np.median(likely(plain)[period + 1 :]) > 0.9
    assert np.median(likely(silenced)[period + 1 :]) < 0.1


def test_in_the_specialist_one_cell_is_the_digit_of_the_key():
    example, run = run_of("Keys, found by full attention")
    looks = attention.probs(run, 3, example.values["head"])
    signs, question = where(run, "="), where(run, "?")[0]
    number_of = {run.token_texts[i - 1]: i + 1 for i in signs if i < question}
    assert all(looks[i, number_of[run.token_texts[i - 1]]] > 0.9 for i in signs if i > question)
    assert run.logits[0, -1].softmax(-1)[run.ids[0, number_of[" o"]]] > 0.99


def test_the_memory_comes_to_expect_the_copy():
    example, run = run_of("The memory expects what comes")
    layer = int(example.values["lab_view"].partition(":")[2])
    expected = kda_memory.steps(run, layer).cosine  # [T, heads]
    period = run.token_texts.index(" li", 1)
    first, later = expected[1:period].mean(0), expected[period:].mean(0)
    assert (later > first + 0.15)[:-1].all()
    assert later[-1] < first[-1] + 0.05


def test_a_memory_is_wiped_at_line_ends():
    _, run = run_of("What wipes the memory")
    kept = run.values["language_model.model.layers.6.self_attn.decay"][0].exp().mean((-1, -2))
    ends = [i for i, text in enumerate(run.token_texts) if "\\n" in text]  # shown by its sign
    assert sorted(kept.argsort()[: len(ends)].tolist()) == ends


def share(run: Run, layer: int, expert: int) -> float:
    """Of the tokens, those that the expert gets."""
    chosen = run.values[f"language_model.model.layers.{layer}.block_sparse_moe.gate.topk_idx"][0]
    return (chosen == expert).any(-1).float().mean().item()


def shares(layer: int, expert: int) -> dict[str, float]:
    """By language, on texts that tell the same."""
    runs = {"English": run_of(STORY)[1], "French": lab(FRENCH), "German": run_of("German")[1]}
    runs["Spanish"] = run_of("Spanish")[1]
    return {language: share(run, layer, expert) for language, run in runs.items()}


def test_german_has_an_expert_that_no_other_language_uses_half_as_much():
    assert "In layer 2 nearly every token goes to expert 16" in EXAMPLES["German"].caption
    used = shares(2, 16)
    assert used.pop("German") > 0.85
    assert max(used.values()) < 0.45


def test_what_is_not_english_has_an_expert():
    assert "In layer 4 expert 2 gets most tokens" in EXAMPLES["Spanish"].caption
    used = shares(4, 2)
    assert used.pop("English") == pytest.approx(0.25, abs=0.05)
    assert min(used.values()) > 0.7


def test_brackets_go_to_the_same_experts():
    example, run = run_of("Brackets")
    load = run.routing.load(6)
    assert "layer 6" in example.caption
    assert (np.sort(load)[-3:] > 3 * load.mean()).all()


def test_the_grammar_of_python_is_known_and_its_names_are_not():
    _, run = run_of("Code")
    pairs = {"".join(run.token_texts[i - 1 : i + 1]): likely(run)[i] for i in range(1, run.length)}
    assert min(pairs[p] for p in ("init__", "__(", "(self", "self.", "):\\n")) > 0.75
    names = [i + 1 for i in where(run, ".") if i + 1 < run.length] + where(run, " get")
    assert all(likely(run)[names] < 0.1)


def test_a_list_is_a_surprise_while_it_is_read():
    _, run = run_of("Copying a list")
    words = [where(run, f" {word}")[0] for word in ("cat", "bell", "fox", "drum")]
    assert all(likely(run)[words] < 0.1)


def test_after_two_numbers_every_digit_is_likely():
    _, run = run_of("Counting")
    third = 7  # tokens of " 40 42 ": a space and every digit are one each
    assert "".join(run.token_texts[:third]) == " 40 42 "
    assert all(likely(run)[third:] > 0.5)
    assert all(likely(run)[[1, 2, 5]] < 0.5)


def test_the_form_of_sums_is_learned_and_the_sum_is_not():
    _, run = run_of("Sums it cannot do")
    signs = where(run, "=")
    results = [i + 2 for i in signs[:-1]] + [i + 3 for i in signs[:-1]]
    assert min(likely(run)[signs]) > 0.9
    assert min(likely(run)[[i + 1 for i in signs[:-1]]]) > 0.9  # the space after it
    assert max(likely(run)[results]) < 0.4


def test_the_first_layers_read_the_embedding_and_the_last_the_running_sum():
    _, run = run_of("From which depth")
    weights = {mix.name: mix.mean for mix in run.depth.mixes}
    assert all(weights[name][0] > 0.8 for name in ("FFN 0", "attention 1", "FFN 1", "attention 2"))
    assert weights["attention 7"][-1] > 0.6
    assert all(weights[f"attention {layer}"].max() < 0.7 for layer in (4, 5, 6))


def test_characters_never_read_are_not_expected():
    _, run = run_of("Characters it never read")
    assert (likely(run)[1:] < 0.05).mean() > 0.9


def test_random_weights_expect_nothing():
    _, run = run_of("The same story with random weights")
    assert run.lens.of().prob[:, :-1].max() < 0.002  # after every layer; one of 2,048 has 0.0005


@pytest.mark.parametrize(("name", "next_token"), [("Keys and values", "7"), ("Copying a list", " cat")])
def test_the_answer_is_the_likeliest_next_token(name, next_token):
    _, run = run_of(name)
    after = tokenizer_of(MODEL, K3_TINY.vocab).token(int(run.logits[0, -1].argmax()))
    assert after.text == next_token
