"""Damaged files: those that once failed, and some new ones of every reader at each run."""

import importlib
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

FUZZ = Path(__file__).parents[2] / "scripts" / "fuzz"
PATIENCE = 10.0  # seconds: on a busy machine everything takes longer
CORPUS = sorted(path for path in FUZZ.glob("corpus/*/*") if path.name[0] != ".")

sys.path.insert(0, str(FUZZ))
try:
    run, readers = importlib.import_module("run"), importlib.import_module("readers")
finally:
    sys.path.remove(str(FUZZ))


@pytest.fixture(scope="module")
def alarm():
    """A case that hangs is ended."""
    before = signal.signal(signal.SIGALRM, run.interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module", params=list(readers.READERS))
def case(request, tmp_path_factory, alarm):
    """Reads the damaged file of a seed."""
    folder = tmp_path_factory.mktemp(request.param)
    reader = readers.READERS[request.param]
    samples = run.make_samples(reader, folder)
    (folder / "work").mkdir()
    path = folder / "work" / f"case{reader.suffix}"
    run.warm_up(reader, samples, path)

    def read(seed):
        path.write_bytes(run.make_case(reader, request.param, samples, seed))
        return run.run_case(reader, path, seed, PATIENCE)

    return read


@given(seed=st.integers(0, 10**9))
def test_a_damaged_file_is_read_or_refused_in_a_sentence(case, seed):
    outcome = case(seed)
    assert not outcome.failed, f"{outcome.what}\n{outcome.detail}"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed_is_refused_or_read(path, tmp_path, alarm):
    reader = readers.READERS[path.parent.name]
    copy = tmp_path / f"case{reader.suffix}"
    copy.write_bytes(path.read_bytes())
    outcome = run.run_case(reader, copy, 0, PATIENCE)
    assert not outcome.failed, f"{outcome.what}\n{outcome.detail}"


def test_a_reader_that_fails_is_found(tmp_path, alarm):
    """The harness itself: what goes wrong in a reader is told from what is read or refused."""
    path = tmp_path / "case.txt"
    path.write_bytes(b"")

    def outcome(read):
        reader = readers.Reader(".txt", lambda folder: [], read, lambda random, data: data)
        return run.run_case(reader, path, 0, 0.2)

    assert outcome(lambda path: None).what == run.READ
    assert outcome(lambda path: {}["missing"]).what.startswith("KeyError at")
    assert outcome(lambda path: sum(range(10**8))).what == "takes more than 0.2 s"


def test_the_command_counts_how_files_end():
    command = [sys.executable, str(FUZZ / "run.py"), "imports-npy", "--count", "5", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("imports-npy: 5 files, ")
    assert " 0 failed" in done.stdout
