"""Settings that all tests share: repeatable property tests without time limits, one cache."""

import os
import signal

import hypothesis
import pytest

hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("ci")
# what a shell runs in the background ignores interrupts, and so would every process of a test
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        choices=["cuda", "pretended"],
        help="What the tests of devices run on: cuda, or a pretended GPU; the first there is.",
    )


def pytest_configure(config):
    if config.getoption("--device") == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise pytest.UsageError(
                "--device cuda: PyTorch finds no GPU here; leave the option out to test on a "
                "pretended one"
            )


@pytest.fixture(scope="session", autouse=True)
def without_costs():
    """Trainings of tests measure no costs, for which methods would be compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vpintegrator.cli.judging.VERDICT_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Compiled models of all tests, none of them from earlier runs."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which the workers share
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VPINTEGRATOR_CACHE", str(folder / "compiled"))
        yield
