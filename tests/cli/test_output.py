"""What goes into a pipe is complete and plain; --json is for programs, --quiet for nobody."""

import contextlib
import io
import json
import os
import subprocess
import sys

import click
import pytest
from rich.console import Console
from rich.progress import TextColumn

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli import command, gen, rollout, show, train
from vpintegrator.runtime import progress

SHORT = ["--system", "pendulum", "--against", "rk4,explicit-euler", "--steps", "20"]
NASTY = "[/b] [link=x] :smile: \x1b[2J \x9b31m \u202e \ud800 end"


def test_a_pipe_gets_all_columns_in_whole_lines(done):
    text = done(rollout.main, *SHORT)
    lines = text.splitlines()
    header = next(line for line in lines if line.split()[:1] == ["method"])
    row = next(line for line in lines if line.startswith(" Explicit Euler"))
    for column in ("order", "volume kept", "defect", "exponent", "drift"):
        assert column in header
    assert len(row.split()) > 14
    assert len(row) > 120
    assert "Left out" not in text
    assert "\x1b" not in text


def test_json_of_four_commands(run, done):
    made = json.loads(done(gen.main, "pendulum", "--count", "5", "--steps", "9", "--json"))
    assert made["output"] == "pendulum.h5"
    assert made["shapes"]["train"] == [3, 10, 2]
    assert made["fingerprint"] == vp.open_dataset("pendulum.h5").fingerprint
    options = ["--epochs", "2", "--model", "vpff", "--width", "3"]
    result = run(train.main, "pendulum.h5", *options, "--json")
    trained = json.loads(result.stdout)
    assert trained["history"]["epoch"] == [1, 2]
    assert trained["arguments"]["width"] == 3
    assert "relative error one window ahead" in result.stderr
    compared = json.loads(done(rollout.main, *SHORT, "--json"))
    assert [row["method"] for row in compared["table"]] == ["RK4", "Explicit Euler"]
    report = vp.open_rollout("pendulum-rollout.h5")
    assert compared["table"][1]["worst RMSE"] == report.summary("explicit-euler").worst_error
    shown = json.loads(done(show.main, "pendulum-rollout.h5", "--json"))
    assert shown["table"] == compared["table"]


def test_numbers_that_json_has_not():
    values = {"a": float("inf"), "b": [float("nan"), -float("inf")], "c": True, "d": "x\x1b"}
    assert command._strict(values) == {"a": "inf", "b": [None, "-inf"], "c": True, "d": "x\\x1b"}


def test_quiet_prints_errors_only(run, done, tmp_path):
    assert run(rollout.main, *SHORT, "--quiet").output == ""
    assert (tmp_path / "pendulum-rollout.h5").exists()
    again = run(rollout.main, *SHORT, "--quiet")
    assert again.exit_code == 2
    assert "exists already" in again.output
    assert json.loads(done(rollout.main, *SHORT, "--quiet", "--json", "--overwrite"))


def test_nothing_in_a_file_steers_the_terminal(run, capsys):
    command.say(NASTY)
    with command.progress() as show_progress:
        show_progress(NASTY, 0, 1)

    @click.command(cls=command.PlainCommand)
    def mistake():
        raise vp.InputError(f"found {NASTY}")

    text = capsys.readouterr().out + run(mistake).output
    assert refused(run(mistake), "[/b] [link=x] :smile:")
    assert text.count("[/b] [link=x] :smile: \\x1b[2J") == 2
    for letter in "\x1b\x9b\u202e":
        assert letter not in text


def test_progress_in_a_file_is_a_plain_line_now_and_then(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    out = io.StringIO()
    columns = TextColumn("{task.description}"), TextColumn("{task.percentage:>3.0f}%")
    console = Console(file=out, markup=False)
    with progress.plain_progress(console, *columns) as bar:
        quick = bar.add_task("quick", total=10)
        for k in range(10):
            bar.update(quick, completed=k + 1)
        slow = bar.add_task("slow", total=1000)
        for k in range(1000):
            clock[0] += 0.1
            bar.update(slow, completed=k + 1)
        clock[0] += 100
        bar.update(bar.add_task("stuck", total=1000), completed=1)
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert lines[:3] == ["slow 10%", "slow 20%", "slow 30%"]
    assert lines[-2:] == ["slow 100%", "stuck 0%"]
    assert len(lines) == 11


@pytest.mark.parametrize("notebook", [False, True])
def test_lines_in_a_notebook_are_plain(tmp_path, notebook):
    """Jupyter gives the commands of a cell a terminal, and shows all that they send to it."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    environment = {name: it for name, it in os.environ.items() if name != "JPY_PARENT_PID"}
    environment |= {"JPY_PARENT_PID": "1"} if notebook else {}
    environment["TERM"] = "xterm-256color"
    command = [sys.executable, "-m", "vpintegrator.cli.gen", "pendulum", "--count", "5"]
    done = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while chunk := os.read(master, 4096):
            seen += chunk
    os.close(master)
    assert done.wait() == 0
    assert b"written to" in seen
    assert (b"\x1b[" in seen) is not notebook
