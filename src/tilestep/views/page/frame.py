"""A page in a notebook: in a frame that can run its scripts, and reach nothing of the notebook."""

from dataclasses import dataclass
from html import escape
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class PageFrame:
    """What a notebook shows as the page.

    Attributes:
        html: the page.
        height: of the frame, in CSS pixels.
    """

    html: str
    height: int

    def __repr__(self) -> str:
        return f"<tilestep page, {len(self.html):,} characters: a notebook shows it>"

    def _repr_html_(self) -> str:  # IPython calls it
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8a939e"
        page = escape(self.html, quote=True)
        return f'<iframe title="tilestep report" sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{page}"></iframe>'
