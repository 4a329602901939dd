// Values at the pointer, lines that the legend switches on and off, data as CSV files.
"use strict";

const texts = (row) => [...row.cells].map((cell) => cell.textContent.trim());
const short = (text) => Number(Number(text).toPrecision(3));
const nearest = (xs, x) =>
  xs.reduce((best, _, i) => (Math.abs(xs[i] - x) < Math.abs(xs[best] - x) ? i : best), 0);

// Shows the values at the pointer, or where the arrow keys went, over the legend of the figure.
// What is returned hides them.
function values(figure) {
  const plot = figure.querySelector(".plot"), cursor = plot.querySelector(".cursor");
  const box = figure.querySelector(".values"), data = figure.querySelector(".data").tBodies;
  const curves = [...plot.querySelectorAll("polyline")].map((line, i) => ({
    line, xs: [...line.points].map((p) => p.x), ys: [...line.points].map((p) => p.y),
    rows: data[i].rows, entry: box.tBodies[0].rows[i], dot: cursor.querySelectorAll("circle")[i],
  }));
  let at = null;

  function show(x) {
    at = x;
    for (const part of [box, cursor]) part.classList.toggle("off", x === null);
    if (x === null) return;
    cursor.querySelector("path").setAttribute("transform", `translate(${x} 0)`);
    for (const {line, xs, ys, rows, entry, dot} of curves) {
      const i = nearest(xs, x), [, across, value, low, high] = texts(rows[i]);
      const beyond = Math.abs(xs[i] - x) > Math.max(8, (xs.at(-1) - xs[0]) / xs.length);
      const missing = beyond || line.classList.contains("off");
      for (const part of [entry, dot]) part.classList.toggle("off", missing);
      entry.cells[1].textContent = Number(across).toLocaleString("en");
      entry.cells[2].textContent = short(value) + (low && ` [${short(low)},\u00a0${short(high)}]`);
      dot.setAttribute("transform", `translate(${xs[i]} ${ys[i]})`);
    }
  }

  function places() {
    const shown = curves.filter(({line}) => !line.classList.contains("off"));
    return [...new Set(shown.flatMap(({xs}) => xs))].sort((a, b) => a - b);
  }

  function follow(event) {
    const point = new DOMPoint(event.clientX, event.clientY);
    const xs = places(), {x} = point.matrixTransform(plot.getScreenCTM().inverse());
    show(xs.length ? xs[nearest(xs, x)] : null);
  }

  plot.tabIndex = 0;
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show(null));
  plot.addEventListener("blur", () => show(null));
  plot.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key], xs = places();
    if (!step || !xs.length) return;
    event.preventDefault();
    const next = at === null ? xs.length - 1 : xs.indexOf(at) + step;
    show(xs[Math.min(Math.max(next, 0), xs.length - 1)]);
  });
  return () => show(null);
}

// A click on a group in a legend hides it in all figures of its env.
function legends(section) {
  const hidden = new Set(), hide = [...section.querySelectorAll(".chart")].map(values);
  const parts = [...section.querySelectorAll("[data-group]")];
  const groups = new Set(parts.map((part) => part.dataset.group));
  function draw() {
    for (const part of parts) {
      const off = hidden.has(part.dataset.group);
      part.classList.toggle("off", off);
      if (part.tagName === "BUTTON") part.ariaPressed = !off;
    }
    hide.forEach((values) => values());
  }
  for (const button of section.querySelectorAll("button[data-group]")) {
    const {group} = button.dataset;
    button.disabled = false;
    button.title = "Click: hide or show. Double click: only this one, or all.";
    button.addEventListener("click", () => {
      if (!hidden.delete(group)) hidden.add(group);
      draw();
    });
    button.addEventListener("dblclick", () => {
      const others = [...groups].filter((other) => other !== group);
      const alone = others.every((other) => hidden.has(other));
      hidden.clear();
      if (!alone) others.forEach((other) => hidden.add(other));
      draw();
    });
  }
}

function download(name, rows) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const csv = rows.map((row) => row.map(quoted).join(",") + "\n").join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv], {type: "text/csv"}));
  link.download = name.replace(/[^\w.-]+/g, "-") + ".csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function csv(figure) {
  const named = [figure.closest("section").querySelector("h2"), figure.querySelector("h4")];
  const rows = [...figure.querySelectorAll(".data tbody tr")].map(texts);
  return rows.map((row) => [...named.map((heading) => heading.textContent), ...row]);
}

document.querySelectorAll("section").forEach(legends);
for (const button of document.querySelectorAll(".csv")) {
  const figure = button.closest("figure");
  const all = figure ? [figure] : [...document.querySelectorAll(".chart")];
  const name = figure ? csv(figure)[0].slice(0, 2).join(" ") : document.title;
  button.hidden = false;
  button.addEventListener("click", () =>
    download(name, [["env", "figure", "group", "x", "y", "low", "high"], ...all.flatMap(csv)]));
}
if (matchMedia("(prefers-reduced-motion: reduce)").matches)
  document.querySelectorAll("video").forEach((video) => video.pause());
