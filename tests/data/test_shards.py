"""Datasets made in shards: the same bits whoever makes them, whatever interrupts them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from vpintegrator.data import generate, open_dataset
from vpintegrator.data.dataset_file import digests, fingerprint
from vpintegrator.errors import InputError
from vpintegrator.storage.files import locked
from vpintegrator.storage.hdf5 import write_attributes

# an implicit method has stacks of one, so that few trajectories make several shards
SMALL = {"method": "LSODA", "count": 200, "steps": 5, "rtol": 1e-8}
ARGUMENTS = "rigid-body --method LSODA --count 200 --steps 5 --rtol 1e-8 -o a.h5"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Made in this process without an interruption, as one file."""
    return generate("rigid-body", tmp_path_factory.mktemp("whole") / "a.h5", **SMALL)


@pytest.fixture
def view(tmp_path):
    return generate("rigid-body", tmp_path / "a.h5", single_file=False, **SMALL)


def same_states(one, other):
    return all(one.states(group).tobytes() == other.states(group).tobytes() for group in one.shapes)


def test_one_file_and_a_view_hold_the_same(whole, view):
    assert view.path.with_name("a.h5.shards").is_dir()
    assert list(whole.path.parent.iterdir()) == [whole.path]
    assert whole.fingerprint == view.fingerprint
    assert whole.accuracy == view.accuracy
    assert whole.accuracy["sample"] == 32  # eight of each of four shards
    assert same_states(whole, view)
    known = {group: digests(view.states(group)) for group in view.shapes}
    assert view.fingerprint == fingerprint(known, view.step, {})


