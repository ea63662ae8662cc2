"use strict";
// One page: each view asks the server for facts and draws them. Texts of the table only ever become text nodes.

const main = document.getElementById("main");
const state = { version: null, view: "overview", offset: 0, where: "", fragments: 0, shade: "rows" };

// Marks that nobody sees, or that turn the direction of what stands after them, are written out.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const visible = (text) => text.replace(hidden, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);

function make(name, properties = {}, ...children) {
  const svg = ["svg", "g", "line", "path", "circle", "text", "title"].includes(name) && properties.svg;
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "svg" || value === undefined || value === null) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(typeof child === "string" ? visible(child) : child);
  return node;
}

const many = (count, one, several) => `${number(count)} ${count === 1 ? one : several ?? `${one}s`}`;
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
  const kind = (head) => ["number", "plain", "wide"].find((name) => head[name]);
  const cells = (row) => row.map((cell, at) => make("td", { class: kind(heads[at]) }, cell));
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

const tile = (name, value, told) => make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, value), make("span", { class: "soft" }, told)));

async function drawOverview(top) {
  const seen = await top;
  const tiles = make("dl", { class: "tiles" },
    tile("Rows", number(seen.rows), seen.deleted_rows ? `and ${number(seen.deleted_rows)} deleted` : "none deleted"),
    tile("Size", size(seen.bytes), `${many(seen.files, "file")} of version ${seen.file_version}`),
    tile("Fragments", number(seen.fragments), seen.fragments ? `${number(Math.round((seen.rows + seen.deleted_rows) / seen.fragments))} rows each, on average` : "nothing written yet"),
    tile("Version", number(seen.version), `${time(seen.committed)}, ${number(seen.versions)} kept`),
    tile("Indices", number(seen.indices.length), seen.indices.join(", ") || "none"),
    tile("Row ids", seen.stable_row_ids ? "stable" : "addresses", seen.stable_row_ids ? "they stay when rows move" : "they change when rows move"));
  const advice = seen.advice.map((text) => make("p", { class: "card advice" }, text));
  if (!advice.length) advice.push(make("p", { class: "card fine" }, "No upkeep is due. Whether its files are whole, lancelet verify tells."));
  const rows = seen.schema.map((column) => [column.name, make("code", {}, column.type), column.nullable ? "yes" : "no"]);
  const config = Object.entries(seen.config).map(([key, value]) => [key, value]);
  return [
    tiles, ...advice,
    make("h2", {}, many(seen.schema.length, "column")),
    table([{ name: "name" }, { name: "type" }, { name: "null" }], rows),
    config.length ? make("h2", {}, "Settings") : null,
    config.length ? table([{ name: "key" }, { name: "value" }], config) : null,
  ];
}

// The versions of the table and of its branches: a line each, from left to right; a branch leaves its line where it begins.
function drawLines({ lines, here }) {
  const step = 46, lane = 34, left = 24, sloped = 0.57, longest = 22;
  const short = (text) => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);
  const flags = lines.map((line) => line.versions.map((one) => one.tags.join(", ")));
  // Room for tags above a line; the others are as near to each other as their numbers allow.
  const room = flags.map((texts) => Math.max(0, ...texts.map((text) => Math.min(text.length, longest) * 6.5 * sloped)));
  const place = new Map();
  let right = 0, y = -10;
  lines.forEach((line, row) => {
    y += lane + (room[row] && row ? room[row] + 12 : room[row]);
    const from = line.from === null ? undefined : place.get(`${line.from}:${line.at}`) ?? { x: left, y: lines[0].drawn.start.y };
    const start = { x: from === undefined ? left : from.x + step, y };
    [...line.versions].reverse().forEach((one, at) => place.set(`${line.branch}:${one.version}`, { x: start.x + at * step, y: start.y }));
    line.drawn = { from, start, end: start.x + Math.max(line.versions.length - 1, 0) * step };
    right = Math.max(right, line.drawn.end);
  });
  const width = right + 180, height = y + 34;
  const total = lines.reduce((sum, line) => sum + line.versions.length, 0);
  const drawing = make("svg", { svg: true, width, height, role: "img", "aria-label": `${many(total, "version")} on ${many(lines.length, "line")}` });
  const dots = [];
  lines.forEach((line) => {
    const { from, start, end } = line.drawn;
    if (from !== undefined) drawing.append(make("path", { svg: true, class: "line", d: `M ${from.x} ${from.y} C ${from.x + 20} ${start.y}, ${from.x + 10} ${start.y}, ${start.x} ${start.y}` }));
    drawing.append(make("path", { svg: true, class: "line", d: `M ${start.x} ${start.y} H ${end}` }));
    drawing.append(make("text", { svg: true, class: "name", x: end + 16, y: start.y + 4 }, short(line.branch)));
    for (const one of line.versions) {
      const { x, y } = place.get(`${line.branch}:${one.version}`);
      const shown = one.version === state.shown && line.branch === here;
      const told = one.problem ? `damaged: ${one.problem}` : `${one.operation || "?"}, ${many(one.rows, "row")}, ${time(one.committed)}`;
      dots.push(make("circle", { svg: true, class: `dot${shown ? " here" : ""}${one.problem ? " damaged" : ""}`, cx: x, cy: y, r: shown ? 9 : 7, onclick: () => choose(`${line.branch}:${one.version}`) },
        make("title", { svg: true }, `${line.branch} ${one.version}: ${told}${one.tags.length ? `, tagged ${one.tags.join(", ")}` : ""}`)));
      dots.push(make("text", { svg: true, class: "under", x, y: y + 20, "text-anchor": "middle" }, String(one.version)));
      if (one.tags.length) dots.push(make("text", { svg: true, class: "flag", transform: `translate(${x + 3} ${y - 12}) rotate(-35)` }, `⚑ ${short(one.tags.join(", "))}`));
    }
  });
  drawing.append(...dots);
  return drawing;
}

