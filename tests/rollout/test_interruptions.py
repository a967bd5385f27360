"""A comparison that is interrupted goes on to the same result."""

import dataclasses
import errno
import io
import os
import shutil
import sys
import zipfile

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.rollout.test_compare import same, trained
from vpintegrator.errors import InputError
from vpintegrator.models import VolumePreservingTransformer
from vpintegrator.rollout import measure, recording
from vpintegrator.rollout.diagnostics.registry import DIAGNOSTICS
from vpintegrator.rollout.recording import FolderRecording

METHODS = ["rk4", "implicit-midpoint"]


class Stop(BaseException):
    """Like KeyboardInterrupt, but nothing else raises it."""


def arguments(**changes):
    torch.manual_seed(0)
    model = trained(VolumePreservingTransformer(dim=3, window=4, prediction_window=3, width=4))
    return {
        "model": model,
        "against": METHODS,
        "steps": 700,
        "every": 9,
        "trajectories": 3,
        "compiled": False,
    } | changes


def without_cost(report):
    """Everything but wall times."""
    runs = {
        name: dataclasses.replace(run, measurements=run.measurements | {"seconds_per_step": 0.0})
        for name, run in report.runs.items()
    }
    return dataclasses.replace(report, runs=runs)


def stopping_at(method, step):
    def progress(name, done, total):
        if name == method and done >= step:
            raise Stop

    return progress


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "step"),
    [("reference", 1), ("reference", 600), ("vpt", 3), ("vpt", 350), ("rk4", 0), ("rk4", 700)],
)
def test_interrupted_and_resumed(tmp_path, method, step):
    folder = tmp_path / "rollout.h5.checkpoint"
    whole = vp.compare(**arguments())
    with pytest.raises(Stop):
        vp.compare(**arguments(), checkpoint=folder, progress=stopping_at(method, step))
    assert folder.is_dir()
    seen = []
    report = vp.compare(
        **arguments(), checkpoint=folder, resume=True, progress=lambda *call: seen.append(call)
    )
    begun = next(done for name, done, _ in seen if name == method)
    assert begun >= step // 2  # it did not start again
    assert same(without_cost(report), without_cost(whole))
    report.save(tmp_path / "rollout.h5")
    assert folder.is_dir()  # a file more is no reason to delete anything
    report.discard_checkpoint()
    assert [path.name for path in tmp_path.iterdir()] == ["rollout.h5"]


@pytest.mark.thorough
def test_killed_between_two_records(tmp_path, monkeypatch):
    """What was written into the arrays after the last record does no harm."""
    folder = tmp_path / "checkpoint"
    whole = vp.compare(**arguments())

    def forget(self, progress):
        if "1/done" not in progress or progress["1/done"] < 200:
            original(self, progress)

    original = FolderRecording.record
    monkeypatch.setattr(measure, "RECORD_SECONDS", 0.0)
    monkeypatch.setattr(FolderRecording, "record", forget)
    with pytest.raises(Stop):
        vp.compare(**arguments(), checkpoint=folder, progress=stopping_at("rk4", 600))
    monkeypatch.setattr(FolderRecording, "record", original)
    report = vp.compare(**arguments(), checkpoint=folder, resume=True)
    assert same(without_cost(report), without_cost(whole))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_checkpoint_is_not_mistaken_for_another(tmp_path):
    folder = tmp_path / "checkpoint"
    with pytest.raises(Stop):
        vp.compare(**arguments(), checkpoint=folder, progress=stopping_at("rk4", 100))
    kept = files(folder)
    with pytest.raises(InputError, match="continue it by --resume"):
        vp.compare(**arguments(), checkpoint=folder)
    for changes, what in (
        ({"steps": 701}, "steps"),
        ({"seed": 5}, "initial states"),
        ({"against": ["rk4"]}, "methods"),
        ({"every": 10}, "every"),
        ({"model": trained(VolumePreservingTransformer(dim=3, window=4))}, "methods"),
    ):
        with pytest.raises(InputError, match=rf"another rollout \({what} differs\)"):
            vp.compare(**arguments(**changes), checkpoint=folder, resume=True)
    assert files(folder) == kept
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        vp.compare(**arguments(), checkpoint=tmp_path / "none" / "checkpoint")


def test_whatever_goes_wrong_later_the_checkpoint_stays(tmp_path, monkeypatch):
    folder, output = tmp_path / "rollout.h5.checkpoint", tmp_path / "rollout.h5"
    options = arguments(against=["rk4"], model=None, system="pendulum")
    whole = vp.compare(**options)
    with pytest.raises(Stop):
        vp.compare(**options, checkpoint=folder, progress=stopping_at("rk4", 350))
    kept = files(folder)

    def wrong(*arguments):
        raise InputError("wrong")

    with monkeypatch.context() as context:  # found only when everything else was right
        context.setattr(sys.modules["vpintegrator.rollout.compare"], "solve_reference", wrong)
        with pytest.raises(InputError, match="wrong"):
            vp.compare(**options, checkpoint=folder, resume=True)
    assert files(folder) == kept
    report = vp.compare(**options, checkpoint=folder, resume=True)
    output.write_text("precious")
    for path, message in ((output, "exists already"), (tmp_path / "none" / "x.h5", "not exist")):
        with pytest.raises(InputError, match=message):
            report.save(path)
    with monkeypatch.context() as context:  # the file is complete but for its name
        context.setattr("vpintegrator.storage.files._move", wrong)
        with pytest.raises(InputError, match="wrong"):
            report.save(tmp_path / "other.h5")
    assert set(files(folder)) == set(kept)
    report.save(output, overwrite=True)
    assert set(files(folder)) == set(kept)
    report.discard_checkpoint()
    assert [path.name for path in tmp_path.iterdir()] == ["rollout.h5"]
    assert same(without_cost(vp.open_rollout(output)), without_cost(whole))


