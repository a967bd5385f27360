"""Settings that all tests share: repeatable property tests without time limits, one cache."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.register_profile("daily", deadline=None, derandomize=True, max_examples=5)
hypothesis.settings.load_profile("ci")

FOLDERS = ("devices", "docs", "scripts")  # of the thorough run alone
CASES = 2  # of a parametrised test in the daily run, evenly chosen
# what a shell runs in the background ignores interrupts, and so would every process of a test
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        choices=["cuda", "pretended"],
        help="What the tests of devices run on: cuda, or a pretended GPU; the first there is.",
    )

    parser.addoption(
        "--daily",
        action="store_true",
        help="A short sample: no test marked thorough, none of documents, "
        f"benchmarks and GPUs, {CASES} cases of a parametrised test, fewer examples of a property.",
    )


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--daily"):
        place = collection_path.relative_to(Path(__file__).parent).as_posix()
        return True if place in FOLDERS else None
    return None


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--daily"):
        return
    cases = {}
    for item in items:
        cases.setdefault(
            (item.path, item.cls, getattr(item, "originalname", item.name)), []
        ).append(item)
    kept = set()
    for same in cases.values():
        same = [item for item in same if item.get_closest_marker("thorough") is None]
        chosen = min(len(same), CASES)
        kept.update(same[k * (len(same) - 1) // max(chosen - 1, 1)] for k in range(chosen))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_configure(config):
    if config.getoption("--daily"):
        hypothesis.settings.load_profile("daily")
    if config.getoption("--device") == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError(
            "--device cuda: PyTorch finds no GPU here; leave the option out to test on a "
            "pretended one"
        )


@pytest.fixture(autouse=True)
def same_weights():
    """Weights that a test draws without a seed are the same in every run."""
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def without_costs():
    """Tests compile no classical methods for the costs of a step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vpintegrator.cli.train.VERDICT_SECONDS", 0.0)
        patch.setattr("vpintegrator.rollout.diagnostics.cost.applicable_methods", lambda system: {})
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