async function drawHistory() {
  const [past, lines] = await Promise.all([facts("history"), facts("lines")]);
  const rows = past.map((one) => [
    make("button", { title: "Show this version", ...(one.version === state.shown ? { "aria-current": "true" } : {}), onclick: () => choose(`${lines.here}:${one.version}`) }, String(one.version)),
    time(one.committed), one.operation || "–", number(one.rows), number(one.fragments), size(one.bytes),
    make("span", {}, one.tags.map((tag) => make("span", { class: "tag" }, tag)), one.branches.map((name) => make("span", { class: "branch" }, name))),
    one.problem ? make("span", { class: "error" }, one.problem) : one.message || "",
  ]);
  const heads = ["version", "committed", "operation", "rows", "fragments", "size", "names"];
  // Most tables have no messages: then there is no column for them.
  const told = past.some((one) => one.problem || one.message);
  if (told) heads.push("message");
  const wide = make("div", { class: "wide lines", tabindex: 0, role: "region", "aria-label": "Versions as lines", "data-end": "" }, drawLines(lines));
  return [
    wide, lines.branches >= lines.lines.length ? make("p", { class: "soft" }, `The first ${number(lines.lines.length - 1)} of ${number(lines.branches)} branches.`) : null,
    make("h2", {}, lines.here === "main" ? "Versions" : `Versions of ${lines.here}`),
    table(heads.map((name) => ({ name, number: ["rows", "fragments", "size"].includes(name), plain: name === "committed" })), rows.map((row) => row.slice(0, heads.length))),
  ];
}

// What the colour of a fragment's rows tells, from 0 to 1, and both ends in words.
const shades = {
  rows: { title: "rows and deletions", share: () => 0, ends: () => null },
  age: { title: "age", share: (one, seen) => one.written === null ? 0 : (seen.newest - Date.parse(one.written)) / (seen.newest - seen.oldest || 1), ends: (seen) => seen.newest < seen.oldest ? null : [time(new Date(seen.newest).toISOString()), time(new Date(seen.oldest).toISOString())] },
  files: { title: "number of files", share: (one, seen) => (one.files - 1) / (seen.files - 1 || 1), ends: (seen) => ["1 file", many(seen.files, "file")] },
};
const swatch = (kind, text) => make("span", { class: "swatch" }, make("i", { class: kind }), text);

