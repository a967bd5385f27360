"""Layers of these tests are of float64, the default that torch is told."""

import pytest
import torch


@pytest.fixture(autouse=True)
def float64():
    """Let torch's default dtype be float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
