"""Rich display of systems and reports in notebooks: equations, tables and figures.

A system is Markdown with its equations as LaTeX, which Jupyter, VS Code and Sphinx typeset. A
report is HTML. The class names its module here (``rich_display.py``). Texts from files are escaped:
markup, links and formulas in them have no effect.
"""
