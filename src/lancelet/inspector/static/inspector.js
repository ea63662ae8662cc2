"use strict";
// One page: each view asks the server for facts and draws them. Texts of the table only ever become text nodes.

const main = document.getElementById("main");
const state = { version: null, view: "overview", offset: 0, where: "" };

function make(name, properties = {}, ...children) {
  const svg = ["svg", "g", "line", "path", "circle", "text", "title"].includes(name) && properties.svg;
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "svg" || value === undefined || value === null) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));
const time = (text) => (text === null ? "–" : new Date(text).toLocaleString("sv-SE"));

function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

async function facts(name, words = {}) {
  const query = new URLSearchParams(words);
  if (state.version !== null) query.set("version", state.version);
  const answer = await fetch(`facts/${name}?${query}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function table(heads, rows) {
  const cells = (row) => row.map((cell, at) => make("td", { class: heads[at].number ? "number" : undefined }, cell));
  return make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" },
    make("table", {},
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col", class: head.number ? "number" : undefined }, head.name)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, cells(row))))));
}

const bar = (share, label) =>
  make("div", { class: "bar", role: "img", "aria-label": label }, make("span", { style: `width:${Math.max(share * 100, .5)}%` }));

const views = {
  overview: { title: "Overview", draw: drawOverview },
  history: { title: "History", draw: drawHistory },
  fragments: { title: "Fragments", draw: drawFragments },
  columns: { title: "Columns", draw: drawColumns },
  indices: { title: "Indices", draw: drawIndices },
  rows: { title: "Rows", draw: drawRows },
  upkeep: { title: "Upkeep", draw: drawUpkeep },
};

async function drawOverview() {
  const seen = await facts("overview");
  const advice = seen.advice.map((text) => make("p", { class: "card advice" }, text));
  const rows = seen.schema.map((column) => [column.name, column.type, column.nullable ? "yes" : "no"]);
  const config = Object.entries(seen.config).map(([key, value]) => [key, value]);
  return [
    ...advice,
    make("h2", {}, "Columns"),
    table([{ name: "name" }, { name: "type" }, { name: "null" }], rows),
    config.length ? make("h2", {}, "Settings") : null,
    config.length ? table([{ name: "key" }, { name: "value" }], config) : null,
  ];
}

async function drawHistory() {
  const past = await facts("history");
  const oldest = [...past].reverse();
  const step = 46, width = Math.max(oldest.length * step + 40, 200);
  const line = make("svg", { svg: true, width, height: 120, role: "img", "aria-label": `${past.length} versions` },
    make("path", { svg: true, class: "line", d: `M 20 60 H ${width - 20}` }));
  oldest.forEach((one, at) => {
    const x = 20 + at * step;
    line.append(make("circle", { svg: true, class: `dot${one.version === state.shown ? " here" : ""}`, cx: x, cy: 60, r: 7 },
      make("title", { svg: true }, `${one.version}: ${one.operation || "?"}, ${number(one.rows)} rows, ${time(one.committed)}`)));
    line.append(make("text", { svg: true, x, y: 82, "text-anchor": "middle" }, String(one.version)));
    one.tags.forEach((tag, row) => line.append(make("text", { svg: true, x, y: 44 - row * 12, "text-anchor": "middle" }, `⚑ ${tag}`)));
    one.branches.forEach((branch, row) => {
      line.append(make("path", { svg: true, class: "line", d: `M ${x} 66 q 6 24 22 ${30 + row * 12}` }));
      line.append(make("text", { svg: true, x: x + 24, y: 100 + row * 12 }, branch));
    });
  });
  const rows = past.map((one) => [
    number(one.version), time(one.committed), one.operation || "–", number(one.rows), number(one.fragments), size(one.bytes),
    make("span", {}, one.tags.map((tag) => make("span", { class: "tag" }, tag)), one.branches.map((name) => make("span", { class: "branch" }, name))),
    one.problem || one.message || "",
  ]);
  const heads = ["version", "committed", "operation", "rows", "fragments", "size", "names", "message"];
  return [
    make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Versions as a line" }, line),
    table(heads.map((name) => ({ name, number: ["version", "rows", "fragments", "size"].includes(name) })), rows),
  ];
}

async function drawFragments() {
  const { fragments, all } = await facts("fragments");
  const most = Math.max(...fragments.map((one) => one.rows + one.deleted_rows), 1);
  const detail = make("div", { class: "card", "aria-live": "polite" }, "Choose a fragment.");
  const cells = fragments.map((one) => {
    const total = one.rows + one.deleted_rows, gone = total ? one.deleted_rows / total : 0;
    const label = `fragment ${one.id}: ${number(one.rows)} rows, ${number(one.deleted_rows)} deleted, ${size(one.bytes)}`;
    const color = `color-mix(in srgb, var(--rust) ${Math.round(gone * 100)}%, var(--sea))`;
    const style = `background:${color};opacity:${.35 + .65 * (total / most)}`;
    return make("button", { title: label, "aria-label": label, "aria-pressed": "false", style, onclick: (event) => choose(event, one) });
  });
  function choose(event, one) {
    for (const cell of cells) cell.setAttribute("aria-pressed", String(cell === event.currentTarget));
    detail.replaceChildren(
      make("strong", {}, `Fragment ${one.id}`), ` ${number(one.rows)} rows, ${number(one.deleted_rows)} deleted, ${size(one.bytes)}`,
      table([{ name: "file" }, { name: "version" }, { name: "size", number: true }, { name: "columns" }],
        one.data_files.map((file) => [file.path, file.version, size(file.bytes), file.columns.join(", ")])));
  }
  const cut = fragments.length < all ? make("p", { class: "soft" }, `The first ${number(fragments.length)} of ${number(all)}.`) : null;
  return [
    make("p", { class: "soft" }, "Each square is a fragment: the fuller its colour the more rows, the redder the more of them deleted."),
    make("div", { class: "map" }, cells), cut, detail,
  ];
}

async function drawColumns() {
  const columns = await facts("columns");
  const total = columns.reduce((sum, one) => sum + one.bytes, 0) || 1;
  const pages = make("div");
  async function open(name) {
    const found = await facts("pages", { column: name });
    pages.replaceChildren(make("h2", {}, `Pages of ${name}`), table(
      [{ name: "fragment", number: true }, { name: "page", number: true }, { name: "size", number: true }, { name: "encoding" }, { name: "" }],
      found.map((one) => [number(one.fragment), number(one.page), size(one.bytes), one.encoding,
        make("details", {}, make("summary", {}, "as stored"), make("pre", {}, one.description))])));
    pages.scrollIntoView({ behavior: "smooth" });
  }
  const rows = columns.map((one) => [
    make("button", { onclick: () => open(one.name).catch(fail) }, one.name), one.type, size(one.bytes),
    bar(one.bytes / total, `${(one.bytes / total * 100).toFixed(1)} percent of all bytes`), number(one.pages), one.encodings.join("; "),
  ]);
  return [table([{ name: "column" }, { name: "type" }, { name: "size", number: true }, { name: "share" }, { name: "pages", number: true }, { name: "encodings" }], rows), pages];
}

async function drawIndices() {
  const indices = await facts("indices");
  if (!indices.length) return [make("p", { class: "soft" }, "No indices.")];
  const rows = indices.map((one) => [
    one.name, one.type, one.columns.join(", "), bar(one.rows ? one.rows_indexed / one.rows : 1, `${number(one.rows_indexed)} of ${number(one.rows)} rows`),
    `${number(one.rows_indexed)} of ${number(one.rows)}`, number(one.segments), size(one.bytes),
    make("details", {}, make("summary", {}, "details"), make("pre", {}, JSON.stringify(one.details, null, 2))),
  ]);
  return [table([{ name: "index" }, { name: "kind" }, { name: "columns" }, { name: "coverage" }, { name: "rows", number: true }, { name: "segments", number: true }, { name: "size", number: true }, { name: "" }], rows)];
}

function spark(values, length) {
  const numbers = values.map((value) => value ?? 0);
  const low = Math.min(...numbers), high = Math.max(...numbers), span = high - low || 1;
  const points = numbers.map((value, at) => `${at ? "L" : "M"} ${(at / Math.max(numbers.length - 1, 1) * 116 + 2).toFixed(1)} ${(30 - (value - low) / span * 28).toFixed(1)}`);
  return make("span", {}, make("svg", { svg: true, width: 120, height: 32, role: "img", "aria-label": `${length} numbers from ${low} to ${high}` },
    make("path", { svg: true, class: "spark", d: points.join(" ") })), make("span", { class: "soft" }, ` ${length}`));
}

function cell(value) {
  if (value === null) return make("span", { class: "soft" }, "null");
  if (typeof value !== "object") return String(value);
  if (value.picture) return make("img", { class: "cell", src: value.picture, alt: `a picture of ${size(value.bytes)}` });
  if (value.vector) return spark(value.vector, value.length);
  if (value.text !== undefined) return value.length > value.text.length ? `${value.text}…` : value.text;
  return make("span", { class: "soft" }, size(value.bytes));
}

async function drawRows() {
  const form = make("form", { role: "search", onsubmit: (event) => {
    event.preventDefault();
    state.where = event.target.elements.where.value;
    state.offset = 0;
    draw();
  } }, make("input", { name: "where", value: state.where, placeholder: "a condition in SQL, for example likes > 100", "aria-label": "Condition" }), make("button", {}, "Filter"));
  let found;
  try {
    found = await facts("rows", { offset: state.offset, limit: 20, where: state.where });
  } catch (error) {
    return [form, make("p", { class: "error", role: "alert" }, error.message)];
  }
  const move = (step) => () => { state.offset = Math.max(state.offset + step, 0); draw(); };
  const last = state.offset + found.rows.length;
  const pager = make("p", { class: "pager" },
    make("button", { onclick: move(-20), ...(state.offset ? {} : { disabled: "" }) }, "Back"), ` ${number(found.rows.length ? state.offset + 1 : 0)} to ${number(last)} of ${number(found.count)} `,
    make("button", { onclick: move(20), ...(last < found.count ? {} : { disabled: "" }) }, "On"));
  const heads = found.columns.map((column) => ({ name: make("span", {}, column.name, make("br"), make("span", { class: "soft" }, column.type)) }));
  return [form, table(heads, found.rows.map((row) => row.map(cell))), pager];
}

async function drawUpkeep() {
  const found = await facts("upkeep");
  return [
    make("h2", {}, "What a compaction would do"), make("pre", {}, found.compaction_text),
    make("h2", {}, "What a cleanup would do"), make("pre", {}, found.cleanup_text),
    make("p", { class: "soft" }, "Nothing is done from here: lancelet compact and lancelet cleanup do."),
  ];
}

function fail(error) {
  main.replaceChildren(make("p", { class: "error", role: "alert" }, error.message));
}

async function draw() {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.dataset.view === state.view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  // Answers come in any order: only those to the last question are drawn.
  const asked = state.asked = (state.asked ?? 0) + 1;
  main.setAttribute("aria-busy", "true");
  try {
    const [nodes] = await Promise.all([views[state.view].draw(), head()]);
    if (asked !== state.asked) return;
    main.replaceChildren(...nodes.filter((node) => node !== null));
  } catch (error) {
    if (asked !== state.asked) return;
    fail(error);
  }
  main.setAttribute("aria-busy", "false");
}

async function head() {
  const seen = await facts("overview");
  state.shown = seen.version;
  document.title = `${seen.uri.split("/").pop()} – Lancelet`;
  document.getElementById("title").textContent = seen.uri;
  document.getElementById("numbers").textContent =
    `version ${seen.version}${seen.branch ? ` of ${seen.branch}` : ""}, ${number(seen.rows)} rows, ${seen.columns} columns, ${number(seen.fragments)} fragments, ${size(seen.bytes)}, files of version ${seen.file_version}`;
  return seen;
}

async function start() {
  const tabs = document.getElementById("tabs");
  const show = (view) => { state.view = view; location.hash = view; draw(); };
  for (const [name, view] of Object.entries(views)) {
    const tab = make("button", { role: "tab", "aria-controls": "main", onclick: () => show(name) }, view.title);
    tab.dataset.view = name;
    tabs.append(tab);
  }
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = Object.keys(views);
    show(names[(names.indexOf(state.view) + step + names.length) % names.length]);
    tabs.querySelector("[aria-selected=true]").focus();
  });
  if (location.hash.slice(1) in views) state.view = location.hash.slice(1);
  const choice = document.getElementById("version");
  const seen = await head();
  choice.append(make("option", { value: "" }, seen.follows ? "newest" : `as opened (${seen.version})`));
  for (const one of await facts("history")) choice.append(make("option", { value: one.version }, `${one.version} – ${one.operation || "?"}`));
  choice.addEventListener("change", async () => {
    state.version = choice.value || null;
    state.offset = 0;
    draw();
  });
  await draw();
}

start().catch(fail);
