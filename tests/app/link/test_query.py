"""The link keeps what a visitor sees, and says what it could not read."""

from urllib.parse import quote

import pytest

from k3scope.app.link import query
from k3scope.app.link.fields import DEFAULTS, LinkTargets
from k3scope.app.link.state import State

TARGETS = LinkTargets(
    models=("kimi-k3", "k3-random"),
    blocks={
        "kimi-k3": frozenset({"kda", "mla", "moe_router", "vision"}),
        "k3-random": frozenset({"kda", "mla", "moe_router"}),
    },
    groups=frozenset({"decoder_layer", "kda", "mla", "latent_moe"}),
    layers={"kimi-k3": 93, "k3-random": 9},
    has_part=lambda model, block, part: part == "scores",
)
PROMPTS = [
    "123", "true", "3.14", "[1,2]", '{"a":1}', "", " ", "   ", "null", "None", "a\nb\r\n\tc", "1+1=2",
    "100%", "%41", "a&b=c", "?#;/\\", "+", "你好,世界", "\U0001f469\u200d\U0001f469\u200d\U0001f467 family",
    "e\u0301", "\u202eabc", "<img src=x onerror=alert(1)>", "\x00\x1f",
]  # fmt: skip


def values(**changed):
    return DEFAULTS | changed


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_prompt_survives_the_link(prompt):
    read = query.parse(query.format(values(prompt=prompt)), TARGETS)
    assert read.values["prompt"] == prompt
    assert read.problems == ()


def test_no_prompt_and_the_empty_prompt_differ():
    assert query.parse("", TARGETS).values["prompt"] is None
    assert query.parse("?prompt=", TARGETS).values["prompt"] == ""
    assert query.format(values(prompt="")) == "?prompt=&v=1"


def test_a_state_at_its_defaults_has_no_query():
    assert query.format(State().linked()) == ""


def test_keys_stand_in_a_fixed_order_and_defaults_are_left_out():
    shuffled = {"tab": "code", "prompt": "hi there", "layer": 0, "select": "kda", "view": "model"}
    assert query.format(shuffled) == "?select=kda&layer=0&prompt=hi%20there&tab=code&v=1"


def test_every_field_makes_the_round_trip():
    full = {
        "model": "k3-random", "view": "lab", "select": "moe_router", "open": ["mla"], "layer": 8,
        "phase": "decode", "B": 4, "T": 4096, "camera": "512,-30,0.85", "detail_level": "line", "tour": 3,
        "run_model": "k3-random", "weights": "ab12cd34", "prompt": "x", "run_id": "abcdefgh2345",
        "tab": "live", "token": 0, "head": 3, "compare": "kimi-k3",
        "cost_point": "4096,2,prefill,fp8,fp32,b200,8",
        "interventions": '[{"do":"zero","index":1,"layer":3,"what":"head"}]',
        "baseline": "plain", "lab_view": "memory:5",
        "generated_ids": [7, 108, 0], "types": True, "plots": ["kda-by-channel"], "part": "scores",
    }  # fmt: skip
    assert query.parse(query.format(full), TARGETS).values == full


def test_no_open_group_differs_from_the_default_groups():
    assert query.format(values(open=[])) == "?open=&v=1"
    assert query.parse("?open=", TARGETS).values["open"] == []
    assert query.parse("", TARGETS).values["open"] == list(DEFAULTS["open"])


def test_keys_of_others_are_kept_as_they_stood():
    read = query.parse("?theme=dark&utm=a%20b+c&select=kda&flag", TARGETS)
    assert query.format(read.values, read.unknown) == "?select=kda&v=1&theme=dark&utm=a%20b+c&flag"


