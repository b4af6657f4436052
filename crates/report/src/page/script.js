"use strict";
(() => {
  const root = document.documentElement, tip = document.getElementById("tip");
  root.classList.add("scripted");
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
  const level = (text, place) => DIGITS.indexOf(text[place]);
  const clamp = (value, most) => Math.min(Math.max(value, 0), most);
  const short = (value) => value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  const time = (ns) => {
    const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];
    const [unit, name] = units.find(([unit]) => ns >= unit) || [1, "ns"];
    return ns === 0 ? "0 s" : short(ns / unit) + " " + name;
  };
  const size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let place = 0;
    while (bytes >= 1024 && place + 1 < units.length) { bytes /= 1024; place += 1; }
    return short(bytes) + " " + units[place];
  };

  // One of several panels is shown.
  for (const select of document.querySelectorAll("select[data-chooses]")) {
    const show = () => {
      for (const option of select.options) {
        document.getElementById(option.value).toggleAttribute("data-later", option.value !== select.value);
      }
    };
    select.addEventListener("change", show);
    show();
  }

  // Tables are sorted by a column: first the largest numbers, or words from A on.
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    const key = (row, place) => row.cells[place].dataset.order ?? row.cells[place].textContent;
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const rows = [...body.rows];
        const numbers = rows.every((row) => key(row, place) !== "" && !Number.isNaN(Number(key(row, place))));
        const now = head.getAttribute("aria-sort");
        const down = now === null ? numbers : now === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        rows.sort((a, b) => {
          const [x, y] = [key(a, place), key(b, place)];
          const order = numbers ? Number(x) - Number(y) : x.localeCompare(y);
          return down ? -order : order;
        });
        body.append(...rows);
      });
    });
  }

  // Stacks are copied.
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      let done = true;
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        const range = document.createRange();
        range.selectNodeContents(source);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        done = document.execCommand("copy");
      }
      button.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // What a chart says at a place: by the pointer, or by the arrow keys.
  const charts = (area) => {
    if (area.dataset.tips) {
      const tips = JSON.parse(area.dataset.tips);
      return { columns: tips.length, rows: 1, say: (column) => tips[column] };
    }
    if (area.dataset.heat) {
      const { heat, word } = area.dataset;
      const [columns, rows, column, row, top] =
        ["columns", "rows", "column", "row", "top"].map((name) => Number(area.dataset[name]));
      // As many rows as the scale shows.
      const shown = Math.min(Math.max(Math.ceil(top / row), 1), rows);
      return {
        columns, rows: shown, high: row / top,
        say: (x, y) => {
          const log = level(heat, y * columns + x);
          const what = log === 0 ? "nothing " + word : size(2 ** (log - 1)) + " to " + size(2 ** log) + " " + word;
          return time(x * column) + " to " + time((x + 1) * column) + ", offset " + size(y * row) + " to " +
            size((y + 1) * row) + ": " + what;
        },
      };
    }
    const lanes = area.closest(".lanes");
    const classes = lanes.dataset.classes.split(" "), bin = Number(lanes.dataset.bin);
    const levels = area.dataset.levels.split(" ");
    return {
      columns: levels[0].length, rows: 1,
      say: (x) => {
        const parts = classes.map((name, n) => [name, level(levels[n], x) * 2]).filter((part) => part[1] > 0);
        const what = parts.length ? parts.map((part) => part[0] + " " + part[1] + " %").join(", ") : "no calls";
        return area.dataset.name + ", " + time(x * bin) + " to " + time((x + 1) * bin) + ": " + what;
      },
    };
  };
  for (const area of document.querySelectorAll(".area")) {
    const chart = charts(area), svg = area.querySelector("svg");
    const high = chart.high ?? 1 / chart.rows;
    const cursor = document.createElement("div");
    cursor.className = chart.rows > 1 ? "cursor square" : "cursor";
    cursor.hidden = true;
    area.append(cursor);
    let x = 0, y = 0;
    const hide = () => { tip.hidden = true; cursor.hidden = true; };
    const show = (left, bottom) => {
      const text = chart.say(x, y), box = area.getBoundingClientRect();
      area.setAttribute("aria-valuenow", y * chart.columns + x);
      area.setAttribute("aria-valuetext", text);
      cursor.hidden = false;
      cursor.style.left = 100 * (x + (chart.rows > 1 ? 0 : 0.5)) / chart.columns + "%";
      if (chart.rows > 1) {
        cursor.style.width = 100 / chart.columns + "%";
        cursor.style.top = "auto";
        cursor.style.bottom = 100 * y * high + "%";
        cursor.style.height = 100 * high + "%";
      }
      tip.textContent = text;
      tip.hidden = false;
      const to = tip.getBoundingClientRect();
      left ??= box.left + box.width * (x + 0.5) / chart.columns;
      bottom ??= box.top;
      tip.style.left = clamp(left - to.width / 2, root.clientWidth - to.width - 8) + "px";
      tip.style.top = (bottom - to.height - 12 < 4 ? bottom + 24 : bottom - to.height - 12) + "px";
    };
    area.tabIndex = 0;
    area.setAttribute("role", "slider");
    area.setAttribute("aria-label", svg.getAttribute("aria-label"));
    area.setAttribute("aria-valuemin", 0);
    area.setAttribute("aria-valuemax", chart.columns * chart.rows - 1);
    area.setAttribute("aria-valuenow", 0);
    area.setAttribute("aria-valuetext", chart.say(0, 0));
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      x = clamp(Math.floor((event.clientX - box.left) / box.width * chart.columns), chart.columns - 1);
      y = clamp(Math.floor((box.bottom - event.clientY) / box.height / high), chart.rows - 1);
      show(event.clientX, event.clientY);
    });
    area.addEventListener("pointerleave", hide);
    area.addEventListener("focus", () => { if (area.matches(":focus-visible")) show(); });
    area.addEventListener("blur", hide);
    area.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], PageUp: [10, 0], PageDown: [-10, 0] };
      if (event.key === "Escape") return hide();
      if (event.key === "Home") x = 0;
      else if (event.key === "End") x = chart.columns - 1;
      else if (moves[event.key]) {
        const [across, up] = moves[event.key];
        x = clamp(x + (chart.rows > 1 ? across : across + up), chart.columns - 1);
        y = clamp(y + (chart.rows > 1 ? up : 0), chart.rows - 1);
      } else return;
      event.preventDefault();
      show();
    });
  }
})();
