"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const buttons = (name) => Array.from(document.querySelectorAll(`button.${name}`));
  const plots = Array.from(document.querySelectorAll(".plot"));
  const config = { displayModeBar: false, responsive: true };

  /* Curves of one plot usually share their fractions; they are then stored once. */
  Object.values(specs).forEach((spec) => spec.data.forEach((trace) => {
    if (trace.y === "as first") { trace.y = spec.data[0].y; }
  }));

  /* Heights are set here, because the page's policy forbids style attributes. */
  plots.forEach((plot) => { plot.style.height = `${specs[plot.id].layout.height}px`; });

  /* Colours of text and grid come from the style sheet, so that one plot serves light, dark and print. */
  function theme(layout) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"), tickcolor: colour("--line") };
    return {
      ...layout,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--fg") },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { align: "left", bgcolor: colour("--panel"), bordercolor: colour("--muted"), font: { color: colour("--fg"), size: 12 } },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { size: 11 }, ...layout.legend },
      xaxis: { ...axis, title: { ...(layout.xaxis.title || {}), font: { size: 12, color: colour("--muted") } }, ...rest(layout.xaxis) },
      yaxis: { ...axis, title: { ...(layout.yaxis.title || {}), font: { size: 12, color: colour("--muted") } }, ...rest(layout.yaxis) },
    };
  }

  function rest({ title, ...others }) { return others; }

  function visible(plot) { return plot.getClientRects().length > 0; }

  function draw(plot) {
    if (plot.dataset.state || !visible(plot)) return;
    plot.dataset.state = "drawing";
    const spec = specs[plot.id];
    Plotly.newPlot(plot, spec.data, theme(spec.layout), config).then(() => { plot.dataset.state = "drawn"; });
  }

  function drawAll() { plots.forEach(draw); }

  /* Draw plots near the window first, the others one by one while the browser is idle. */
  const near = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => { near.unobserve(entry.target); draw(entry.target); });
  }, { rootMargin: "600px" });
  plots.forEach((plot) => near.observe(plot));
  const idle = window.requestIdleCallback || ((task) => setTimeout(task, 30));
  function next() {
    const waiting = plots.find((plot) => !plot.dataset.state && visible(plot));
    if (waiting) { draw(waiting); idle(next); }
  }
  idle(next);
  document.querySelectorAll("details.page").forEach((page) => page.addEventListener("toggle", () => idle(next)));

  function retheme() {
    plots.filter((plot) => plot.dataset.state === "drawn").forEach((plot) => {
      Plotly.relayout(plot, themed(theme(current(plot))));
    });
  }
  function current(plot) { return plot.dataset.tail === "on" ? tailLayout(specs[plot.id]) : specs[plot.id].layout; }
  function themed({ height, margin, ...others }) { return others; }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details.page").forEach((page) => { page.open = true; });
    drawAll();
    retheme();
  });
  addEventListener("afterprint", retheme);

  /* The tail: fractions on the scale of nines, on which 99 % and 99.9 % are one step apart. */
  function nines(fractions) {
    const last = fractions.length > 1 ? -Math.log10(1 - fractions[fractions.length - 2]) + 0.3 : 1;
    return fractions.map((fraction) => (fraction < 1 ? -Math.log10(1 - fraction) : last));
  }
  function tailLayout(spec) {
    const top = Math.max(...spec.data.map((trace) => Math.max(...nines(trace.y))));
    const ticks = Array.from({ length: Math.floor(top) + 1 }, (_, step) => step);
    const text = ticks.map((step) => (step === 0 ? "0%" : `${(100 * (1 - 10 ** -step)).toFixed(Math.max(0, step - 2))}%`));
    const yaxis = { ...spec.layout.yaxis, range: [0, top * 1.03], tickmode: "array", tickvals: ticks, ticktext: text };
    return { ...spec.layout, yaxis, xaxis: { ...spec.layout.xaxis, range: spec.whole } };
  }
  buttons("tail").forEach((button) => button.addEventListener("click", () => {
    const plot = document.getElementById(button.dataset.for);
    const spec = specs[plot.id];
    const on = plot.dataset.tail !== "on";
    plot.dataset.tail = on ? "on" : "off";
    button.setAttribute("aria-pressed", String(on));
    const data = spec.data.map((trace) => ({ ...trace, y: on ? nines(trace.y) : trace.y, customdata: trace.y,
      hovertemplate: trace.hovertemplate.replace(/%\{y:|%\{customdata:/, "%{customdata:") }));
    Plotly.react(plot, data, theme(current(plot)), config);
  }));

  buttons("near").forEach((button) => button.addEventListener("click", () => {
    const plot = document.getElementById(button.dataset.for);
    const spec = specs[plot.id];
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    Plotly.relayout(plot, { "xaxis.range": on ? spec.near : spec.layout.xaxis.range });
  }));
  buttons("save").forEach((button) => button.addEventListener("click", () => {
    const plot = document.getElementById(button.dataset.for);
    Plotly.downloadImage(plot, { format: "svg", filename: plot.id, width: plot.clientWidth, height: plot.clientHeight });
  }));

  /* A link to a workload opens its page. */
  function openTarget() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target && target.matches("details")) { target.open = true; }
  }
  addEventListener("hashchange", openTarget);
  openTarget();
})();