@pytest.mark.parametrize(
    ("search", "hint"),
    [
        ("model=kimi-k4", "did you mean kimi-k3"),
        ("model=/etc/passwd", "no model"),
        ("model=../k3-random", "no model"),
        ("select=kdaa", "did you mean kda"),
        ("view=labs", "did you mean lab"),
        ("open=kda,nope", "no group"),
        ("layer=93", "layers 0 to 92"),
        ("layer=-1", "whole number"),
        ("layer=٣", "whole number"),
        ("layer=1e3", "whole number"),
        ("phase=decod", "did you mean decode"),
        ("B=0", "from 1 to 1,024"),
        ("T=1048577", "from 1 to 1,048,576"),
        ("T=many", "whole number"),
        ("camera=1,2", "a place and a zoom"),
        ("tab=cod", "did you mean code"),
        ("run=../../etc", "twelve"),
        ("prompt=%FF", "UTF-8"),
        ("v=99", "another version"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_and_the_rest_is_kept(search, hint):
    read = query.parse(f"?{search}&token=2", TARGETS)
    assert len(read.problems) == 1
    assert search in read.problems[0]
    assert hint in read.problems[0]
    assert read.values == values(token=2, open=list(DEFAULTS["open"]), generated_ids=[], plots=[])


def test_the_layer_is_checked_against_the_model_of_the_link():
    assert query.parse("?layer=8&model=k3-random", TARGETS).values["layer"] == 8
    assert "layers 0 to 8" in query.parse("?layer=9&model=k3-random", TARGETS).problems[0]


def test_a_block_that_the_model_lacks_is_said():
    assert query.parse("?select=vision", TARGETS).values["select"] == "vision"
    assert "no block" in query.parse("?model=k3-random&select=vision", TARGETS).problems[0]


def test_a_plus_from_a_hand_written_link_is_a_space():
    assert query.parse("?prompt=hello+world", TARGETS).values["prompt"] == "hello world"


def test_half_a_surrogate_does_not_break_the_link():
    assert query.parse(query.format(values(prompt="a\ud83d")), TARGETS).values["prompt"] == "a?"


def test_a_long_problem_is_cut_short():
    assert len(query.parse("?select=" + "x" * 5000, TARGETS).problems[0]) < 200


def test_a_long_prompt_leaves_the_link_when_a_stored_run_holds_it():
    long = values(prompt="x" * 2000, run_id="abcdefgh2345")
    assert query.format(query.shareable(long)) == "?run=abcdefgh2345&v=1"
    assert query.shareable(long | {"run_id": ""})["prompt"] == "x" * 2000
    assert query.shareable(values(prompt="月" * 800))["prompt"] is None  # 7,200 characters in a link


def test_a_change_says_what_it_could_not_read():
    assert query.parse_update("T=5", TARGETS, values()) == {"T": 5, "problems": []}
    refused = query.parse_update("T=0", TARGETS, values(T=5))
    assert refused["T"] == 5
    assert "from 1 to 1,048,576" in refused["problems"][0]


def test_parse_reads_every_key_that_the_state_shares():
    assert set(DEFAULTS) == set(State().linked())


@pytest.mark.parametrize(
    ("search", "why"),
    [
        ("do=[{}]", "needs do and what"),
        ("do=nonsense", "not JSON"),
        ("do=" + "x" * 2001, "more than 2,000 characters"),
        ("lab=memroy", "did you mean memory?"),
        ("lab=memory:x", "whole number"),
        ("against=me", "plain, or twelve"),
    ],
)
def test_a_part_about_the_lab_that_cannot_be_read_is_said(search, why):
    found = query.parse(search, TARGETS)
    assert why in found.problems[0]
    assert (found.values["interventions"], found.values["baseline"], found.values["lab_view"]) == (
        "",
        "",
        "tokens",
    )


def test_interventions_in_a_link_are_written_in_one_way():
    text = '[{"what": "routes", "run": "", "do": "force", "experts": [1, 2, 3]}]'
    found = query.parse(f"do={quote(text)}", TARGETS)
    assert found.values["interventions"] == '[{"do":"force","experts":[1,2,3],"what":"routes"}]'


def test_everything_opens_groups_and_blocks_of_the_model():
    opened = query.parse("?model=k3-random&open=everything", TARGETS).values["open"]
    assert opened == sorted({"decoder_layer", "kda", "mla", "latent_moe", "moe_router"})
    assert query.parse(query.format(values(model="k3-random", open=opened)), TARGETS).values["open"] == opened


def test_a_part_belongs_to_the_block_that_is_chosen_with_it():
    assert query.parse("?select=moe_router&part=scores", TARGETS).values["part"] == "scores"
    read = query.parse("?select=moe_router&part=nothing", TARGETS)
    assert (read.values["part"], len(read.problems)) == ("", 1)
    assert query.parse_update("select=kda", TARGETS, values(select="moe_router", part="scores"))["part"] == ""
    assert "part" not in query.parse_update("tab=code", TARGETS, values(select="moe_router", part="scores"))
