"""Rich display of the package's objects in notebooks: equations, tables and figures.

A system is Markdown with its equations as LaTeX, which Jupyter, VS Code and Sphinx typeset. All
other objects are HTML. Each module writes objects of one kind, and the class names its module
(``rich_display.py``). Texts from files are escaped: markup, links and formulas in them have no
effect.
"""

from vpintegrator.notebook.formats import html, markdown

__all__ = ["html", "markdown"]
