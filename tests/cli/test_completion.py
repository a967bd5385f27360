"""What the shell offers at the press of a key."""

import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

import vpintegrator as vp
from vpintegrator.cli import known_names
from vpintegrator.cli.architecture import model_options
from vpintegrator.cli.completion import WholeOptionInFish, WholeOptionInZsh, WholeWordsInBash
from vpintegrator.data.importing.array_files import read_arrays
from vpintegrator.errors import InputError
from vpintegrator.models import ARCHITECTURES
from vpintegrator.nn.activations import ACTIVATIONS
from vpintegrator.rollout import METHODS
from vpintegrator.training.objective import LOSSES

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
COMMANDS = {
    name: importlib.import_module(target.partition(":")[0]).main
    for name, target in PROJECT["project"]["scripts"].items()
}
# numbers, expressions, names of one's own, columns of a file, files that are not there yet
FREE = {
    *("count", "steps", "seed", "rtol", "atol", "fractions", "noise", "relative_noise"),
    *("missing_times", "strata", "workers", "variable", "longest_step", "parameter_columns"),
    *(
        "columns",
        "pairs",
        "title",
        "window",
        "prediction_window",
        "depth",
        "width",
        "degree",
        "heads",
    ),
    "latent",
    *(
        "target",
        "fastest",
        "horizon",
        "adaptive",
        "orbits",
        "restarts",
        "patience",
        "seconds",
        "epochs",
    ),
    *("checkpoint_seconds", "batch", "learning_rate", "threads", "time", "every", "trajectories"),
    *("initial", "reference_time", "threshold", "tangent_steps", "step", "ensemble", "plane"),
    *("view", "resolution", "name", "section"),
}


