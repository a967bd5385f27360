"""The house keeps its shape: who imports whom, and what is listed elsewhere."""

import ast
import re
import tomllib
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]


def test_imports_go_downwards_and_in_no_circles(capsys):
    # the contracts are in pyproject.toml, the picture of them in docs/reference/architecture.md
    failed = lint_imports(str(ROOT / "pyproject.toml"), cache_dir=None, no_cache=True)
    assert not failed, capsys.readouterr().out


def test_a_name_means_one_class():
    named = {}
    for path in sorted((ROOT / "vpintegrator").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}


def test_every_folder_says_what_it_is_for():
    for face in sorted((ROOT / "vpintegrator").rglob("__init__.py")):
        assert ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))), face


def test_every_folder_is_in_the_wheel():
    with open(ROOT / "pyproject.toml", "rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    faces = (ROOT / "vpintegrator").rglob("__init__.py")
    folders = {".".join(face.relative_to(ROOT).parent.parts) for face in faces}
    assert listed == folders | {"vpintegrator.systems", "vpintegrator.datasets"}


def cells(picture):
    """The names at the beginning of each cell of the picture."""
    names = set()
    for line in picture.splitlines():
        for cell in line.split("│"):
            if match := re.match(r" ([a-z_]+(?:, [a-z_]+)*)(?:\s{2,}|$)", cell):
                names |= {*match[1].split(", ")}
    return names


def test_the_picture_shows_every_folder_and_every_module_of_the_ground_floor():
    page = (ROOT / "docs/reference/architecture.md").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "vpintegrator").iterdir() if "_" not in path.stem[:2]}
    assert cells(page.split("```")[1]) == names - {"py"}


def is_swap(targets, values):
    return sorted(map(ast.unparse, targets)) == sorted(map(ast.unparse, values))


def test_a_statement_binds_one_thing():
    """No tuple is assigned from a tuple display, swaps excepted."""
    places = []
    for path in sorted((ROOT / "vpintegrator").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
                continue
            tuples = [target for target in node.targets if isinstance(target, ast.Tuple)]
            if any(not is_swap(target.elts, node.value.elts) for target in tuples):
                places.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert places == []