@pytest.mark.thorough
def test_a_cluster_gives_the_same_bytes(whole, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        dataset = generate(
            "rigid-body", tmp_path / "a.h5", scheduler=cluster.scheduler_address, **SMALL
        )
        assert dataset.path.read_bytes() == whole.path.read_bytes()
        with pytest.raises(InputError, match="explicit-euler cannot continue"):
            generate(
                "duffing",
                tmp_path / "b.h5",
                step=50.0,
                count=4000,
                method="explicit-euler",
                scheduler=cluster.scheduler_address,
            )
    assert [file.name for file in tmp_path.iterdir()] == ["a.h5"]


def test_a_view_can_be_moved_and_opened_by_others(view, tmp_path, monkeypatch):
    new = tmp_path / "elsewhere"
    new.mkdir()
    before = view.states("train")
    for name in ("a.h5", "a.h5.shards"):
        shutil.move(tmp_path / name, new / name)
    monkeypatch.chdir("/")
    assert np.array_equal(open_dataset(new / "a.h5").states("train"), before)
    for engine in ("h5netcdf", "netcdf4"):
        if engine == "netcdf4":
            pytest.importorskip("netCDF4")
        with xarray.open_dataset(new / "a.h5", group="train", engine=engine) as data:
            assert data.state.dims == ("trajectory", "time", "component")
            np.testing.assert_array_equal(data.state.values, before)
        with xarray.open_dataset(new / "a.h5", engine=engine) as data:
            assert data.sizes["shard"] == 4
        shard = new / "a.h5.shards" / "000002.h5"
        with xarray.open_dataset(shard, group="train", engine=engine) as data:
            assert data.trajectory.values.tolist() == list(range(128, 154))


def test_a_lost_shard_is_told_and_made_again(view):
    lost = view.path.with_name("a.h5.shards") / "000001.h5"
    before = view.states("train")
    lost.unlink()
    with pytest.raises(InputError, match=r"000001\.h5 is missing or damaged"):
        open_dataset(view.path)
    with pytest.raises(InputError, match=r"000001\.h5 is missing"):
        view.states("train")
    again = generate("rigid-body", view.path, resume=True, **SMALL)
    assert np.array_equal(again.states("train"), before)
    assert lost.exists()  # it is a view still


@pytest.mark.parametrize(
    ("folder", "source", "said"),
    [
        *((name, None, "not a plain name") for name in ("../elsewhere", "/tmp", "..", "")),
        *((None, name, "not a view of the shards") for name in ("/etc/passwd", "a.h5")),
        (None, "../a.h5.shards/000001.h5", "not a view of the shards"),
    ],
)
def test_only_shards_beside_the_file_are_read(view, folder, source, said):
    with h5py.File(view.path, "r+") as file:
        if folder is not None:
            write_attributes(file, {"shards": folder})
        else:
            shape = file["train/state"].shape
            del file["train/state"]
            layout = h5py.VirtualLayout(shape, "f8")
            layout[:] = h5py.VirtualSource(source, "train/state", shape)
            file["train"].create_virtual_dataset("state", layout)
    with pytest.raises(InputError, match=said):
        open_dataset(view.path)


def test_resume_makes_only_what_is_missing_or_damaged(view, whole):
    folder = view.path.with_name("a.h5.shards")
    shards = sorted(folder.glob("*.h5"))
    old = [file.stat().st_mtime_ns for file in shards]
    with h5py.File(shards[0]) as f:
        chunk = f["train/state"].id.get_chunk_info(0)
    content = bytearray(shards[0].read_bytes())
    content[chunk.byte_offset + 100] ^= 1
    shards[0].write_bytes(content)
    shards[1].write_bytes(shards[1].read_bytes()[:1000])
    shutil.copy(shards[3], shards[2])
    (folder / ".000003.h5.x.part").write_bytes(b"half")
    view.path.unlink()
    again = generate("rigid-body", view.path, resume=True, single_file=False, **SMALL)
    assert same_states(again, whole)
    new = [file.stat().st_mtime_ns for file in shards]
    assert [a == b for a, b in zip(old, new, strict=True)] == [False, False, False, True]
    assert not list(folder.glob(".*"))


def test_what_may_be_resumed(view, tmp_path):
    with pytest.raises(InputError, match="exists already"):
        generate("rigid-body", view.path, **SMALL)
    with pytest.raises(InputError, match="exists already"):
        generate("rigid-body", view.path, resume=True, **{**SMALL, "steps": 6})
    assert same_states(generate("rigid-body", view.path, resume=True, **SMALL), view)
    view.path.unlink()
    with pytest.raises(InputError, match="what an interrupted generation left"):
        generate("rigid-body", view.path, **SMALL)
    with pytest.raises(InputError, match="by the same command with --resume"):
        generate("rigid-body", view.path, resume=True, **{**SMALL, "steps": 6})
    other = generate("rigid-body", view.path, overwrite=True, **{**SMALL, "steps": 6})
    assert other.shapes["train"][1] == 7
    assert [file.name for file in tmp_path.iterdir()] == ["a.h5"]
    assert generate("rigid-body", view.path, resume=True, **{**SMALL, "steps": 6}).path.exists()


def test_two_at_a_time_are_kept_apart(tmp_path):
    with locked(tmp_path / "a.h5"), pytest.raises(InputError, match="another process is at work"):
        generate("rigid-body", tmp_path / "a.h5", **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_can_be_resumed(whole, tmp_path, monkeypatch):
    written, write = [], Path.write_bytes

    def full(path, data):
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(path)
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="the disk is full; make room"):
        generate("rigid-body", tmp_path / "a.h5", **SMALL)
    monkeypatch.undo()
    assert len(list((tmp_path / "a.h5.shards").glob("*"))) == 2
    seen = []
    generate(
        "rigid-body",
        tmp_path / "a.h5",
        resume=True,
        progress=lambda done, total: seen.append((done, total)),
        **SMALL,
    )
    assert seen[0] == (0, 1200) and seen[-1] == (1200, 1200)
    assert (tmp_path / "a.h5").read_bytes() == whole.path.read_bytes()


def start(folder, *arguments):
    command = [sys.executable, "-m", "vpintegrator.cli.gen", *ARGUMENTS.split(), *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def start_and_wait(folder):
    """Start two workers, and wait for the first shard, or the end."""
    process = start(folder, "--workers=2")
    wait_for(lambda: any(folder.glob("a.h5.shards/*.h5")) or process.poll() is not None)
    return process


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interruption_says_how_to_go_on(tmp_path, whole):
    process = start_and_wait(tmp_path)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in text, text
    assert "Traceback" not in text
    process = start(tmp_path, "--resume")
    process.communicate(timeout=60)
    assert (tmp_path / "a.h5").read_bytes() == whole.path.read_bytes()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_workers_end_with_the_process_that_started_them(tmp_path, whole):
    process = start_and_wait(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.communicate()
    assert children
    wait_for(lambda: not any(_alive(child) for child in children))
    dataset = generate("rigid-body", tmp_path / "a.h5", resume=True, **SMALL)
    assert dataset.path.read_bytes() == whole.path.read_bytes()


def _alive(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
