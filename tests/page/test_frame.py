"""The page around the views: its head, its navigation, its state in the URL."""

from pathlib import Path

import pytest

from tests.page.conftest import OpenPage
from tests.page.pages import go


@pytest.mark.slow
def test_state_stands_in_the_url_and_the_choices_follow_it(open_page: OpenPage, mnist_plain: Path, pipeline: Path) -> None:
    page = open_page((mnist_plain, pipeline), "memory")
    for state in ({}, {"theme": "dark"}, {"side": "b"}):
        go(page, "execution", **state)
        assert page.input_value("#theme") == state.get("theme", "auto")
        assert page.input_value("#side") == state.get("side", "a")
        assert page.evaluate("document.documentElement.dataset.theme ?? ''") == state.get("theme", "")
    page.go_back()
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert page.input_value("#theme") == "dark"