def offered(command, *words):
    """What is offered for the last of the words, and how: as it is, or any file, or a folder."""
    shell = ShellComplete(COMMANDS[command], {}, command, "_COMPLETE")
    items = shell.get_completions(list(words[:-1]), words[-1])
    return {item.value: item.type for item in items}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files of several kinds, also in folders."""
    monkeypatch.chdir(tmp_path)
    files = ("a.h5", "lab.csv.gz", "notes.md", "sub/b.h5", "sub/c.h5", "in/of/d.H5", ".hid/e.h5")
    for name in (*files, "m.safetensors", "two words/f.h5"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "own.toml").write_text('state = ["x"]\n[parameters]\nrate = 2\n')
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vp-gen rigid", ["rigid-body", "rigid-body-circles"]),
        ("vp-gen ow", ["own.toml"]),
        ("vp-gen --show pend", ["pendulum"]),
        ("vp-gen --show=pend", ["pendulum"]),
        ("vp-gen rigid-body -p I", ["I1=", "I2=", "I3="]),
        ("vp-gen rigid-body-circles --parameter I1=3 -p I", ["I1=", "I2=", "I3="]),
        ("vp-gen own.toml --vary ", ["step=", "rate="]),
        ("vp-gen --system pendulum --from lab.csv.gz --fit g,", ["g,m", "g,l"]),
        ("vp-gen --method R", ["RK45", "RK23", "Radau"]),
        ("vp-gen --from ", ["a.h5", "in/", "lab.csv.gz", "sub/", "two words/"]),
        ("vp-gen --irregular p", ["pairs"]),
        ("vp-gen toda --step p", ["period"]),
        ("vp-train ", ["a.h5", "in/", "sub/", "two words/"]),
        ("vp-train sub", ["sub/b.h5", "sub/c.h5"]),
        ("vp-train in", ["in/of/d.H5"]),
        ("vp-train ./a", ["./a.h5"]),
        ("vp-train .h", [".hid/e.h5"]),
        ("vp-train --model vp", ["vpt", "vpff", "vpmt"]),
        ("vp-train --start ", ["in/", "m.safetensors", "sub/", "two words/"]),
        ("vp-train --optimizer l", ["levenberg-marquardt", "linear", "l-bfgs"]),
        ("vp-train --kernel str", ["strang-splitting"]),
        ("vp-train --loss ", ["mean-square", "relative"]),
        ("vp-train --functions p", ["polynomial"]),
        ("vp-train --weighting s", ["skew"]),
        ("vp-train --activation s", ["sigmoid", "sin", "softplus"]),
        ("vp-train --option sw", ["sweep="]),
        ("vp-train --model spt --option attention=", ["attention=rotations"]),
        ("vp-train --model vpff --option stiefel", []),
        ("vp-rollout --against rk", ["rk4", "rk45"]),
        ("vp-rollout --against implicit-midpoint,rk", ["implicit-midpoint,rk4"]),
        ("vp-rollout --against rk4,rk", ["rk4,rk45"]),
        ("vp-rollout --against a", ["all"]),
        ("vp-rollout --first-window re", ["reference"]),
        ("vp-rollout m.safetensors --dataset a", ["a.h5"]),
        ("vp-rollout --system kepler -p ", ["k="]),
        ("vp-rollout --device ", ["cpu", "cuda", "mps", "auto"]),
        ("vp-plot ", ["a.h5", "in/", "m.safetensors", "sub/", "two words/"]),
        ("vp-plot a.h5 --width ", ["column", "page"]),
        ("vp-plot a.h5 --style d", ["dark"]),
        ("vp-export m", ["m.safetensors"]),
        ("vp-export m.safetensors --to t", ["torch"]),
    ],
)
def test_what_is_offered(folder, line, expected):
    command, *words = line.split(" ")
    found = offered(command, *words)
    assert list(found)[: len(expected)] == expected
    assert expected or not found
    assert set(found.values()) <= {"plain"}


def test_where_no_file_is_of_the_kind_the_shell_offers_any(folder):
    assert offered("vp-train", "notes") == {"notes": "file"}
    assert offered("vp-train", "no/such/") == {"no/such/": "file"}
    assert offered("vp-plot", "a.h5", "-o", "fig") == {"fig": "dir"}


def test_a_tilde_stays(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    assert list(offered("vp-train", "~/s")) == ["~/sub/b.h5", "~/sub/c.h5"]


def test_parameters_of_the_system_that_a_model_holds(folder):
    model = vp.models.ResidualNetwork(dim=1)
    model.metadata["system"] = (folder / "own.toml").read_text()
    vp.save(model, "held.safetensors")
    for command in ("vp-rollout", "vp-export"):
        assert list(offered(command, "held.safetensors", "-p", "r")) == ["rate="]
        assert list(offered(command, "-p", "r=1", "held.safetensors", "-p", "")) == ["rate="]


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", b"\xff" * 99, b"\2\0\0\0\0\0\0\0{}", b"parameters = 3", b"system = 'no'"],
)
def test_a_file_that_is_damaged_offers_nothing(folder, content):
    (folder / "bad.safetensors").write_bytes(content)
    (folder / "bad.toml").write_bytes(content or b"state = [")
    assert offered("vp-rollout", "bad.safetensors", "-p", "") == {}
    assert offered("vp-gen", "bad.toml", "-p", "") == {}


def test_words_of_a_file_give_no_orders(folder):
    """Neither to the shell, which would run them, nor to the terminal."""
    hostile = '"$(touch pwned)" = 1\n"a; b" = 1\n"c\\nplain,d" = 1\nfine = "\\u001b[31m"\n'
    (folder / "own.toml").write_text(f"[parameters]\n{hostile}")
    shell = ShellComplete(COMMANDS["vp-gen"], {}, "vp-gen", "_COMPLETE")
    (item,) = shell.get_completions(["own.toml", "-p"], "")
    assert item.value == "fine="
    assert item.help.isprintable()
    (folder / "x\nplain,y.h5").touch()
    assert list(offered("vp-train", "x")) == ["x"]  # the shell's own way with files
    (folder / "z;$(touch pwned).h5").touch()
    bash = WholeWordsInBash(COMMANDS["vp-train"], {}, "vp-train", "_COMPLETE")
    line = bash.format_completion(CompletionItem("z;$(touch pwned).h5"))
    assert line == r"plain,z\\;\\$\\(touch\\ pwned\\).h5"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_never_ends_is_not_looked_into(folder):
    os.mkfifo(folder / "pipe.safetensors")
    os.mkfifo(folder / "pipe.toml")
    with (folder / "huge.toml").open("wb") as file:
        file.truncate(10**11)
    for name in ("pipe.toml", "huge.toml"):
        assert offered("vp-gen", name, "-p", "") == {}
    assert offered("vp-rollout", "pipe.safetensors", "-p", "") == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_offers_what_it_takes(folder, command):
    for each in COMMANDS[command].params:
        if (isinstance(each, click.Option) and each.is_flag) or each.name in FREE:
            continue
        context = click.Context(COMMANDS[command])
        context.params |= {"system": "rigid-body"}
        assert each.shell_complete(context, ""), each.name


def test_the_names_are_those_of_what_they_name():
    assert tuple(METHODS) == known_names.CLASSICAL_METHODS
    assert known_names.LOSSES == LOSSES
    assert tuple(ACTIVATIONS) == known_names.ACTIVATIONS
    given = {}
    for name, architecture in ARCHITECTURES.items():
        lines = [line for line, _, _ in model_options(architecture) if line.startswith("--option")]
        pairs = [line.removeprefix("--option ").split("=") for line in lines]
        kinds = {"INTEGER", "NUMBER", "TEXT", "BLOCKS"}
        given[name] = {
            k: tuple(v for v in words.split("|") if v not in kinds) for k, words in pairs
        }
    assert given == known_names.MODEL_OPTIONS


def test_the_solvers_and_functions_are_those_there_are(tmp_path):
    for solver in known_names.SOLVERS:
        vp.load_recipe("harmonic-oscillator", method=solver)
    with pytest.raises(InputError):
        vp.load_recipe("harmonic-oscillator", method="nonsense")
    system = vp.load_system("kepler")
    for functions in {*known_names.FUNCTIONS} - {"auto"}:
        vp.models.build(system, "auto", functions=functions)
    with pytest.raises(InputError):
        vp.models.build(system, "auto", functions="nonsense")
    for ending in known_names.ARRAY_FILES:
        (tmp_path / f"file{ending}").write_text("nonsense")
        with pytest.raises(InputError) as told:
            read_arrays(tmp_path / f"file{ending}")
        assert "cannot tell" not in str(told.value)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("vp-gen", "vp-gen rigid-body -p I"),
        ("vp-train", "vp-train --model spff --option "),
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


def test_the_functions_of_shells_are_changed_where_it_is_meant():
    assert "nospace" in WholeWordsInBash.source_template
    assert "--max 1" in WholeOptionInFish.source_template
    assert "compadd -U -V unsorted -S ''" in WholeOptionInZsh.source_template


@pytest.mark.parametrize(
    ("shell", "line", "last", "expected"),
    [
        ("zsh", "vp-train --model=sp", "1", "plain\n--model=spff\nsymplectic feed-forward"),
        ("zsh", "vp-train --option sweep=f", "2", "plain\nsweep=forward\n_"),
        ("fish", "vp-train --model=sp", "--model=sp", "plain,--model=spff\tsymplectic feed-forw"),
        ("fish", "vp-train --model sp", "sp", "plain,spff\tsymplectic feed-forward"),
        ("fish", "vp-train --start=none", "--start=none", "file,none"),
    ],
)
def test_in_shells_that_keep_words_whole(folder, monkeypatch, shell, line, last, expected):
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", last)
    made = get_completion_class(shell)(COMMANDS["vp-train"], {}, "vp-train", "_COMPLETE")
    assert made.complete().startswith(expected)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # bash splits at the sign
        (["--model", "=", "sp"], "<spff><split><spt>"),
        (
            ["--model", "="],
            "<auto><vpt><vpff><vpmt><spff><sgf><vpgf><split><spt><ict><transformer><resnet>",
        ),
        (["--option", "stiefel", "=", "t"], "<true>"),
        (["--option", "swe"], "no space<sweep=>"),
        (["two"], r"<two\ words/f.h5>"),
        ([r"two\ words/"], r"<two\ words/f.h5>"),
        (["notes"], "any file"),
        (["--log", "x"], "folders"),
    ],
)
def test_in_bash(folder, words, expected):
    """The function that bash gets, called as bash calls it."""
    program = folder / "vp-train"
    code = "from vpintegrator.cli.train import main; main(prog_name='vp-train')"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    script = (
        'compopt() { case $2 in nospace) printf "no space" ;; default) printf "any file" ;; '
        "dirnames) printf folders ;; esac; }\n"
        'eval "$(_VP_TRAIN_COMPLETE=bash_source vp-train)"\n'
        'COMP_WORDS=(vp-train "$@") COMP_CWORD=$#\n'
        "_vp_train_completion vp-train\n"
        'if [ ${#COMPREPLY[@]} -gt 0 ]; then printf "<%s>" "${COMPREPLY[@]}"; fi\n'
    )
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words], env=environment, capture_output=True, text=True
    )
    assert done.stdout == expected, done.stderr
