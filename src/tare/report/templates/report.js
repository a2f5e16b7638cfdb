"use strict";
/* Without this script the page is one document; with it, it shows one view at a time, and filters it.
   The address after # names an element, and after a question mark the filters: #workloads?verdict=costs */
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  const views = all("main > section[data-view]");
  const form = document.querySelector(".filters");
  const selects = all("select", form);
  const shown = form.querySelector(".shown");

  /* On a phone the cells of a table stand below each other (report.css): each needs the name of its column. */
  if (matchMedia("(max-width: 640px)").matches) {
    all("table.plain").forEach((table) => {
      const names = all("thead th", table).map((head) => head.textContent);
      if (!names.length) return;
      table.classList.add("stacked");
      all("tbody tr", table).forEach((row) => {
        let at = 0;
        Array.from(row.cells).forEach((cell) => {
          if (at && cell.colSpan === 1) cell.dataset.label = names[at] || "";
          cell.classList.toggle("empty", !cell.textContent.trim());
          at += cell.colSpan;
        });
      });
    });
  }

  /* --- address --- */
  function parse() {
    const [ident, query = ""] = location.hash.slice(1).split("?");
    return { ident: ident || "result", wanted: new URLSearchParams(query) };   /* identifiers need no escapes */
  }
  function filters() {
    const wanted = new URLSearchParams();
    selects.filter((select) => select.value).forEach((select) => wanted.set(select.name, select.selectedOptions[0].text));
    return wanted.toString();
  }
  function address(ident) { return `#${ident}${filters() && `?${filters()}`}`; }

  /* --- views --- */
  let followed = false;
  function show() {
    const { ident, wanted } = parse();
    selects.forEach((select) => {
      const option = Array.from(select.options).find((one) => one.text === wanted.get(select.name));
      select.value = option ? option.value : "";
    });
    filter();
    const target = document.getElementById(ident) || document.getElementById("result");
    const section = target.closest("section[data-view]") || views[0];
    const view = section.dataset.view;
    const pages = views.filter((one) => one.dataset.of === view);
    const whole = pages.length === 1 ? pages[0] : null;   /* the only workload is shown with the list of workloads */
    views.forEach((one) => one.classList.toggle("away", one.dataset.view !== view && one !== whole));
    all(".top nav a").forEach((link) => {
      const name = link.dataset.view;
      if (name === (section.dataset.of || view)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    for (let inner = target; inner; inner = inner.parentElement) { if (inner.matches("details")) inner.open = true; }
    if (target === section) scrollTo(0, 0); else target.scrollIntoView();
    if (followed) { target.tabIndex = -1; target.focus({ preventScroll: true }); }   /* the keyboard goes on there */
    followed = false;
  }
  all(".top nav a").forEach((link) => { link.dataset.view = link.getAttribute("href").slice(1); });
  /* Links within the page keep the filters. */
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link || link.classList.contains("skip") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const ident = link.getAttribute("href").slice(1);
    followed = true;
    if (location.hash === address(ident)) show(); else location.hash = address(ident);
  });
  addEventListener("hashchange", show);

  /* --- filters --- */
  function filter() {
    const wanted = Object.fromEntries(selects.filter((select) => select.value).map((select) => [select.name, select.value]));
    selects.forEach((select) => select.classList.toggle("set", select.value !== ""));
    const hides = (element) => Object.entries(wanted).some(([name, value]) => {
      const has = element.dataset[name];
      return has !== undefined && !has.trim().split(/\s+/).includes(value);
    });
    all("main [data-workload], main [data-environment], main [data-verdict], main [data-metric]").forEach((element) => {
      if (!element.matches("section[data-view]")) element.classList.toggle("filtered", hides(element));
    });
    all("td[data-cell]").forEach((cell) => {
      cell.classList.toggle("dim", Boolean(wanted.verdict) && cell.dataset.cell !== wanted.verdict);
    });
    const rows = all("table.first tbody tr");
    const left = rows.filter((row) => !row.closest(".filtered")).length;
    shown.textContent = left < rows.length ? `${left} of ${rows.length} rows` : "";
  }
  form.addEventListener("change", () => { location.hash = address(parse().ident); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { location.hash = address(parse().ident); }));

  /* --- colours --- */
  const themes = [["", "Auto"], ["light", "Light"], ["dark", "Dark"]];   /* Auto: as the system */
  const button = document.querySelector(".theme");
  function store(value) { try { localStorage.setItem("tare-theme", value); } catch { /* a file may have no storage */ } }
  function stored() { try { return localStorage.getItem("tare-theme") || ""; } catch { return ""; } }
  function colour(theme) {
    const [value, label] = themes.find((one) => one[0] === theme) || themes[0];
    if (value) root.dataset.theme = value; else delete root.dataset.theme;
    button.textContent = label;
    button.setAttribute("aria-label", `Colours: ${label}`);
  }
  button.addEventListener("click", () => {
    const next = (themes.findIndex((one) => one[0] === (root.dataset.theme || "")) + 1) % themes.length;
    colour(themes[next][0]);
    store(themes[next][0]);
  });
  colour(stored());

  /* --- paper: everything is open --- */
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));

  /* --- a figure as a file: what the style sheet gives it becomes attributes --- */
  const KEPT = ["fill", "fill-opacity", "stroke", "font-size", "font-family"];
  all("button.save").forEach((save) => save.addEventListener("click", () => {
    const drawn = save.closest("figure").querySelector("svg");
    const copy = drawn.cloneNode(true);
    const sources = all("[class]", drawn);
    all("[class]", copy).forEach((element, number) => {
      const style = getComputedStyle(sources[number]);
      KEPT.forEach((name) => element.setAttribute(name, style.getPropertyValue(name)));
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([copy.outerHTML], { type: "image/svg+xml" }));
    link.download = `${save.dataset.name}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }));

  show();
})();
