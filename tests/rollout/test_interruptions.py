"""A comparison that is interrupted goes on to the same result."""

import json
import shutil

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.rollout.test_compare import same, trained
from vpintegrator.errors import InputError
from vpintegrator.models import VolumePreservingTransformer
from vpintegrator.rollout import measure
from vpintegrator.rollout.storage import FolderStorage

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
        name: vp.rollout.Run(**(vars(run) | {"seconds_per_step": 0.0}))
        for name, run in report.runs.items()
    }
    return vp.rollout.Report(**(vars(report) | {"runs": runs}))


def stopping_at(method, step):
    def progress(name, done, total):
        if name == method and done >= step:
            raise Stop

    return progress


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
    assert [path.name for path in tmp_path.iterdir()] == ["rollout.h5"]


def test_killed_between_two_records(tmp_path, monkeypatch):
    """What was written into the arrays after the last record does no harm."""
    folder = tmp_path / "checkpoint"
    whole = vp.compare(**arguments())

    def forget(storage, progress):
        if "1/done" not in progress or progress["1/done"] < 200:
            original(storage, progress)

    original = FolderStorage.record
    monkeypatch.setattr(measure, "_RECORD_SECONDS", 0.0)
    monkeypatch.setattr(FolderStorage, "record", forget)
    with pytest.raises(Stop):
        vp.compare(**arguments(), checkpoint=folder, progress=stopping_at("rk4", 600))
    monkeypatch.setattr(FolderStorage, "record", original)
    report = vp.compare(**arguments(), checkpoint=folder, resume=True)
    assert same(without_cost(report), without_cost(whole))


def test_a_checkpoint_is_not_mistaken_for_another(tmp_path):
    folder = tmp_path / "checkpoint"
    with pytest.raises(InputError, match="no interrupted rollout"):
        vp.compare(**arguments(), checkpoint=folder, resume=True)
    with pytest.raises(Stop):
        vp.compare(**arguments(), checkpoint=folder, progress=stopping_at("rk4", 100))
    with pytest.raises(InputError, match="go on with it by --resume"):
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
    (folder / "progress.npz").write_bytes(b"damaged")
    with pytest.raises(InputError, match="is damaged, delete"):
        vp.compare(**arguments(), checkpoint=folder, resume=True)
    (folder / "rollout.json").write_text("{")
    with pytest.raises(InputError, match="is damaged, delete"):
        vp.compare(**arguments(), checkpoint=folder, resume=True)
    (folder / "rollout.json").write_text(json.dumps([1]))
    with pytest.raises(InputError, match="another rollout"):
        vp.compare(**arguments(), checkpoint=folder, resume=True)
    shutil.rmtree(folder)
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        vp.compare(**arguments(), checkpoint=tmp_path / "none" / "checkpoint")


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


def test_snapshots_hold_no_objects(tmp_path):
    """Nothing in a checkpoint is ever unpickled."""
    folder = tmp_path / "checkpoint"
    with pytest.raises(Stop):
        vp.compare(**arguments(), checkpoint=folder, progress=stopping_at("rk4", 100))
    with np.load(folder / "progress.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "fib" for name in archive.files)
