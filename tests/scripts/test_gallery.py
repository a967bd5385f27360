"""The gallery: every system has a picture, and the list in docs names them all."""

import subprocess
import sys
from pathlib import Path

import matplotlib.image

from vpintegrator.dynamics import list_systems

ROOT = Path(__file__).parents[2]


def test_one_picture(tmp_path):
    command = [sys.executable, str(ROOT / "scripts/gallery.py"), "--only", "kepler"]
    result = subprocess.run(
        [*command, "--only", "rigid-body", "-o", str(tmp_path)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    height, width, _ = matplotlib.image.imread(tmp_path / "systems.png").shape
    assert width > 1.5 * height
    assert [path.name for path in tmp_path.iterdir()] == ["systems.png"]


def test_all_systems_are_in_the_list():
    text = (ROOT / "docs/reference/systems.md").read_text(encoding="utf-8")
    script = (ROOT / "scripts/gallery.py").read_text(encoding="utf-8")
    for name in list_systems():
        assert f"(`{name}`)" in text
        assert f'"{name}": ' in script
