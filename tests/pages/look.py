# Looks at every page of a directory in Chromium, in four forms, and lists what is wrong.

import sys
from io import BytesIO
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright
from pypdf import PdfReader

PLACE, PICTURES = Path(sys.argv[1]), Path(sys.argv[2])

# Width and colour scheme of each form on a screen.
FORMS = {"wide": (1400, "light"), "dark": (1400, "dark"), "phone": (390, "light")}

# The first chart begins above this, in px, on a page that has one.
FIRST_CHART_MAX = 600

# Pages of paper, by report.
PAPER_MAX = {"demo": 6}

# Pages of runs without a number, which have nothing to draw.
WITHOUT_CHART = {"failing", "names"}

LARGEST_BYTES = 1_000_000

LAYOUT = """
() => {
    const found = [];
    const named = (element) => {
        const kind = typeof element.className === 'string' ? element.className : '';
        const words = element.textContent.trim().replace(/\\s+/g, ' ').slice(0, 40);
        return `<${element.tagName.toLowerCase()} class="${kind}"> "${words}"`;
    };
    const wide = document.documentElement.clientWidth;
    const whole = document.documentElement.scrollWidth;
    if (whole > wide) found.push(`the page is ${whole} px wide in a window of ${wide}`);
    const isCut = (element) => {
        for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
            if (getComputedStyle(at).overflowX !== 'visible') return true;
        }
        return false;
    };
    for (const element of document.body.querySelectorAll('*')) {
        const box = element.getBoundingClientRect();
        if (box.width < 2 || box.height < 2 || box.right <= wide + 1) continue;
        if (!isCut(element)) found.push(`${named(element)} ends at ${Math.round(box.right)} px`);
    }
    const ink = document.createElement('canvas').getContext('2d');
    for (const cell of document.querySelectorAll('td, th')) {
        const style = getComputedStyle(cell);
        if (cell.clientWidth === 0 || style.display === 'none') continue;
        ink.font = style.font;
        const letters = (cell.clientWidth - parseFloat(style.paddingLeft)
            - parseFloat(style.paddingRight)) / ink.measureText('0').width;
        // As long as a cell has room for all that it says, it may be narrow.
        const lines = cell.innerText.trim().split('\\n').map((line) => line.trim().length);
        if (Math.max(...lines) >= 8 && letters < 7.9) {
            found.push(`${named(cell)} has room for ${letters.toFixed(1)} letters`);
        }
    }
    const drawn = [...document.querySelectorAll('svg')].filter((svg) => {
        const box = svg.getBoundingClientRect();
        return box.width > 100 && box.height > 20;
    });
    const top = drawn.length ? drawn[0].getBoundingClientRect().top + scrollY : null;
    return [found, top];
}
"""


# A page with one of each that is to be found.
PLANTED = """
<!doctype html><html><head><meta charset="utf-8"><title>planted</title></head><body><main>
<h1>planted</h1>
<p style="color: #ccc; background: #fff">grey on white</p>
<div style="width: 2000px">as wide as two pages</div>
<table><tr><td style="width: 20px; max-width: 20px; word-break: break-all">narrowest</td></tr></table>
<div style="height: 700px"></div>
<svg width="300" height="100" role="img" aria-label="a chart"></svg>
</main></body></html>
"""

# What is said of it, by its beginning.
FOUND_IN_PLANTED = [
    "the page is 2",
    "<div class=\"\"> \"as wide as two pages\" ends at",
    "<td class=\"\"> \"narrowest\" has room for",
    "the first chart begins at",
    "axe: color-contrast",
]


def require_finds(browser):
    """Fails unless everything that is planted in a page is found."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_content(PLANTED)
    found = layout(page, "planted", "wide") + barriers(page)
    page.close()
    for beginning in FOUND_IN_PLANTED:
        assert any(it.startswith(beginning) for it in found), (beginning, found)


def layout(page, name, form):
    """Returns what is wrong with a page as it is laid out."""
    found, top = page.evaluate(LAYOUT)
    if top is None and name not in WITHOUT_CHART:
        found.append("it has no chart")
    if top is not None and form != "phone" and top > FIRST_CHART_MAX:
        found.append(f"the first chart begins at {top:.0f} px")
    return found


def barriers(page):
    """Returns what axe finds that keeps somebody from reading a page."""
    found = []
    for broken in Axe().run(page).response["violations"]:
        where = "; ".join(" ".join(node["target"][:1]) for node in broken["nodes"][:3])
        found.append(f"axe: {broken['id']}, {len(broken['nodes'])} times: {where}")
    return found


def on_paper(page, name):
    """Prints a page; returns what is wrong with that."""
    pdf = page.pdf(format="A4", print_background=True)
    (PICTURES / f"{name}.pdf").write_bytes(pdf)
    count = len(PdfReader(BytesIO(pdf)).pages)
    print(f"{name}: {count} pages of paper")
    most = PAPER_MAX.get(name, count)
    return [f"{count} pages of paper"] if count > most else []


def main():
    """Looks at all of them; returns the exit code."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    wrong, files = [], sorted(PLACE.glob("*.html"))
    assert len(files) == 10, f"{len(files)} pages"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        require_finds(browser)
        for file in files:
            name = file.stem
            if file.stat().st_size > LARGEST_BYTES:
                wrong.append(f"{name}: {file.stat().st_size} bytes")
            for form, (width, scheme) in FORMS.items():
                page = browser.new_page(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                said, asked = [], []
                page.on("console", lambda it, said=said: said.append(f"console: {it.text}"))
                page.on("pageerror", lambda it, said=said: said.append(f"error: {it}"))
                page.on("request", lambda it, asked=asked: asked.append(it.url))
                page.goto(file.as_uri())
                found = layout(page, name, form) + said
                found += [f"it asks for {url}" for url in asked if url != file.as_uri()]
                found += barriers(page)
                page.screenshot(path=PICTURES / f"{name}-{form}.png", full_page=True)
                if form == "wide":
                    found += on_paper(page, name)
                page.close()
                wrong += [f"{name}, {form}: {it}" for it in found]
        browser.close()
    for line in wrong:
        print(f"WRONG {line}")
    print(f"{len(files)} pages in {len(FORMS) + 1} forms: {len(wrong)} to mend; {PICTURES}")
    return 1 if wrong else 0


sys.exit(main())
