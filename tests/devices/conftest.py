"""The device that tests of devices run on: a GPU, or a pretended one where there is none."""

import pytest
import torch

from tests.devices.pretended_gpu import pretended_gpu


@pytest.fixture(autouse=True)
def float64():
    """Let torch's default dtype be float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def is_pretended(request):
    return request.config.getoption("--device") == "pretended" or not torch.cuda.is_available()


@pytest.fixture
def device(is_pretended):
    if not is_pretended:
        yield torch.device("cuda", 0)
        return
    with pretended_gpu():
        yield torch.device("cuda", 0)
