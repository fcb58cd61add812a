"""Every file that the safetensors library refuses is refused here, and what the format allows is read."""

import time
from contextlib import suppress
from random import Random

import pytest
import torch
from header_kinds import KINDS, packed, valid
from safetensors import SafetensorError, safe_open

from k3scope.model.files.safetensors_shard import DTYPES, Shard


def theirs(path) -> dict | None:
    """The tensors as the library reads them, None for a number that it does not; None where it refuses."""
    try:
        with safe_open(path, "pt") as file:
            return {name: _number(file, name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError:
        return None


def _number(file, name):
    try:
        return file.get_tensor(name)
    except (SafetensorError, RuntimeError, AttributeError, OverflowError, TypeError):
        return None


def ours(path) -> Shard | None:
    """ValueError in one short sentence, soon, is the only way to refuse."""
    shard, sentence, begin = None, "", time.process_time()
    try:
        shard = Shard(path)
    except ValueError as error:
        sentence = str(error).removeprefix(f"{path}: ")
    assert time.process_time() - begin < 2
    assert len(sentence) < 500
    assert sentence.isprintable()
    return shard


def counted(kind, path, seeds) -> tuple[int, int, int]:
    """Files that the library refuses, that ours refuses, and that only ours takes."""
    refused, refused_here, wrong = 0, 0, 0
    for seed in seeds:
        path.write_bytes(KINDS[kind](Random(f"{kind} {seed}")))
        right, got = theirs(path), ours(path)
        refused += right is None
        refused_here += got is None
        wrong += right is None and got is not None
        if right is not None and got is not None:
            equal(got, right)
    return refused, refused_here, wrong


def equal(shard: Shard, tensors: dict) -> None:
    assert shard.headers.keys() == tensors.keys()
    for name, tensor in tensors.items():
        header = shard.headers[name]
        if max(header.shape, default=0) > 2**40:  # torch has strides for some of them
            with suppress(ValueError):
                shard.tensor(name)
        elif tensor is not None and header.dtype in DTYPES:
            here = shard.tensor(name)
            assert (here.dtype, here.shape) == (tensor.dtype, tensor.shape)
            if tensor.numel():
                bits = [t.reshape(-1).view(torch.uint8) for t in (here, tensor)]
                assert torch.equal(*bits)


def read_as_the_library_does(path, seeds) -> None:
    for seed in seeds:
        path.write_bytes(valid(Random(seed)))
        right = theirs(path)
        assert right is not None, f"seed {seed} is not valid"
        equal(Shard(path), right)


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_headers_that_the_library_refuses_are_refused(kind, tmp_path):
    refused, _, wrong = counted(kind, tmp_path / "x.safetensors", range(20))
    assert (refused > 0, wrong) == (True, 0)


def test_some_valid_files_are_read_as_the_library_reads_them(tmp_path):
    read_as_the_library_does(tmp_path / "x.safetensors", range(100))


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_no_header_that_the_library_refuses_is_accepted(kind, tmp_path):
    *_, wrong = counted(kind, tmp_path / "x.safetensors", range(1000))
    assert wrong == 0


@pytest.mark.sweep
def test_2000_valid_files_are_read_as_the_library_reads_them(tmp_path):
    read_as_the_library_does(tmp_path / "x.safetensors", range(1000, 3000))


@pytest.mark.parametrize(("length", "read"), [(100_000_000, True), (100_000_001, False)])
def test_a_header_may_have_100_million_bytes(length, read, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(packed(b"{}" + b" " * (length - 2)))
    assert (theirs(path) is not None, ours(path) is not None) == (read, read)