async function drawFragments() {
  const { fragments, all, offset } = await facts("fragments", { offset: state.fragments });
  const total = (one) => one.rows + one.deleted_rows;
  const seen = { rows: 1, files: 1, newest: -Infinity, oldest: Infinity };
  for (const one of fragments) {
    seen.rows = Math.max(seen.rows, total(one));
    seen.files = Math.max(seen.files, one.files);
    if (one.written === null) continue;
    seen.newest = Math.max(seen.newest, Date.parse(one.written));
    seen.oldest = Math.min(seen.oldest, Date.parse(one.written));
  }
  if (!all) return [make("p", { class: "soft" }, "No fragments: nothing was written yet.")];
  const detail = make("div", { class: "card", id: "fragment", "aria-live": "polite" }, `${many(all, "fragment")}, the largest of ${many(seen.rows, "row")}. Choose one to see its files.`);
  const legend = make("span", { class: "legend" });
  const cells = fragments.map((one, at) => {
    const written = one.written === null ? "" : `, written ${time(one.written)}`;
    const label = `fragment ${one.id}: ${many(one.rows, "row")}, ${number(one.deleted_rows)} deleted, ${many(one.files, "file")}, ${size(one.bytes)}${written}`;
    return make("button", { title: label, "aria-label": label, "aria-pressed": "false", tabindex: at ? -1 : 0, onclick: () => choose(at).catch(fail) });
  });
  function paint() {
    const shade = shades[state.shade], ends = shade.ends(seen);
    legend.replaceChildren(...(ends === null ? [swatch("live", "rows")] : [swatch("live", ends[0]), swatch("far", ends[1])]), swatch("gone", "deleted rows"));
    fragments.forEach((one, at) => {
      const live = one.rows / seen.rows * 100, both = Math.max(total(one) / seen.rows * 100, 8);
      const colour = `color-mix(in oklab, var(--far) ${Math.round(shade.share(one, seen) * 100)}%, var(--sea))`;
      cells[at].style.background = `linear-gradient(to top, ${colour} ${live}%, var(--rust) ${live}% ${both}%, var(--panel) ${both}%)`;
    });
  }
  // One stop for the tab key, whatever their number; arrows go from one to the next.
  let chosen = 0;
  function stand(at) {
    cells[chosen].tabIndex = -1;
    chosen = at;
    cells[at].tabIndex = 0;
  }
  async function choose(at) {
    cells[chosen].setAttribute("aria-pressed", "false");
    stand(at);
    cells[at].setAttribute("aria-pressed", "true");
    const files = await facts("fragment", { position: offset + at });
    if (chosen !== at) return;
    const elsewhere = files.some((file) => file.base !== null);
    detail.replaceChildren(make("strong", {}, cells[at].title),
      table([{ name: "file" }, { name: "version" }, { name: "size", number: true }, { name: "columns", wide: true }, ...(elsewhere ? [{ name: "elsewhere" }] : [])],
        files.map((file) => [file.path, file.version, size(file.bytes), file.columns.join(", "), ...(elsewhere ? [file.base ?? ""] : [])])));
  }
  const map = make("div", { class: "map", role: "group", "aria-label": "Fragments; arrows move, Enter chooses", onkeydown: (event) => {
    const across = Math.max(cells.findIndex((cell) => cell.offsetTop > cells[0].offsetTop), 0) || cells.length;
    const to = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, ArrowDown: chosen + across, ArrowUp: chosen - across, Home: 0, End: cells.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (to < 0 || to >= cells.length) return;
    stand(to);
    cells[to].focus();
  } }, cells);
  const choice = make("select", { id: "shade", onchange: (event) => { state.shade = event.target.value; paint(); } },
    Object.entries(shades).map(([name, shade]) => make("option", { value: name, ...(name === state.shade ? { selected: "" } : {}) }, shade.title)));
  paint();
  return [
    make("p", { class: "soft controls" }, make("label", {}, "Colour by ", choice), legend), map,
    fragments.length < all ? pager("fragments", offset, fragments.length, all, FRAGMENTS) : null, detail,
  ];
}

const FRAGMENTS = 5000, ROWS = 20, LONG = 24, LONGEST = 160;

function pager(key, offset, shown, all, step) {
  const move = (by) => () => { state[key] = Math.max(state[key] + by, 0); draw(); };
  const last = offset + shown;
  return make("p", { class: "pager" },
    make("button", { id: "back", onclick: move(-step), ...(offset ? {} : { disabled: "" }) }, "Back"),
    ` ${number(shown ? offset + 1 : 0)} to ${number(last)} of ${number(all)} `,
    make("button", { id: "on", onclick: move(step), ...(last < all ? {} : { disabled: "" }) }, "Next"));
}

// What was read of how many files, and a way to read on.
function readOn(found, again) {
  if (found.read >= found.files) return null;
  return make("p", { class: "soft" }, `From ${number(found.read)} of ${number(found.files)} files. `,
    make("button", { id: "read-on", onclick: () => again().catch(fail) }, "Read on"));
}

const damages = (found) => found.problems.map((text) => make("p", { class: "card advice" }, text));

function merge(columns, more) {
  for (const one of more) {
    const known = columns.get(one.name);
    if (known === undefined) { columns.set(one.name, { ...one, encodings: new Map(one.encodings.map((name, at) => [name, one.counts[at]])) }); continue; }
    known.bytes += one.bytes;
    known.pages += one.pages;
    one.encodings.forEach((name, at) => known.encodings.set(name, (known.encodings.get(name) ?? 0) + one.counts[at]));
  }
}

