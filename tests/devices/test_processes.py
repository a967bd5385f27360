"""Two processes with a GPU each, by NCCL, do what one process does on the CPU, to rounding."""

import pytest
import torch

import vpintegrator as vp
from tests.training import all_cases
from tests.training.test_processes import assert_same_cases, trained_by_two


@pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="NCCL takes two GPUs, and there are fewer here"
)
def test_two_gpus_equal_the_cpu(tmp_path):
    body = vp.generate("rigid-body", tmp_path / "body.h5", count=300, steps=6)
    one, two = (tmp_path / name for name in ("one", "two"))
    for folder in (one, two):
        folder.mkdir()
    all_cases.train_all(body.path, one)
    said = trained_by_two(body.path, two, "cuda")
    for optimizer, compiled in sorted(all_cases.CASES):
        assert_same_cases(two, one, optimizer, compiled)
    assert said.count("relative error one window ahead") == 1
    assert vp.load(two / "model.safetensors", "cuda").name == "vpff"
