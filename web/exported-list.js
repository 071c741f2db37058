"use strict";
// List of certificates of exported pages: filters, counts and search over an index in scripts, without a server.
(() => {
  const index = document.getElementById("index"), list = document.getElementById("rows");
  if (!index || !list) return;
  const ROWS = 25, VALUES = 12, LONGEST = 200;
  const scripts = index.dataset.scripts.split(" "), total = Number(index.dataset.certificates);
  const NAMES = ["status", "kind", "agent", "rule", "file", "component", "commit", "signer", "since", "until", "q"];
  const HEADINGS = { status: "Status", kind: "Question type", agent: "Agent", rule: "Rule", file: "File", signer: "Signed by" };
  const query = new URLSearchParams(location.search), chosen = {};
  for (const name of NAMES) if ((query.get(name) || "").trim()) chosen[name] = query.get(name).trim().slice(0, 500);
  const start = Math.max(0, Math.trunc(Number(query.get("from"))) || 0);
  const words = (chosen.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const certificates = [], model = list.querySelector("li").cloneNode(true);
  let loaded = 0;

  const link = (changes) => {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...chosen, ...changes })) if (value) parameters.set(name, value);
    const text = parameters.toString();
    return text ? `index.html?${text}` : "index.html";
  };
  const element = (tag, text, settings = {}) => Object.assign(document.createElement(tag), { textContent: text }, settings);
  const kindName = kind => kind === "go" ? "go/no-go" : kind;
  const when = at => `${at.slice(0, 10)} ${at.slice(11, 16)} UTC`;
  const number = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  // One argument for each script, as `search_records.py` writes it.
  window.esperCertificates = ({ texts, rows }) => {
    for (const [id, at, status, agent, component, request, commit, signer, owner, trusted, origin, standing, change, rules, files, said, kind] of rows) {
      certificates.push({
        id, at, status: texts[status], agent: texts[agent], component: texts[component], request: texts[request],
        commit: texts[commit], signer: texts[signer], owner: texts[owner], isTrusted: trusted === 1,
        origin: texts[origin], standing: texts[standing], change: texts[change],
        rules: rules.map(rule => texts[rule]), files: files.map(file => texts[file]), said: said.map(text => texts[text]), kind: texts[kind],
      });
    }
  };

  const contains = certificate => {
    const { id, status, agent, component, request, rules, files, said } = certificate;
    const text = [id, status, agent, component, request, ...rules, ...files, ...said].join("\n").toLowerCase();
    return words.every(word => text.includes(word));
  };
  const same = (one, other) => one.toLowerCase() === other.toLowerCase();
  const tests = {
    status: (each, wanted) => same(each.status, wanted),
    kind: (each, wanted) => same(each.kind, wanted),
    agent: (each, wanted) => each.agent === wanted,
    rule: (each, wanted) => each.rules.some(rule => same(rule, wanted)),
    file: (each, wanted) => each.files.includes(wanted),
    component: (each, wanted) => each.component === wanted,
    commit: (each, wanted) => each.commit.startsWith(wanted.toLowerCase()),
    signer: (each, wanted) => each.signer === wanted,
    since: (each, wanted) => each.at >= wanted,
    until: (each, wanted) => each.at.slice(0, wanted.length) <= wanted,
    q: contains,
  };
  const matches = certificate => Object.entries(chosen).every(([name, wanted]) => tests[name](certificate, wanted));

  const chip = certificate => {
    const name = certificate.isTrusted ? certificate.status : "";
    return [...index.querySelectorAll("template")].find(each => each.dataset.status === name)?.content.cloneNode(true);
  };
  const passage = certificate => {
    if (!words.length) return "";
    const found = [certificate.request, ...certificate.said, ...certificate.files].find(text => text.toLowerCase().includes(words[0]));
    if (!found || found === certificate.request) return "";
    const at = Math.max(0, found.toLowerCase().indexOf(words[0]) - LONGEST / 2);
    return `${at ? "…" : ""}${found.slice(at, at + LONGEST)}${found.length > at + LONGEST ? "…" : ""}`;
  };
  const row = certificate => {
    const item = model.cloneNode(true), status = item.querySelector(".row-status"), body = item.querySelector(".row-body");
    status.replaceChildren(...[chip(certificate)].filter(Boolean));
    if (!certificate.isTrusted) status.append(" ", element("span", `claims ${certificate.status}`, { className: "claimed" }));
    const title = item.querySelector(".row-link");
    title.href = `certificates/${encodeURIComponent(certificate.id)}.html`;
    title.textContent = certificate.request || certificate.component;
    item.querySelector(".row-text").textContent = `on ${certificate.component}${certificate.change ? `, ${certificate.change}` : ""}`;
    for (const old of body.querySelectorAll(".row-passage, .row-override")) old.remove();
    if (passage(certificate)) body.append(element("p", passage(certificate), { className: "row-passage" }));
    if (certificate.standing) body.append(element("p", certificate.standing, { className: "row-override" }));
    const meta = [element("span", when(certificate.at)), element("span", kindName(certificate.kind), { className: "kind" }), element("span", certificate.agent)];
    if (certificate.origin === "published") {
      const by = certificate.isTrusted ? certificate.owner : "an unknown key";
      meta.push(element("span", `published, signed by ${by}`, { className: "origin-mark" }));
    }
    meta.push(element("span", certificate.id.split("_").pop().slice(-12), { className: "id" }));
    item.querySelector(".row-meta").replaceChildren(...meta);
    return item;
  };

  const LABELS = { q: "words", kind: "question type" };
  const shown = (name, value, owners) => name === "kind" ? kindName(value) : name === "signer" ? owners.get(value) || value : value;
  const counted = (found, values) => {
    const counts = new Map();
    for (const certificate of found) for (const value of new Set(values(certificate))) counts.set(value, (counts.get(value) || 0) + 1);
    counts.delete("");
    return [...counts].sort(([one, many], [other, more]) => more - many || (one < other ? -1 : 1)).slice(0, VALUES);
  };
  const groups = found => {
    const trusted = found.filter(each => each.isTrusted), owners = new Map(certificates.map(each => [each.signer, each.owner]));
    const of = {
      status: counted(trusted, each => [each.status]), kind: counted(trusted, each => [each.kind]), agent: counted(trusted, each => [each.agent]),
      rule: counted(trusted, each => each.rules), file: counted(trusted, each => each.files),
      signer: counted(trusted, each => [each.signer]),
    };
    return Object.entries(of).filter(([, values]) => values.length).map(([name, values]) => {
      const section = document.createElement("section"), items = document.createElement("ul");
      section.setAttribute("aria-label", HEADINGS[name]);
      for (const [value, count] of values) {
        const anchor = document.createElement("a");
        anchor.href = link({ [name]: chosen[name] === value ? "" : value });
        if (chosen[name] === value) anchor.setAttribute("aria-current", "true");
        anchor.append(element("span", shown(name, value, owners), { className: "value" }), " ", element("span", count, { className: "count" }));
        items.append(element("li", ""));
        items.lastChild.append(anchor);
      }
      section.append(element("h2", HEADINGS[name]), items);
      return section;
    });
  };
  const removable = () => {
    const owners = new Map(certificates.map(each => [each.signer, each.owner]));
    const items = Object.entries(chosen).map(([name, value]) => {
      const item = document.createElement("li"), anchor = document.createElement("a");
      anchor.href = link({ [name]: "" });
      anchor.append(`${LABELS[name] || name}: ${shown(name, value, owners)} `, element("span", "×", { ariaHidden: "true" }), element("span", " (remove)", { className: "unseen" }));
      item.append(anchor);
      return item;
    });
    if (items.length) {
      const item = document.createElement("li");
      item.append(element("a", "Clear all", { className: "clear", href: "index.html" }));
      items.push(item);
    }
    return items;
  };

  const show = () => {
    const found = certificates.filter(matches), untrusted = found.filter(each => !each.isTrusted).length;
    const isComplete = loaded === scripts.length, counted = found.length - untrusted;
    const over = isComplete ? "" : `, of the newest ${certificates.length.toLocaleString("en")} of ${total.toLocaleString("en")}`;
    const trusted = untrusted ? " signed by trusted keys" : "";
    document.getElementById("count").textContent =
      `${number(counted, "certificate")}${trusted}${over}${untrusted ? `; ${untrusted.toLocaleString("en")} not trusted, not counted` : ""}`;
    list.replaceChildren(...found.slice(start, start + ROWS).map(row));
    list.hidden = found.length <= start;
    document.getElementById("no-match").hidden = !list.hidden || !isComplete;
    document.getElementById("groups").replaceChildren(...groups(found));
    const selected = document.getElementById("chosen"), items = removable();
    selected.replaceChildren(...items);
    selected.hidden = !items.length;
    const pager = [];
    if (start) pager.push(element("a", "Newest", { href: link({}) }));
    if (found.length > start + ROWS || !isComplete) pager.push(element("a", "Older", { href: link({ from: start + ROWS }), rel: "next" }));
    document.getElementById("pager").replaceChildren(...pager);
  };
  const dates = document.querySelector("form.dates");
  const fill = () => {
    for (const name of NAMES) {
      const field = name === "q" ? document.querySelector(".search input") : dates.elements.namedItem(name);
      if (field) field.value = chosen[name] || "";
      else if (chosen[name]) dates.append(Object.assign(document.createElement("input"), { type: "hidden", name, value: chosen[name] }));
    }
  };

  const load = () => {
    if (loaded === scripts.length) return;
    const script = document.createElement("script");
    script.src = scripts[loaded];
    script.onload = () => {
      loaded += 1;
      show();
      // Older certificates are read only if they can be among the rows.
      const isFiltered = Object.keys(chosen).length > 0;
      if (isFiltered || certificates.length < start + ROWS) load();
    };
    script.onerror = () => { document.getElementById("count").textContent = `${scripts[loaded]} cannot be read`; };
    document.head.append(script);
  };
  fill();
  load();
})();
