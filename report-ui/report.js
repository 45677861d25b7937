// What a page can do that paper cannot: sort a table, hide an arm, copy a line.
//
// The report is complete without this script. It only adds controls, all of them buttons, and reads
// what the markup says: `data-sortable` tables, `data-value` of a number, `data-arm` of whatever
// belongs to an arm, `data-copy` of a text to copy, `data-paper` of what is closed on a screen and
// stands on paper.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

const button = (act) => {
  const made = document.createElement("button");
  made.type = "button";
  made.addEventListener("click", () => act(made));
  return made;
};

// Puts what an element contains into a button.
const makePressable = (element, act) => {
  const made = button(act);
  made.append(...element.childNodes);
  element.append(made);
  return made;
};

// A cell's number, or its text; null for a gap.
const valueOf = (row, column) => {
  const cell = row.cells[column];
  const value = cell.dataset.value;
  if (value === undefined) return cell.textContent.trim().toLowerCase();
  return value === "" ? null : Number(value);
};

// Orders two values; gaps stay last in either direction.
const inOrder = (direction) => (a, b) => {
  if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
  if (typeof a.value === "number") return direction * (a.value - b.value);
  return direction * String(a.value).localeCompare(String(b.value), "en", { numeric: true });
};

const sortBy = (table, heading) => {
  const column = heading.cellIndex;
  const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, value: valueOf(row, column) }));
  rows.sort(inOrder(direction));
  body.append(...rows.map(({ row }) => row));
};

const select = (element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
};

// Adds the controls to a part of the page.
const enhance = (root) => {
  for (const table of all("table[data-sortable]", root)) {
    for (const heading of all("thead th", table)) {
      makePressable(heading, () => sortBy(table, heading));
    }
  }

  // A legend's entry shows and hides its arm in every chart and table.
  for (const entry of all(".legend > [data-arm]", root)) {
    const pressable = makePressable(entry, () => {
      const hidden = pressable.getAttribute("aria-pressed") === "true";
      pressable.setAttribute("aria-pressed", String(!hidden));
      const of = `[data-arm="${CSS.escape(entry.dataset.arm)}"]`;
      for (const part of all(`svg ${of}, tr${of}`)) part.classList.toggle("off", hidden);
    });
    pressable.setAttribute("aria-pressed", "true");
    pressable.title = "Show or hide this stack";
  }

  for (const text of all("[data-copy]", root)) {
    const made = button(async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        made.textContent = "Copied";
      } catch {
        // Without the permission, what is left is to select it for the reader.
        select(text);
        made.textContent = "Selected";
      }
      setTimeout(() => (made.textContent = "Copy"), 2000);
    });
    made.textContent = "Copy";
    made.setAttribute("aria-live", "polite");
    text.parentElement.classList.add("ready");
    text.parentElement.append(made);
  }
};

enhance(document);

// Whoever wants all of it on paper opens it first.
for (const footer of all("footer")) {
  const made = button(() => {
    const closed = all("details:not([open])");
    for (const part of closed.length ? closed : all("details")) part.open = closed.length > 0;
    made.textContent = closed.length ? "Close every part" : "Open every part";
  });
  made.textContent = "Open every part";
  footer.append(made);
}

// What a reader must know of the answer is on paper too; evidence only where it was opened.
let opened = [];
addEventListener("beforeprint", () => {
  opened = all("details[data-paper]:not([open])");
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of opened) part.open = false;
  opened = [];
});
