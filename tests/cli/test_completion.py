"""Names that the shell offers, quickly, and files that it completes itself."""

import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

import vpintegrator as vp
from vpintegrator import names
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.errors import InputError
from vpintegrator.nn.activations import ACTIVATIONS
from vpintegrator.rollout import METHODS

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
COMMANDS = {
    name: importlib.import_module(target.partition(":")[0]).main
    for name, target in PROJECT["project"]["scripts"].items()
}


def offered(command, *words):
    """What is offered for the last of the words, and how: as it is, or any file."""
    shell = ShellComplete(COMMANDS[command], {}, command, "_COMPLETE")
    items = shell.get_completions(list(words[:-1]), words[-1])
    return {item.value: item.type for item in items}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vp-gen rigid", ["rigid-body", "rigid-body-circles"]),
        ("vp-gen --show pend", ["pendulum"]),
        ("vp-gen --show=pend", ["pendulum"]),
        ("vp-gen --method R", ["RK45", "RK23", "Radau"]),
        ("vp-gen --irregular p", ["pairs"]),
        ("vp-gen toda --step p", ["period"]),
        ("vp-gen --structure s", ["symplectic"]),
        ("vp-train --model vp", ["vpt", "vpff", "vpmt"]),
        ("vp-train --optimizer l", ["levenberg-marquardt", "linear", "l-bfgs"]),
        ("vp-train --initial-scheme str", ["strang-splitting"]),
        ("vp-train --loss ", ["mean-square", "relative"]),
        ("vp-train --functions p", ["polynomial"]),
        ("vp-train --weighting s", ["skew"]),
        ("vp-train --activation s", ["sigmoid", "sin", "softplus"]),
        ("vp-rollout --against rk", ["rk4", "rk45"]),
        ("vp-rollout --against implicit-midpoint,rk", ["implicit-midpoint,rk4"]),
        ("vp-rollout --against rk4,rk", ["rk4,rk45"]),
        ("vp-rollout --against a", ["all"]),
        ("vp-rollout --device ", ["cpu", "cuda", "mps", "auto"]),
        ("vp-plot a.h5 --width ", ["column", "page"]),
        ("vp-plot a.h5 --style d", ["dark"]),
        ("vp-export m.safetensors --to t", ["torch"]),
    ],
)
def test_what_is_offered(line, expected):
    command, *words = line.split(" ")
    found = offered(command, *words)
    assert list(found)[: len(expected)] == expected
    assert set(found.values()) == {"plain"}


@pytest.mark.parametrize(
    "line",
    [
        "vp-gen own.to",
        "vp-gen --from lab",
        "vp-train rigid",
        "vp-rollout m",
        "vp-rollout --system own.to",
        "vp-plot a",
        "vp-export m",
    ],
)
def test_the_shell_completes_files(line):
    command, *words = line.split(" ")
    assert offered(command, *words) == {words[-1]: "file"}


def test_the_names_are_those_of_what_they_name():
    assert tuple(METHODS) == names.CLASSICAL_METHODS
    assert tuple(FACTORS) == names.SPLITTINGS
    assert tuple(ACTIVATIONS) == names.ACTIVATIONS
    system = vp.load_system("kepler")
    for functions in {*names.FUNCTIONS} - {"auto"}:
        vp.models.build(system, "auto", functions=functions)
    with pytest.raises(InputError):
        vp.models.build(system, "auto", functions="nonsense")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("vp-gen", "vp-gen rigid"),
        ("vp-train", "vp-train --model sp"),
        ("vp-rollout", "vp-rollout --against rk4,"),
        ("vp-plot", "vp-plot --format p"),
        ("vp-export", "vp-export --to "),
    ],
)
def test_nothing_slow_is_imported(command, line):
    code = (
        "import sys\n"
        f"from vpintegrator.cli.{command.removeprefix('vp-')} import main\n"
        f"try:\n    main(prog_name='{command}')\n"
        "except SystemExit:\n    pass\n"
        "slow = {'torch', 'sympy', 'scipy', 'numpy', 'h5py', 'matplotlib', 'rich'}\n"
        "assert not slow & sys.modules.keys(), slow & sys.modules.keys()\n"
    )
    asked = {
        f"_{command.upper().replace('-', '_')}_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("plain,")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"), [(["--model", "spf"], "<spff>"), (["notes"], "any file")]
)
def test_in_bash(tmp_path, words, expected):
    """The function that bash gets, called as bash calls it."""
    program = tmp_path / "vp-train"
    code = "from vpintegrator.cli.train import main; main(prog_name='vp-train')"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    script = (
        'compopt() { case $2 in default) printf "any file" ;; esac; }\n'
        'eval "$(_VP_TRAIN_COMPLETE=bash_source vp-train)"\n'
        'COMP_WORDS=(vp-train "$@") COMP_CWORD=$#\n'
        "_vp_train_completion vp-train\n"
        'if [ ${#COMPREPLY[@]} -gt 0 ]; then printf "<%s>" "${COMPREPLY[@]}"; fi\n'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words], env=environment, capture_output=True, text=True
    )
    assert done.stdout == expected, done.stderr