async function drawColumns() {
  const columns = new Map(), broken = [];
  const place = make("div"), pages = make("div");
  async function open(name) {
    let found = await facts("pages", { column: name });
    const rows = [];
    const head = make("h2", { tabindex: -1 }, `Pages of ${name}`), body = make("div");
    function show() {
      rows.push(...found.pages.map((one) => [number(one.fragment), number(one.page), size(one.bytes), one.encoding,
        make("details", {}, make("summary", {}, "as stored"), make("pre", {}, one.description))]));
      const heads = [{ name: "fragment", number: true }, { name: "page", number: true }, { name: "size", number: true }, { name: "encoding" }, { name: "" }];
      body.replaceChildren(...[...damages(found), table(heads, rows), readOn(found, async () => {
        found = await facts("pages", { column: name, offset: found.read });
        show();
      })].filter((node) => node !== null));
    }
    show();
    pages.replaceChildren(head, body);
    head.focus();
  }
  function show(found) {
    const all = [...columns.values()].sort((one, other) => other.bytes - one.bytes);
    const total = all.reduce((sum, one) => sum + one.bytes, 0) || 1;
    const rows = all.map((one) => [
      make("button", { onclick: () => open(one.name).catch(fail) }, one.name), one.type, size(one.bytes),
      bar(one.bytes / total, `${(one.bytes / total * 100).toFixed(1)} percent of all bytes`), number(one.pages),
      [...one.encodings].sort((first, second) => second[1] - first[1]).map(([name]) => name).join("; "),
    ]);
    const heads = [{ name: "column" }, { name: "type" }, { name: "size", number: true }, { name: "share" }, { name: "pages", number: true }, { name: "encodings", wide: true }];
    const more = readOn(found, () => read(found.read));
    broken.push(...damages(found));
    const none = rows.length || broken.length ? null : make("p", { class: "soft" }, "Nothing is stored yet.");
    place.replaceChildren(...[...broken, more, none, rows.length ? table(heads, rows) : null].filter((node) => node !== null));
  }
  async function read(offset) {
    const found = await facts("columns", { offset });
    merge(columns, found.columns);
    show(found);
    if (offset) document.getElementById("read-on")?.focus();
  }
  await read(0);
  return [place, pages];
}

function strip(one) {
  const steps = one.strip.map((share) => make("i", { style: `background:color-mix(in srgb, var(--sea) ${Math.round(share * 100)}%, transparent)` }));
  return make("div", { class: "strip", role: "img", "aria-label": `${number(one.rows_indexed)} of ${number(one.rows)} rows` }, steps);
}

async function drawIndices() {
  const indices = await facts("indices");
  if (!indices.length) return [make("p", { class: "soft" }, "No indices.")];
  const rows = indices.map((one) => [
    one.name, one.type, one.columns.join(", "), strip(one), `${number(one.rows_indexed)} of ${number(one.rows)}`, number(one.segments), size(one.bytes),
    make("details", {}, make("summary", {}, "details"), make("pre", {}, JSON.stringify(one.details, null, 2))),
  ]);
  return [make("p", { class: "soft" }, "Coverage goes from the first fragment to the last; rows that an index does not know are read instead."), table([{ name: "index" }, { name: "kind" }, { name: "columns" }, { name: "coverage" }, { name: "rows", number: true }, { name: "segments", number: true }, { name: "size", number: true }, { name: "" }], rows)];
}

function spark(values, length) {
  const numbers = values.map((value) => value ?? 0);
  const low = Math.min(...numbers), high = Math.max(...numbers), span = high - low || 1;
  const points = numbers.map((value, at) => `${at ? "L" : "M"} ${(at / Math.max(numbers.length - 1, 1) * 116 + 2).toFixed(1)} ${(30 - (value - low) / span * 28).toFixed(1)}`);
  return make("span", {}, make("svg", { svg: true, width: 120, height: 32, role: "img", "aria-label": `${length} numbers from ${low} to ${high}` },
    make("path", { svg: true, class: "spark", d: points.join(" ") })), make("span", { class: "soft" }, ` ${length}`));
}

// A long text opens where it stands; one row of many words would fill the page.
function folded(text) {
  if (text.length <= LONGEST) return text;
  return make("details", {}, make("summary", {}, `${text.slice(0, LONGEST - 1)}…`), make("div", { class: "whole" }, text));
}