@pytest.mark.parametrize("left", ["nothing", "a folder", "a temporary file", "an identity"])
def test_resuming_where_nothing_was_recorded_begins_anew(tmp_path, left):
    folder = tmp_path / "checkpoint"
    options = arguments(against=["rk4"], model=None, system="pendulum", steps=20)
    if left == "an identity":
        with pytest.raises(Stop):
            vp.compare(**options, checkpoint=folder, progress=stopping_at("rk4", 1))
        (folder / "progress.npz").unlink()
    elif left != "nothing":
        folder.mkdir()
    if left == "a temporary file":
        (folder / ".rollout.json.host-1.x.part").touch()
    seen = []
    report = vp.compare(
        **options, checkpoint=folder, resume=True, progress=lambda *call: seen.append(call)
    )
    assert seen[0][:2] == ("reference", 0)
    assert same(without_cost(report), without_cost(vp.compare(**options)))


def test_two_rollouts_do_not_share_a_checkpoint(tmp_path):
    folder = tmp_path / "checkpoint"
    options = arguments(against=["rk4"], model=None, system="pendulum", steps=20)
    report = vp.compare(**options, checkpoint=folder)  # not saved yet
    for resume in (False, True):
        with pytest.raises(InputError, match="another rollout is at work in"):
            vp.compare(**options, checkpoint=folder, resume=resume)
    report.discard_checkpoint()
    assert not folder.exists()


def test_damage_is_told_and_the_folder_stays(tmp_path):
    folder, work = tmp_path / "kept", tmp_path / "work"
    options = arguments(against=["rk4"], model=None, system="pendulum", steps=20)
    with pytest.raises(Stop):
        vp.compare(**options, checkpoint=folder, progress=stopping_at("rk4", 10))
    sound = files(folder)
    arrays = [name for name in sound if name.endswith(".npy")]
    changes = {
        "progress.npz": [
            b"damaged",
            sound["progress.npz"][:-9],
            swapped(sound["progress.npz"]),
            no_array(),
        ],
        "rollout.json": [b"{", b"[1]", b"[" * 100_000, b"{}", b'{"format": 3}'],
        **{name: [None, b"", sound[name][:-8], sound[name] + b"x", b"x" * 500] for name in arrays},
    }
    for name, variants in changes.items():
        for content in variants:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(folder, work)
            (work / name).unlink()
            if content is not None:
                (work / name).write_bytes(content)
            before = files(work)
            with pytest.raises(InputError, match=r"is damaged"):
                vp.compare(**options, checkpoint=work, resume=True)
            assert files(work) == before
    (folder / "rollout.json").unlink()
    with pytest.raises(InputError, match="holds no interrupted rollout"):
        vp.compare(**options, checkpoint=folder, resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="it is no folder"):
        vp.compare(**options, checkpoint=tmp_path / "file")


def no_array():
    """An archive of something else."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("0/done.npy", b"text")
    return archive.getvalue()


def swapped(archive):
    """A sound archive of numbers that were never recorded."""
    with np.load(io.BytesIO(archive)) as arrays:
        entries = dict(arrays)
    entries["1/done" if "1/done" in entries else "0/done"] += 1
    changed = io.BytesIO()
    np.savez(changed, **entries)
    return changed.getvalue()


def test_nothing_is_left_where_nothing_can_be_gone_on_with(tmp_path):
    """A reference that cannot be continued is a mistake in the input, not an interruption."""
    from tests.rollout.systems import BLOW_UP

    s = vp.load_system(BLOW_UP)
    with pytest.raises(InputError, match="cannot be continued"):
        vp.compare(
            None,
            ["rk4"],
            system=s,
            initial=[[1.0, 1.0]],
            steps=100,
            checkpoint=tmp_path / "checkpoint",
        )
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_found_before_the_work(tmp_path, monkeypatch):
    """Into a map of a file without room, a program cannot write: the system ends it."""

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    options = arguments(against=["rk4"], model=None, system="pendulum", steps=20)
    with pytest.raises(OSError, match="the disk is full"):
        vp.compare(**options, checkpoint=tmp_path / "checkpoint")
    assert list(tmp_path.iterdir()) == []


def test_arrays_are_on_the_disk_before_the_progress_that_counts_on_them(tmp_path, monkeypatch):
    order = []
    flush, replacing = np.memmap.flush, recording.replacing
    monkeypatch.setattr(np.memmap, "flush", lambda a: (order.append("array"), flush(a))[1])
    monkeypatch.setattr(
        recording,
        "replacing",
        lambda path, overwrite=False: (order.append(path.name), replacing(path, overwrite))[1],
    )
    options = arguments(against=["rk4"], model=None, system="pendulum", steps=20)
    vp.compare(**options, checkpoint=tmp_path / "checkpoint")
    records = [k for k, name in enumerate(order) if name == "progress.npz"]
    assert len(records) >= 2
    assert all(order[k - 1] == "array" for k in records)
    assert order[: records[0]].count("array") == 2  # the reference and its control
    series = sum(len(diagnostic.series(vp.load_system("pendulum"))) for diagnostic in DIAGNOSTICS)
    # and the states
    assert order[records[0] : records[-1]].count("array") == 3 + series


def test_snapshots_hold_no_objects(tmp_path):
    """Nothing in a checkpoint is ever unpickled."""
    folder = tmp_path / "checkpoint"
    with pytest.raises(Stop):
        vp.compare(**arguments(), checkpoint=folder, progress=stopping_at("rk4", 100))
    with np.load(folder / "progress.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "fib" for name in archive.files)
