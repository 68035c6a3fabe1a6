"use strict";
// Zoom, filter, sort and tips. Without this all is there as well, only that nothing moves.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, parts = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), parts);
    node.append(...children);
    return node;
  };
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

  // -- Tips: what a title says, at once and beside the pointer ------------------------------------
  const tip = make("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  const told = new WeakMap(); // Titles are taken out of the page, or the browser shows them, too.
  const lineOf = (link) => document.getElementById(link.getAttribute("href").slice(1));
  const textOf = (node) => {
    const title = [...node.children].find((child) => child.tagName === "title");
    if (title) {
      const line = node.matches(".mark") && lineOf(node);
      const story = line ? "\n" + line.querySelector(".story").textContent : "";
      told.set(node, title.textContent + story);
      node.setAttribute("aria-label", title.textContent);
      title.remove();
    }
    return told.get(node);
  };
  const showTip = (node, x, y) => {
    const text = node && textOf(node);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = clamp(x + 14, 4, innerWidth - width - 4) + "px";
    tip.style.top = (y + 18 + height > innerHeight ? Math.max(y - height - 10, 4) : y + 18) + "px";
  };
  const TOLD = ".bar, .gap, .overlap, .possible, .mark, .spark, .following";
  document.addEventListener("pointermove", (event) => {
    showTip(event.target.closest?.(TOLD), event.clientX, event.clientY);
  });
  document.addEventListener("focusin", (event) => {
    const mark = event.target.closest(".mark");
    const box = mark?.getBoundingClientRect();
    if (mark) showTip(mark, box.right, box.bottom);
  });
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);

  // -- Links into lists that are closed ----------------------------------------------------------
  const open = () => {
    const line = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    const list = line && line.closest("details");
    if (!list) return;
    list.open = true;
    line.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", open);

  // -- One group's charts ------------------------------------------------------------------------
  const STEPS = [1, 2, 5, 10, 15, 30].flatMap((n) => [n, n * 60])
    .concat([1, 2, 3, 6, 12, 24, 48, 168, 336, 672].map((n) => n * 3600))
    .concat([0.001, 0.005, 0.01, 0.05, 0.1, 0.5]).sort((a, b) => a - b).map((s) => s * 1000);
  const clock = (ms, step) => {
    const text = new Date(ms).toISOString();
    if (step >= 86400000 || ms % 86400000 === 0) {
      return new Date(ms).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
    }
    return text.slice(11, step < 1000 ? 23 : step < 60000 ? 19 : 16);
  };

  const start = (charts) => {
    const first = Number(charts.dataset.from);
    const length = Math.max(Number(charts.dataset.to) - first, 1);
    const plots = all(".plot", charts).filter((plot) => !plot.closest(".axis"));
    const axis = charts.querySelector(".axis .plot");
    const boxOf = () => axis.ownerSVGElement.getBoundingClientRect();
    const named = all("svg.bar text", charts);
    const shown = make("span", { className: "shown" });
    let from = 0;
    let part = 1; // The window shows this part of the whole time.

    const drawAxis = () => {
      const width = boxOf().width || 800;
      const left = first + from * length;
      const span = part * length;
      const most = clamp(width / 85, 2, 12);
      const step = STEPS.find((each) => span / each <= most) || STEPS[STEPS.length - 1];
      axis.replaceChildren();
      for (let at = Math.ceil(left / step) * step; at <= left + span; at += step) {
        const x = (100 * (at - left)) / span + "%";
        const line = document.createElementNS(axis.namespaceURI, "line");
        const text = document.createElementNS(axis.namespaceURI, "text");
        for (const [key, value] of Object.entries({ x1: x, x2: x, y1: 15, y2: 22 })) line.setAttribute(key, value);
        text.setAttribute("x", x);
        text.setAttribute("y", 11);
        text.textContent = clock(at, step);
        axis.append(line, text);
      }
      const say = (ms) => new Date(ms).toISOString().slice(5, span < 60000 ? 23 : 19).replace("T", " ");
      shown.textContent = part < 1 ? `${say(left)} to ${say(left + span)} UTC` : "";
    };
    const keepNamesInView = () => {
      const whole = boxOf().width / part;
      for (const text of named) {
        const hidden = (from - parseFloat(text.parentNode.getAttribute("x")) / 100) * whole;
        text.setAttribute("x", Math.max(hidden, 0) + 4);
      }
    };
    const look = (newFrom, newPart) => {
      part = clamp(newPart, Math.min(1, Math.max(20 / length, 1e-5)), 1);
      from = clamp(newFrom, 0, 1 - part);
      charts.classList.toggle("zoomed", part < 1);
      for (const plot of plots) {
        plot.setAttribute("x", (-100 * from) / part + "%");
        plot.setAttribute("width", 100 / part + "%");
      }
      drawAxis();
      keepNamesInView();
    };
    const zoom = (factor, middle = 0.5) => look(from + middle * part * (1 - factor), part * factor);
    const pan = (share) => look(from + share * part, part);

    // Picking members: the others fade.
    const picked = new Set();
    const processes = all(".process", charts);
    const bars = all(".bar", charts);
    let words = "";
    const has = (node) => node.dataset.name.toLowerCase().includes(words);
    const draw = () => {
      const holders = new Set(picked);
      if (words) for (const each of processes.filter(has)) holders.add(each.dataset.h);
      for (const bar of bars) bar.classList.toggle("dim", holders.size > 0 && !holders.has(bar.dataset.h));
      for (const row of all(".part", charts)) {
        row.hidden = Boolean(words) && !has(row) && !all(".bar", row).some((bar) => holders.has(bar.dataset.h));
        row.style.display = row.hidden ? "none" : "";
      }
      for (const each of processes) each.style.display = words && holders.size && !has(each) ? "none" : "";
    };
    for (const each of processes) {
      each.setAttribute("role", "button");
      each.tabIndex = 0;
      const pick = () => {
        const chosen = each.classList.toggle("picked");
        each.setAttribute("aria-pressed", chosen);
        chosen ? picked.add(each.dataset.h) : picked.delete(each.dataset.h);
        draw();
      };
      each.querySelector(".label").addEventListener("click", pick);
      each.addEventListener("keydown", (event) => { if (event.key === "Enter") pick(); });
    }

    const button = (text, title, onclick) => make("button", { type: "button", textContent: text, title, ariaLabel: title, onclick });
    const filter = make("input", { type: "search", placeholder: "Partition or member", ariaLabel: "Show this partition or member" });
    filter.addEventListener("input", () => { words = filter.value.trim().toLowerCase(); draw(); });
    charts.prepend(make("div", { className: "tools" },
      button("−", "Zoom out", () => zoom(2)), button("+", "Zoom in", () => zoom(0.5)),
      button("←", "Earlier", () => pan(-0.5)), button("→", "Later", () => pan(0.5)),
      button("Whole time", "Zoom out to the whole time", () => look(0, 1)), filter, shown));

    charts.tabIndex = 0;
    charts.addEventListener("keydown", (event) => {
      if (event.target.closest("input, button")) return;
      const moves = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => look(0, 1), ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25) };
      if (!moves[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      moves[event.key]();
    });
    const place = (event) => {
      const box = boxOf();
      return { box, share: (event.clientX - box.left) / box.width };
    };
    charts.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      if (event.ctrlKey) zoom(Math.exp(event.deltaY / 200), place(event).share);
      else pan(event.deltaX / place(event).box.width);
    }, { passive: false });
    charts.addEventListener("dblclick", (event) => { if (event.target.closest(".window")) look(0, 1); });
    charts.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch" || !event.target.closest(".window") || event.target.closest("a")) return;
      const began = place(event);
      const brush = make("div", { className: "brush" });
      const top = charts.getBoundingClientRect();
      charts.append(brush);
      const ends = (to) => [began.share, place(to).share].map((share) => clamp(share, 0, 1)).sort((a, b) => a - b);
      const move = (to) => {
        const [low, high] = ends(to);
        document.body.classList.add("brushing");
        Object.assign(brush.style, { left: began.box.left - top.left + low * began.box.width + "px", width: (high - low) * began.box.width + "px", top: 0, bottom: 0 });
      };
      const up = (to) => {
        removeEventListener("pointermove", move);
        brush.remove();
        document.body.classList.remove("brushing");
        const [low, high] = ends(to);
        if ((high - low) * began.box.width > 5) look(from + low * part, part * (high - low));
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", up, { once: true });
    });
    addEventListener("resize", () => { drawAxis(); keepNamesInView(); });
    drawAxis();
  };
  all(".charts").forEach(start);

  // -- The table of groups -----------------------------------------------------------------------
  for (const table of all("table.sortable")) {
    const valueOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    all("thead th", table).forEach((head, column) => {
      const sort = () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        all("th", head.parentNode).forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const compare = (a, b) => a.localeCompare(b, "en", { numeric: false });
        const rows = [...body.rows].sort((one, other) => {
          const [a, b] = [valueOf(one, column), valueOf(other, column)];
          return column ? Number(b) - Number(a) : compare(b, a);
        });
        body.append(...(down ? rows : rows.reverse()));
      };
      head.replaceChildren(make("button", { type: "button", textContent: head.textContent, onclick: sort }));
    });
    const find = make("input", { type: "search", placeholder: "Find a group", ariaLabel: "Find a group" });
    find.addEventListener("input", () => {
      const words = find.value.trim().toLowerCase();
      for (const each of all("#groups-table tbody tr, section.group")) {
        each.style.display = each.dataset.name.toLowerCase().includes(words) ? "" : "none";
      }
    });
    table.closest(".scroll").before(find);
  }

  all(".only-script").forEach((each) => { each.hidden = false; });
  open();
})();
