"""An SVG in the making, and the colours of all pictures. A picture follows the reader's choice of dark or light."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COMPUTE, EXCHANGE, SYNC, HOST, CODE, IDLE = "#0072B2", "#E69F00", "#CC79A7", "#009E73", "#D55E00", "#999999"
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1b1f24; }
.small { font-size: 12px; }
.name { font-weight: 600; }
.title { font-size: 16px; font-weight: 600; }
.code { font: 12.5px ui-monospace, monospace; white-space: pre; }
.panel { fill: #fff; stroke: #d0d7de; }
.box { fill: #f3f6f9; stroke: #8c959f; }
.line { stroke: #57606a; stroke-width: 1.5; fill: none; }
.head { fill: #57606a; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .panel { fill: #0d1117; stroke: #30363d; }
  .box { fill: #1c2430; stroke: #6e7681; }
  .line { stroke: #9da7b3; }
  .head { fill: #9da7b3; }
}
"""


class Picture:
    """An SVG in the making. Lengths are pixels, from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._width, self._height, self._title = width, height, title
        self._parts: list[str] = []
        self.box(0.5, 0.5, width - 1, height - 1, kind="panel")
        self.text(20, 32, title, kind="title")

    def box(self, x: float, y: float, width: float, height: float, *, kind: str = "box", fill: str = "", corner: int = 4) -> None:
        style = f'fill="{fill}"' if fill else f'class="{kind}"'
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{corner}" {style}/>')

    def text(self, x: float, y: float, text: str, *, kind: str = "", anchor: str = "start", colour: str = "") -> None:
        look = (f' class="{kind}"' if kind else "") + (f' style="fill:{colour}"' if colour else "")
        self._parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" xml:space="preserve"{look}>{escape(text)}</text>')

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        self._path(points, dashed=dashed, ending=' marker-end="url(#head)"')

    def line(self, *points: tuple[float, float], dashed: bool = False) -> None:
        self._path(points, dashed=dashed, ending="")

    def _path(self, points: Sequence[tuple[float, float]], *, dashed: bool, ending: str) -> None:
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(f'<path d="{path}" class="line"{dash}{ending}/>')

    def key(self, x: float, y: float, fill: str, text: str) -> None:
        """A colour and what it means."""
        self.box(x, y - 11, 14, 14, fill=fill, corner=2)
        self.text(x + 20, y, text, kind="small")

    def axis(self, x: float, y: float, width: float, *, end: float, step: float, unit: str) -> None:
        """A horizontal axis from 0 to `end` with a tick every `step`, and the unit below."""
        self.line((x, y), (x + width, y))
        for tick in range(int(end / step) + 1):
            at = x + width * tick * step / end
            self.line((at, y), (at, y + 5))
            self.text(at, y + 19, f"{tick * step:,g}", kind="small", anchor="middle")
        self.text(x + width / 2, y + 37, unit, kind="small", anchor="middle")

    def svg(self) -> str:
        head = '<path d="M0 0L8 4L0 8z" class="head"/>'
        marker = f'<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">{head}</marker>'
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self._title)}">',
                f"<title>{escape(self._title)}</title><style>{STYLE}</style><defs>{marker}</defs>",
                *self._parts,
                "</svg>\n",
            )
        )