function cell(value) {
  if (value === null) return make("span", { class: "soft" }, "null");
  if (typeof value === "string") return folded(value);
  if (typeof value !== "object") return String(value);
  if (value.picture) return make("img", { class: "cell", src: value.picture, alt: `a picture of ${size(value.bytes)}` });
  if (value.vector) return spark(value.vector, value.length);
  if (value.text !== undefined) return folded(value.length > value.text.length ? `${value.text}…` : value.text);
  return make("span", { class: "soft" }, size(value.bytes));
}

async function drawRows() {
  const form = make("form", { role: "search", onsubmit: (event) => {
    event.preventDefault();
    state.where = event.target.elements.where.value;
    state.offset = 0;
    draw();
  } }, make("input", { name: "where", id: "where", value: state.where, placeholder: "a condition in SQL, for example likes > 100", "aria-label": "Condition" }), make("button", { id: "filter" }, "Filter"));
  let found;
  try {
    found = await facts("rows", { offset: state.offset, limit: ROWS, where: state.where });
  } catch (error) {
    return [form, make("p", { class: "error", role: "alert" }, error.message)];
  }
  const heads = found.columns.map((column, at) => ({
    name: make("span", {}, column.name, make("br"), make("span", { class: "soft type", title: column.type }, column.type)),
    wide: found.rows.some((row) => (row[at]?.text ?? row[at])?.length > LONG),
    number: found.rows.length > 0 && found.rows.every((row) => row[at] === null || typeof row[at] === "number"),
  }));
  return [form, ...damages(found), table(heads, found.rows.map((row) => row.map(cell))), pager("offset", state.offset, found.rows.length, found.count, ROWS)];
}

async function drawUpkeep(top) {
  const [found, seen] = await Promise.all([facts("upkeep"), top]);
  const command = (words) => make("p", { class: "soft" }, "Nothing is done from here. In a terminal: ", make("code", {}, `lancelet ${words} ${seen.uri}`));
  return [
    make("h2", {}, "What a compaction would do"), make("pre", {}, found.compaction_text), found.compaction.length ? command("compact") : null,
    make("h2", {}, "What a cleanup would do"), make("pre", {}, found.cleanup_text), command("cleanup"),
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
    const top = head();
    const [nodes] = await Promise.all([views[state.view].draw(top), top]);
    if (asked !== state.asked) return;
    // Whoever works without a mouse stays where they are: on the same button, or in the view that had it.
    const held = main.contains(document.activeElement) ? document.activeElement.id : null;
    main.replaceChildren(...nodes.filter((node) => node !== null));
    // The newest versions are what people look for.
    for (const node of main.querySelectorAll("[data-end]")) node.scrollLeft = node.scrollWidth;
    if (held !== null) {
      const same = held && document.getElementById(held);
      (same && !same.disabled && same !== main ? same : main).focus();
    }
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
    `version ${seen.version}${seen.branch ? ` of ${seen.branch}` : ""}, ${many(seen.rows, "row")}, ${many(seen.columns, "column")}, ${many(seen.fragments, "fragment")}, ${size(seen.bytes)}`;
  return seen;
}

// Show another version, whoever asks for it.
function choose(version) {
  state.version = version || null;
  state.offset = state.fragments = 0;
  document.getElementById("version").value = version;
  return draw();
}

async function start() {
  const tabs = document.getElementById("tabs");
  const show = (view) => { state.view = view; location.hash = view; return draw(); };
  addEventListener("hashchange", () => {
    const asked = location.hash.slice(1);
    if (asked in views && asked !== state.view) show(asked);
  });
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  for (const [name, view] of Object.entries(views)) {
    const tab = make("button", { role: "tab", "aria-controls": "main", onclick: () => show(name) }, view.title);
    tab.dataset.view = name;
    tabs.append(tab);
  }
  tabs.addEventListener("keydown", (event) => {
    const names = Object.keys(views), at = names.indexOf(state.view);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(names[(to + names.length) % names.length]);
    tabs.querySelector("[aria-selected=true]").focus();
  });
  if (location.hash.slice(1) in views) state.view = location.hash.slice(1);
  const choice = document.getElementById("version");
  const seen = await head();
  choice.append(make("option", { value: "" }, seen.follows ? "newest" : `as opened (${seen.version})`));
  for (const line of (await facts("lines")).lines) {
    choice.append(make("optgroup", { label: line.branch },
      line.versions.map((one) => make("option", { value: `${line.branch}:${one.version}` }, `${one.version} – ${one.tags.length ? one.tags.join(", ") : one.operation || "?"}`))));
  }
  choice.addEventListener("change", () => choose(choice.value));
  await draw();
}

start().catch(fail);
