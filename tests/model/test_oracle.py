"""Our model against numbers that independent implementations computed from the same weights."""

import pytest
import torch
from safetensors.torch import load_file

from k3scope.model import load
from k3scope.model.tracing import official_trace

# relative to the largest magnitude, in float32; float64 must reach 1e-9 everywhere
FLOAT32 = {"probs": 1e-4, "topk_weight": 1e-4, "final_state_vk": 1e-4}


@pytest.fixture(scope="module")
def expected(data):
    return load_file(data / "a_mix13" / "expected_f64.safetensors")


@pytest.fixture(scope="module", params=[torch.float32, torch.float64], ids=["float32", "float64"])
def ours(request, data):
    ids = load_file(data / "a_mix13" / "input_ids.safetensors")["input_ids"]
    return request.param, official_trace(load(str(data / "a_mix13"), request.param), ids)


def test_every_tensor_is_there(ours, expected):
    assert expected.keys() == ours[1].keys() - {"token_ids"}


def test_every_tensor_agrees(ours, expected):
    dtype, trace = ours
    assert len(expected) == 178
    for name, value in expected.items():
        if not value.is_floating_point():
            assert torch.equal(trace[name], value), name
            continue
        tolerance = 1e-9 if dtype == torch.float64 else FLOAT32.get(name.split(".")[-1], 2e-4)
        error = (trace[name].double() - value).abs().max() / value.abs().max()
        assert error < tolerance, f"{name}: {error:.1e}"
