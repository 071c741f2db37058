"use strict";
// Keyboard: "/" focuses the search, "j" and "k" move over rows. Live sessions: events of the ledger as they are recorded.
(() => {
  const filters = document.getElementById("filters");
  if (filters && matchMedia("(min-width: 60rem)").matches) filters.open = true;

  const isTyping = target => target.closest("input, textarea, select, [contenteditable]") !== null;
  // The tabs scroll sideways in a narrow window. Not `scrollIntoView`: the Tab key would then begin there.
  const tab = document.querySelector(".tabs [aria-current]"), tabs = tab?.closest(".tabs ul");
  if (tab) tabs.scrollLeft += Math.max(0, tab.getBoundingClientRect().right - tabs.getBoundingClientRect().right);
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "/") {
      document.querySelector(".search input")?.focus();
      event.preventDefault();
    } else if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll(".row-link")];
      if (!links.length) return;
      const at = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
      links[Math.max(0, Math.min(at, links.length - 1))].focus();
    }
  });

  const timeline = document.getElementById("timeline");
  if (!timeline?.dataset.events) return;
  const live = document.getElementById("live");
  const source = new EventSource(timeline.dataset.events);
  let isAtEnd = false, hasEvents = false;
  source.onmessage = message => {
    hasEvents = true;
    const { at, lines } = JSON.parse(message.data);
    for (const [label, text] of lines) {
      const item = document.createElement("li"), name = document.createElement("span"), said = document.createElement("span");
      name.className = "label";
      name.textContent = label;
      said.className = "text";
      said.textContent = `${at} ${text}`;
      item.append(name, " ", said);
      timeline.append(item);
    }
    live.textContent = "Watching for new events";
  };
  source.addEventListener("end", () => {
    isAtEnd = true;
    source.close();
    live.textContent = "No process works on the session now.";
    if (hasEvents) location.reload();
  });
  source.onerror = () => {
    if (!isAtEnd) live.textContent = "The connection was lost; trying again.";
  };
})();
