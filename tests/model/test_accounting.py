from model.accounting import count, totals


def test_the_released_text_model_has_the_published_counts(full):
    t = totals(full)
    assert t.text == 2_779_484_478_208
    assert t.padding == 2_208
    assert t.unused == 14_336
    assert t.active == 104_189_614_848


def test_subtotals_are_those_of_the_tensor_census(full):
    layers = full.language_model.model.layers
    assert count(layers[0].self_attn) == 443_740_416
    assert count(layers[3].self_attn) == 232_196_096
    assert count(layers[0].mlp) == 726_663_168
    assert count(layers[1].block_sparse_moe) == 189_927_808 + 896 * 33_030_144
    assert [count(layers[i]) for i in (0, 1, 3)] == [1_170_446_592, 30_228_720_256, 30_017_175_936]


def test_the_small_model_stays_small(tiny):
    assert 3_000_000 < count(tiny) < 5_000_000
