"""ES modules joined into one script: in order, each once, and errors for what cannot be joined."""

import re

import pytest

from tests.view_names import VIEWS
from tilestep.views.page.assets import asset, script, style
from tilestep.views.page.modules import joined, joined_style


def of(files: dict[str, str]) -> str:
    return joined("main.js", files.__getitem__)


def test_a_module_comes_after_what_it_imports_and_once() -> None:
    files = {
        "main.js": 'import { a } from "./core/a.js";\nimport * as b from "./core/b.js";\na(b.c);',
        "core/a.js": 'import { c as other } from "./b.js";\nexport function a() { return other; }',
        "core/b.js": "export const c = 1;\nexport class D {}\nexport async function e() {}\nexport function* f() {}",
    }
    text = of(files)
    assert re.findall(r"^// (.+)$", text, re.MULTILINE) == ["core/b.js", "core/a.js", "main.js"]
    assert "return { c, D, e, f };" in text
    assert "const { c: other } = module0;" in text
    assert "const b = module0;" in text
    assert "export" not in text
    assert text.startswith('"use strict";')


@pytest.mark.parametrize(
    "line",
    [
        'import a from "./a.js";',
        'import "./a.js";',
        'import { a } from "a";',
        'import {\n  a,\n} from "./a.js";',
        "export default function () {}",
        "export { a };",
        'export * from "./a.js";',
        "export let a = 1;",
    ],
)
def test_another_form_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"module main\.js has .*: imports are of one line, and exports of declarations"):
        of({"main.js": line, "a.js": "export const a = 1;"})


def test_words_within_a_comment_or_a_string_are_none_of_it() -> None:
    text = of({"main.js": '/** @type {import("./a.js").A} */\nconst a = "we import this";\n// export it'})
    assert '@type {import("./a.js").A}' in text


def test_a_circle_is_an_error() -> None:
    files = {
        "main.js": 'import { a } from "./a.js";',
        "a.js": 'import { b } from "./b.js";',
        "b.js": 'import { a } from "./a.js";',
    }
    with pytest.raises(ValueError, match=r"module a\.js imports itself through b\.js"):
        of(files)


def test_a_style_has_its_imports_in_their_places() -> None:
    files = {"main.css": '@import "a.css";\nb { top: 0 }\n', "a.css": 'a { content: "@import" }'}
    assert joined_style("main.css", files.__getitem__) == 'a { content: "@import" }\nb { top: 0 }\n'


def test_the_page_is_joined_of_all_views() -> None:
    text = script()
    for name in VIEWS:
        assert f"// views/{name}.js\n" in text
    assert asset("views/source.css") in style()
    assert "</script" not in text.lower()
    assert "</style" not in style().lower()
    assert "<!--" not in text


def test_no_module_makes_markup_of_text_or_code() -> None:
    own = re.sub(r"/\*.*?\*/|//[^\n]*", "", joined("main.js", asset), flags=re.DOTALL)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "XMLHttpRequest", "fetch("):
        assert word not in own, word
