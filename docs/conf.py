"""How Sphinx makes the documentation: one static folder that needs no network, neither to build nor to read.

The source folder is the project's root, so that links between pages are the same here and in the repository.
"""

from __future__ import annotations

import gc
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))  # for docstrings.py

gc.set_threshold(100_000, 50, 100)  # to look for garbage among the trees of all pages took a third of the time

project = "tilestep"
author = "the tilestep authors"
release = version = version_of("tilestep")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "docstrings"]
include_patterns = ["docs/**", "examples/*.ipynb", "*.md", "benchmarks/README.md", "examples/README.md"]
exclude_patterns = [".*", "build", "dist", "src", "tests", "scripts"]  # folders that are not even looked into
root_doc = "docs/index"
default_role = "py:name"
highlight_language = "none"  # of code that names no language

# What is named is a page, an anchor or a public name, or a warning. These are none of them:
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r".*"),  # code between backquotes links where it can
    (
        "py:.*",
        r"(argparse|collections|contextlib|jax|jaxlib|numpy|np|onnx|optax|os|pathlib|types|typing)\..*",
    ),  # no inventory is downloaded
    ("py:.*", r"tilestep\..*"),  # types of one room's own
    ("py:class", r"[A-Z]\w*"),  # names of types that only the type checker imports
    ("py:class", r"\w+\[\w+"),  # parts of a type that is written as text
]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are pages from their stored outputs
nb_ipywidgets_js = {}  # else each page loads scripts from elsewhere

autodoc_typehints = "signature"
maximum_signature_line_length = 100  # a longer one has a line for each argument
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"tilestep {version}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
html_extra_path = ["_extra"]  # the folder's own index.html leads to the first page
html_css_files = ["pictures.css"]

# Pages of docs/ name their kind below the title. These are read elsewhere too, and name it here only.
KINDS = {
    "ARCHITECTURE": "explanation",
    "CHANGELOG": "reference",
    "CONTRIBUTING": "how-to",
    "SECURITY": "reference",
    "benchmarks/README": "reference",
}


def name_kind(app: Sphinx, document: nodes.document) -> None:
    """Puts a line with the page's kind below its title."""
    page = app.env.docname
    kind = "tutorial" if page.startswith("examples/") else KINDS.get(page)
    title = next(iter(document.findall(nodes.title)), None)
    if kind is not None and title is not None:
        title.parent.insert(1, nodes.paragraph("", "", nodes.emphasis(text=f"Kind: {kind}.")))


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", name_kind)
