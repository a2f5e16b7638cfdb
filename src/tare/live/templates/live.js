"use strict";
/* Ask for the state of the run; the answer comes between launches. If the report is newer, load the page again. */
(() => {
  const live = document.getElementById("live");
  const token = new URLSearchParams(location.search).get("token");
  const PAUSE_MS = 1000;
  const AGAIN_MS = 15000;   /* after this the answer to a reload is not expected any more */
  const MOST_MISSED = 4;
  const KEPT = "tare-live-open";
  let missed = 0;

  function show(answer) {
    const open = Array.from(live.querySelectorAll("details[open]"), (one) => one.id);
    const focused = live.contains(document.activeElement);
    live.innerHTML = answer.html;
    open.forEach((id) => { const one = document.getElementById(id); if (one) one.open = true; });
    if (focused) live.querySelector("summary")?.focus({ preventScroll: true });
    document.title = answer.title;
  }
  function gone() {
    live.querySelectorAll(":scope > :not(.live-gone)").forEach((one) => { one.hidden = one.matches(".live-now"); });
    live.querySelector(".live-gone").hidden = false;
  }
  function reload() {
    const open = Array.from(document.querySelectorAll("details[open][id]"), (one) => one.id);
    try { sessionStorage.setItem(KEPT, JSON.stringify(open)); } catch { /* without storage they close */ }
    location.reload();
  }
  function restore() {
    try {
      JSON.parse(sessionStorage.getItem(KEPT) || "[]").forEach((id) => {
        const one = document.getElementById(id);
        if (one) one.open = true;
      });
      sessionStorage.removeItem(KEPT);
    } catch { /* as above */ }
  }
  async function ask() {
    if (document.hidden) {   /* a tab in the background costs nothing */
      document.addEventListener("visibilitychange", ask, { once: true });
      return;
    }
    let answer;
    try {
      const response = await fetch(`/progress?${new URLSearchParams({ token, report: live.dataset.report })}`);
      if (!response.ok) throw new Error(response.statusText);
      answer = await response.json();
    } catch {
      missed += 1;
      if (missed < MOST_MISSED) setTimeout(ask, PAUSE_MS * missed); else gone();
      return;
    }
    missed = 0;
    show(answer);
    if (answer.ended) return;
    if (answer.report !== live.dataset.report) reload();
    setTimeout(ask, answer.report === live.dataset.report ? PAUSE_MS : AGAIN_MS);
  }
  restore();
  requestAnimationFrame(() => setTimeout(ask));   /* the first request tells the run that the page is drawn */
})();
