"use strict";
/* Load the page again while the run goes on: every minute, for drawing it takes a part of a core. */
(() => {
  const PAUSE_MS = 60000;
  const KEPT = "tare-live-open";

  function reload() {
    if (document.hidden) {   /* a tab in the background costs nothing */
      document.addEventListener("visibilitychange", reload, { once: true });
      return;
    }
    const open = Array.from(document.querySelectorAll("details[open][id]"), (one) => one.id);
    try { sessionStorage.setItem(KEPT, JSON.stringify(open)); } catch { /* without storage they close */ }
    location.reload();
  }
  try {
    JSON.parse(sessionStorage.getItem(KEPT) || "[]").forEach((id) => {
      const one = document.getElementById(id);
      if (one) one.open = true;
    });
    sessionStorage.removeItem(KEPT);
  } catch { /* as above */ }
  if (!document.getElementById("live").hasAttribute("data-ended")) setTimeout(reload, PAUSE_MS);
})();
