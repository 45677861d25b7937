// What a page that is served can do beside: say what runs now, and show what was found since.
//
// The server tells the state of a run whenever it changes. When a trial has ended, the page is
// asked for again, and its main part takes the place of the old one: what was open stays open.

const banner = document.querySelector("[data-events]");

// The parts that can be opened, each by its section and its place in there.
const openable = (root) => {
  const counts = new Map();
  return all("details", root).map((part) => {
    const section = part.closest("section[id]")?.id ?? "";
    const place = counts.get(section) ?? 0;
    counts.set(section, place + 1);
    return { part, key: `${section}/${place}` };
  });
};

// Tells whether the newest is shown.
const showNewest = async () => {
  let text;
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) return false;
    text = await answer.text();
  } catch {
    return false;
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  const newest = document.adoptNode(page.querySelector("main"));
  const old = document.querySelector("main");
  const states = new Map(openable(old).map(({ part, key }) => [key, part.open]));
  for (const { part, key } of openable(newest)) part.open = states.get(key) ?? part.open;
  old.replaceWith(newest);
  enhance(newest);
  return true;
};

if (banner) {
  const events = new EventSource(banner.dataset.events);
  let shown = Number(banner.dataset.ended);
  // One after the other, so that the last one asked for is the one that stays.
  let showing = Promise.resolve();
  events.addEventListener("message", (event) => {
    const now = JSON.parse(event.data);
    banner.querySelector("[data-line]").textContent = now.line;
    banner.querySelector("[data-machine]").textContent = now.machine;
    if (!now.is_running) {
      events.close();
      banner.querySelector("form")?.remove();
    } else if (now.ended === shown) {
      return;
    }
    shown = now.ended;
    showing = showing.then(showNewest);
  });
  events.addEventListener("error", () => {
    banner.querySelector("[data-machine]").textContent = "the server does not answer";
  });
}
