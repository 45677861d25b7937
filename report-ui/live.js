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

// Shows the newest page that the server has, and tells how many trials are in it; null where it
// has none to give.
const showNewest = async () => {
  let text;
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) return null;
    text = await answer.text();
  } catch {
    return null;
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  if (!page.querySelector("main")) return null; // somebody else's page, of a proxy
  const newest = document.adoptNode(page.querySelector("main"));
  const old = document.querySelector("main");
  const states = new Map(openable(old).map(({ part, key }) => [key, part.open]));
  for (const { part, key } of openable(newest)) part.open = states.get(key) ?? part.open;
  old.replaceWith(newest);
  enhance(newest);
  const now = page.querySelector("[data-events]");
  return now ? Number(now.dataset.ended) : Infinity;
};

if (banner) {
  const events = new EventSource(banner.dataset.events);
  const machine = banner.querySelector("[data-machine]");
  let shown = Number(banner.dataset.ended);
  let isShowing = false;
  // The server makes a page of a running run now and then: what it gives may be an older one, and
  // then it is asked again with the next event. After the last event it is asked until it answers.
  const show = async (isRunning) => {
    if (isShowing) {
      if (!isRunning) setTimeout(() => show(false), 1000);
      return;
    }
    isShowing = true;
    const has = await showNewest();
    shown = has ?? shown;
    isShowing = false;
    if (!isRunning && shown !== Infinity) setTimeout(() => show(false), 2000);
  };
  events.addEventListener("message", (event) => {
    const now = JSON.parse(event.data);
    banner.querySelector("[data-line]").textContent = now.line;
    machine.textContent = now.machine;
    if (!now.is_running) {
      events.close();
      banner.querySelector("[data-stop]")?.remove();
      show(false);
    } else if (now.ended !== shown) {
      show(true);
    }
  });
  // After a fault the server ends the stream, and is asked again in a moment.
  let why = "the server does not answer";
  events.addEventListener("fault", (event) => {
    why = JSON.parse(event.data);
  });
  events.addEventListener("error", () => {
    machine.textContent = why;
    why = "the server does not answer";
  });
}
