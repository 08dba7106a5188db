"""The report in a real browser: it renders, axe finds nothing, filters, themes, phone width and print work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
if CHROMIUM is None and not os.environ.get("CI"):
    pytest.skip("no Chromium on this machine (apt-get install chromium)", allow_module_level=True)

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Any, path: Path, *, width: int = 1280, height: int = 800, **options: Any) -> tuple[Any, list[str]]:
    """A page showing the report, and a growing list of everything that went wrong or left the machine."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page, trouble = context.new_page(), []
    page.on("console", lambda m: trouble.append(f"console {m.type}: {m.text}"))
    page.on("pageerror", lambda e: trouble.append(f"error: {e}"))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else trouble.append(f"request: {r.url}"))
    page.goto(path.as_uri())
    return page, trouble


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_axe_finds_no_violation_and_nothing_complains(
    browser: Any, written: dict[str, Path], width: int, scheme: str
) -> None:
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
    page, trouble = opened(browser, written["report.html"], width=width, color_scheme=scheme, bypass_csp=True)
    page.evaluate(axe)
    # The marks inside drawings are thousands of nodes without meaning of their own; the drawings are checked as images.
    around = page.evaluate(
        "rules => axe.run({exclude: ['.drawing svg > *']}, {runOnly: rules, resultTypes: ['violations']})", RULES
    )
    images = page.evaluate(
        "() => axe.run(document, {runOnly: {type: 'rule', values: ['svg-img-alt', 'duplicate-id-aria']}})"
    )
    for found in (around, images):
        assert found["passes"], "axe did not run"
        assert not [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]]
    assert not trouble
    page.context.close()


def test_verdict_plan_and_every_gate_are_on_the_first_screen(
    browser: Any, written: dict[str, Path], shared_run: Any
) -> None:
    page, _ = opened(browser, written["report.html"])
    for place, text in (("#verdict-word", shared_run.verdict.verdict), ("#verdict dd code", shared_run.plan_id)):
        found = page.locator(place).first
        box = found.bounding_box()
        assert text in found.inner_text() and box and box["y"] + box["height"] <= 800
    rows = page.locator("table.gates tbody tr")
    assert rows.count() == len(shared_run.verdict.gates)
    last = rows.last.bounding_box()
    assert last and last["y"] + last["height"] <= 800
    page.context.close()


def test_filters_themes_and_links(browser: Any, written: dict[str, Path], shared_run: Any) -> None:
    page, trouble = opened(browser, written["report.html"], color_scheme="light")
    page.get_by_role("button", name="Not passed").click()
    open_ = [g for g in shared_run.verdict.gates if g.status not in ("pass", "not-applicable")]
    assert page.locator("table.gates tbody tr:visible").count() == len(open_) > 0
    page.get_by_label("Filter strata").fill("json")
    assert page.locator("#strata tbody tr:visible").count() == 1
    page.get_by_label("Filter strata").fill("")
    page.get_by_role("button", name="Designated only").click()
    assert 0 < page.locator("#strata tbody tr:visible").count() < page.locator("#strata tbody tr").count()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(2):
        page.locator("#theme").click()
    assert page.locator("#theme").inner_text().endswith("dark") and page.evaluate(ground) != light
    page.locator("table.gates").get_by_role("link").first.click()
    assert page.url.endswith("#gate-" + open_[0].id)
    assert not trouble
    page.context.close()


def test_figures_follow_the_scheme(browser: Any, written: dict[str, Path]) -> None:
    colour = "getComputedStyle(document.querySelector('#figure-survival svg text')).fill"
    seen = set()
    for scheme in ("light", "dark"):
        page, _ = opened(browser, written["report.html"], color_scheme=scheme)
        seen.add(page.evaluate(colour))
        page.context.close()
    assert len(seen) == 2 and not seen & {"rgb(0, 0, 0)", "none"}


def test_it_works_by_keyboard_and_without_script(browser: Any, written: dict[str, Path]) -> None:
    page, _ = opened(browser, written["report.html"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
    page.keyboard.press("Enter")
    assert page.url.endswith("#verdict")
    page.context.close()
    still, _ = opened(browser, written["report.html"], java_script_enabled=False)
    assert still.locator("table.gates tbody tr:visible").count() > 10
    assert still.locator("#gate-filters:visible, #theme:visible").count() == 0
    still.context.close()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_the_page_never_scrolls_sideways(browser: Any, written: dict[str, Path], width: int) -> None:
    page, _ = opened(browser, written["report.html"], width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


@pytest.mark.parametrize("width", [400, 1280])
def test_no_caption_runs_out_of_the_page(browser: Any, written: dict[str, Path], width: int) -> None:
    page, _ = opened(browser, written["report.html"], width=width)
    found = page.evaluate(
        "[...document.querySelectorAll('caption:not(.visually-hidden), figcaption')]"
        ".map(c => c.getBoundingClientRect())"
        ".map(r => [r.left, r.right])"
    )
    assert len(found) > 8 and all(0 <= left and right <= width for left, right in found)
    page.context.close()


def test_it_prints_light_with_every_gate_and_no_controls(
    browser: Any, written: dict[str, Path], tmp_path: Path
) -> None:
    page, _ = opened(browser, written["report.html"], color_scheme="dark")
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible() and not page.locator("#gate-filters").is_visible()
    assert page.locator("article.gate").last.is_visible()
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    page.context.close()
