"use strict";
// Filters, sorts and groups the rows, keeps all three in the address, and fades in the charts what is filtered out.
// Without it the page is whole: the rows stand in the groups in which they are comparable.
(() => {
  const known = JSON.parse(document.getElementById("data").textContent);
  const controls = document.getElementById("controls");
  const filter = document.getElementById("filter");
  const group = document.getElementById("group");
  const sort = document.getElementById("sort");
  const count = document.getElementById("count");
  const tables = [...document.querySelectorAll("table.rows")];
  const rows = tables.flatMap((table) => [...table.querySelectorAll("tbody tr[id]")].map((row) => describe(row, table)));
  const AS_MEASURED = "", SET = "*"; // neither is a key

  function describe(row, table) {
    const keys = Object.assign(Object.create(null), known.shared, known.rows[row.id]); // has no "constructor" of its own
    return { row, table, place: 0, keys, text: row.textContent.toLowerCase() };
  }

  // ---- terms of the filter: word, key=value (with *), key!=value, key<number and the like
  function parse(text) {
    const words = text.match(/(?:[^\s"]|"[^"]*")+/g) || [];
    return words.map((word) => {
      const bare = word.replaceAll('"', "");
      const split = /^([^=<>!]+)(!=|<=|>=|=|<|>)(.*)$/s.exec(bare);
      const isTerm = split && (/^[\w.@-]+$/.test(split[1]) || rows.some((entry) => named(entry.keys, split[1]).length));
      return isTerm ? { key: split[1], how: split[2], value: split[3] } : { word: bare.toLowerCase() };
    });
  }

  function named(keys, key) {
    return key in keys ? [key] : Object.keys(keys).filter((name) => name.endsWith("." + key));
  }

  function fits(value, term) {
    if (term.how === "=" || term.how === "!=") {
      const literal = term.value.toLowerCase().split("*").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
      return new RegExp(`^${literal.join(".*")}$`, "s").test(value.toLowerCase());
    }
    const number = Number(value), limit = Number(term.value);
    if (value === "" || term.value === "" || Number.isNaN(number) || Number.isNaN(limit)) return false;
    return { "<": number < limit, ">": number > limit, "<=": number <= limit, ">=": number >= limit }[term.how];
  }

  function passes(entry, terms) {
    return terms.every((term) => {
      if (term.word !== undefined) return entry.text.includes(term.word);
      const found = named(entry.keys, term.key).some((name) => fits(entry.keys[name], term));
      return found !== (term.how === "!="); // all that = does not find, those without the key among them
    });
  }

  // ---- order
  function column(table, heading) {
    return [...table.tHead.rows[0].cells].findIndex((cell) => cell.dataset.heading === heading);
  }

  function measure(entry, by) {
    if (by.startsWith("key:")) {
      const value = entry.keys[by.slice(4)];
      return value === undefined ? null : value !== "" && !Number.isNaN(Number(value)) ? Number(value) : value;
    }
    const index = column(entry.table, by);
    if (index < 0) return null;
    const cell = entry.row.cells[index];
    if (cell.dataset.number !== undefined) return Number(cell.dataset.number);
    return cell.classList.contains("absent") ? null : cell.dataset.text ?? cell.textContent.trim();
  }

  function compare(a, b, downwards) {
    if (a === null || b === null) return (a === null) - (b === null); // what was not measured comes last either way
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
    return downwards ? -order : order;
  }

  function state() {
    return { filter: filter.value.trim(), group: group.value, sort: sort.value };
  }

  // ---- drawing
  function headRow(table, text, href) {
    const row = document.createElement("tr"), cell = document.createElement("th");
    row.className = "group";
    cell.colSpan = table.tHead.rows[0].cells.length;
    cell.scope = "rowgroup";
    if (href) {
      const link = document.createElement("a");
      link.href = href;
      link.textContent = text;
      cell.append(link);
    } else cell.textContent = text;
    row.append(cell);
    return row;
  }

  function draw() {
    const now = state(), terms = parse(now.filter);
    const by = now.sort.replace(/^-/, ""), downwards = now.sort.startsWith("-");
    const unknown = terms.filter((term) => term.key && !rows.some((entry) => named(entry.keys, term.key).length));
    const visible = new Set(rows.filter((entry) => passes(entry, terms)));
    for (const table of tables) {
      const own = rows.filter((entry) => entry.table === table).sort((a, b) => a.place - b.place);
      if (by) own.sort((a, b) => compare(measure(a, by), measure(b, by), downwards) || a.place - b.place);
      const several = new Set(own.map((entry) => entry.row.dataset.part)).size > 1;
      const groups = new Map();
      for (const entry of own) {
        const part = entry.row.dataset.part;
        let name = "";
        if (now.group === SET) name = part;
        else if (now.group !== AS_MEASURED) name = entry.keys[now.group] ?? "(unset)";
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(entry);
      }
      const names = [...groups.keys()];
      if (now.group !== SET && now.group !== AS_MEASURED) names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      for (const body of [...table.tBodies]) body.remove();
      let mixed = false;
      for (const name of names) {
        const body = document.createElement("tbody"), entries = groups.get(name);
        if (now.group === SET && several) body.append(headRow(table, known.parts[name] || name, "#" + name));
        else if (now.group !== SET && now.group !== AS_MEASURED) body.append(headRow(table, `${now.group}=${name}`));
        for (const entry of entries) {
          entry.row.hidden = !visible.has(entry);
          body.append(entry.row);
        }
        const shown = entries.filter((entry) => visible.has(entry));
        body.hidden = shown.length === 0;
        mixed = mixed || new Set(shown.map((entry) => entry.row.dataset.part)).size > 1;
        table.append(body);
      }
      const banner = table.closest(".results").querySelector(".comparability");
      if (banner) banner.classList.toggle("loud", mixed);
      for (const cell of table.tHead.rows[0].cells) {
        if (cell.dataset.heading === by) cell.setAttribute("aria-sort", downwards ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      }
    }
    drawCharts(visible);
    count.classList.toggle("wrong", unknown.length > 0);
    count.textContent = unknown.length
      ? `there is no key ${unknown.map((term) => term.key).join(", ")}`
      : `${visible.size} of ${rows.length} rows`;
  }

  function drawCharts(visible) {
    const parts = new Set(), seen = new Map(), everywhere = new Set();
    for (const { row, keys } of visible) {
      parts.add(row.dataset.part);
      if (!seen.has(row.dataset.part)) seen.set(row.dataset.part, new Set());
      seen.get(row.dataset.part).add(row.dataset.label);
      everywhere.add(row.dataset.client).add(keys.client);
    }
    for (const block of document.querySelectorAll("section.part, .verdicts .verdict")) {
      block.hidden = !parts.has(block.dataset.part);
      if (block.matches("section") && !block.hidden) fade(block, seen.get(block.dataset.part));
    }
    for (const block of document.querySelectorAll(".axes")) fade(block, everywhere);
  }

  function fade(block, kept) {
    for (const mark of block.querySelectorAll("svg [aria-label]")) {
      if (isMark(mark)) mark.classList.toggle("dimmed", !kept.has(mark.getAttribute("aria-label").split(known.separator)[0]));
    }
  }

  function isMark(element) {
    return element.getAttribute("role") === "graphics-symbol" && element.getAttribute("aria-label").includes(known.separator);
  }

  // ---- the address
  function remember() {
    const now = state(), wanted = new URLSearchParams();
    if (now.filter) wanted.set("filter", now.filter);
    if (now.group !== group.dataset.usual) wanted.set("group", now.group);
    if (now.sort) wanted.set("sort", now.sort);
    const hash = "#" + wanted;
    if (hash !== (location.hash || "#")) history.replaceState(null, "", hash === "#" ? location.pathname + location.search : hash);
  }

  function choose(select, value, otherwise) {
    select.value = value;
    if (select.selectedIndex < 0) select.value = otherwise;
  }

  function recall() {
    const hash = location.hash.slice(1);
    if (hash && !hash.includes("=")) {
      reveal(hash);
      return; // the address of a part or a row
    }
    const wanted = new URLSearchParams(hash);
    filter.value = wanted.get("filter") || "";
    choose(group, wanted.get("group") ?? group.dataset.usual, group.dataset.usual);
    choose(sort, wanted.get("sort") || "", "");
    draw();
  }

  function reveal(id) {
    draw();
    for (const { row } of rows) row.classList.toggle("chosen", row.id === id);
    const target = document.getElementById(id);
    if (!target) return;
    if (!target.offsetParent) {
      filter.value = ""; // it was filtered out
      draw();
    }
    target.scrollIntoView();
  }

  function changed() {
    draw();
    remember();
  }

  // ---- setting up
  function option(select, value, text) {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = text;
    select.append(made);
  }

  rows.forEach((entry, place) => { entry.place = place; });
  const several = Object.keys(known.parts).length > tables.length;
  const keys = [...new Set(rows.flatMap((entry) => Object.keys(entry.keys)))].sort();
  const swept = keys.filter((key) => new Set(rows.map((entry) => entry.keys[key])).size > 1);
  option(group, AS_MEASURED, "nothing");
  if (several) option(group, SET, "parameter set");
  for (const key of swept) option(group, key, key);
  for (const key of keys) if (!swept.includes(key)) option(group, key, `${key} (one value)`);
  group.dataset.usual = several ? SET : AS_MEASURED;
  group.value = group.dataset.usual;
  option(sort, "", "rank");
  const headings = [...new Set(tables.flatMap((table) => [...table.tHead.rows[0].cells].map((cell) => cell.dataset.heading)))];
  for (const heading of headings) {
    option(sort, "-" + heading, `${heading} ↓`);
    option(sort, heading, `${heading} ↑`);
  }
  for (const key of keys) {
    option(sort, "key:" + key, `${key} ↑`);
    option(sort, "-key:" + key, `${key} ↓`);
  }
  for (const table of tables) {
    for (const cell of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.dataset.heading;
      button.addEventListener("click", () => {
        const heading = cell.dataset.heading, first = cell.classList.contains("number") ? "-" : "";
        const other = first ? "" : "-";
        sort.value = sort.value === first + heading ? other + heading : first + heading;
        changed();
      });
      cell.replaceChildren(button);
    }
  }
  filter.addEventListener("input", changed);
  group.addEventListener("change", changed);
  sort.addEventListener("change", changed);
  controls.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("reset").addEventListener("click", () => {
    filter.value = "";
    group.value = group.dataset.usual;
    sort.value = "";
    changed();
  });
  window.addEventListener("hashchange", recall);
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll(".provenance details")) details.open = true;
  });

  controls.hidden = false;
  recall();
})();
