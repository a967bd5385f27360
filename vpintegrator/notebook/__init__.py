"""What notebooks show of the package's objects: equations, tables and figures.

A system is Markdown with its equations as LaTeX, which Jupyter, VS Code and Sphinx typeset; all
else is HTML. A module writes objects of one kind, and they name it (``rich_display.py``). Texts
from files are escaped: no markup, link or formula in them is obeyed.
"""

from vpintegrator.notebook.formats import html, markdown

__all__ = ["html", "markdown"]
