"""The way of one option from the command line to its use is short."""

import inspect
from pathlib import Path

import vpintegrator
from vpintegrator.cli.train import main
from vpintegrator.data import generate
from vpintegrator.training import Budget

ROOT = str(Path(vpintegrator.__file__).parent)
_MOST = 6  # functions between the command and the place of use


def test_patience_passes_few_functions(run, monkeypatch):
    ways = []
    ended = Budget.ended

    def noted(self, history):
        frames = [frame for frame in inspect.stack() if frame.filename.startswith(ROOT)]
        names = [frame.function for frame in frames]
        ways.append(names[: names.index("main")])
        return ended(self, history)

    monkeypatch.setattr(Budget, "ended", noted)
    generate("rigid-body", "body.h5", count=30, steps=4)
    options = ["--model", "vpff", "--width", "4", "--epochs", "3", "--patience", "2"]
    result = run(main, "body.h5", *options, "--no-verdict")
    assert result.exit_code == 0, result.output
    assert ways and all(len(way) <= _MOST for way in ways), max(ways, key=len)
