"""The Python of the documents passes ``mypy --strict``, each page as one program."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(?:python|\{code-cell\} ipython3)\n(.*?)```", re.DOTALL)
# the package itself is checked by its own settings; PyTorch and IPython have untyped functions
CONFIG = """[mypy]
strict = true
follow_imports = silent
ignore_missing_imports = true
untyped_calls_exclude = IPython,torch
"""


def program(page):
    """The blocks of a page, one after the other, without lines of a shell or of IPython."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    return "\n\n".join(re.sub(r"^[%!].*", "", block, flags=re.MULTILINE) for block in blocks)


@pytest.mark.thorough
def test_every_block_has_types(tmp_path):
    (tmp_path / "mypy.ini").write_text(CONFIG)
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
        name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
        (tmp_path / f"{name}.py").write_text(program(page), encoding="utf-8")
    cache = ROOT / ".mypy_cache" / "documents"
    arguments = ["--config-file", tmp_path / "mypy.ini", "--cache-dir", cache]
    command = [sys.executable, "-m", "mypy", *arguments, *sorted(tmp_path.glob("*.py"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
