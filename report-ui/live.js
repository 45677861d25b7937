// What a page that is served can do beside: say what runs now, and show what was found since.
//
// The server tells the state of a run whenever it changes. When a trial has ended, the page is
// asked for again, and its main part takes the place of the old one: what was open stays open.

const banner = document.querySelector("[data-events]");

const summaryOf = (part) => part.querySelector("summary")?.textContent;

const showNewest = async () => {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const newest = document.adoptNode(page.querySelector("main"));
  const old = document.querySelector("main");
  const wereOpen = new Set(all("details[open]", old).map(summaryOf));
  for (const part of all("details", newest)) {
    if (wereOpen.has(summaryOf(part))) part.open = true;
  }
  old.replaceWith(newest);
  enhance(newest);
};

if (banner) {
  const events = new EventSource(banner.dataset.events);
  let ended = Number(banner.dataset.ended);
  events.addEventListener("message", async (event) => {
    const now = JSON.parse(event.data);
    banner.querySelector("[data-line]").textContent = now.line;
    banner.querySelector("[data-machine]").textContent = now.machine;
    if (now.is_running && now.ended === ended) return;
    ended = now.ended;
    await showNewest();
    if (!now.is_running) {
      events.close();
      banner.remove();
    }
  });
  events.addEventListener("error", () => {
    banner.querySelector("[data-machine]").textContent = "the server does not answer";
  });
}
