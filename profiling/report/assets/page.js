"use strict";

// Sorting and filtering of the tables, and the switch between light and dark. The page reads the
// same without any of it.

const valueOf = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.order === undefined ? cell.textContent.trim() : Number(cell.dataset.order);
};

// Empty cells stay last in both directions.
const compare = (a, b, direction) => {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a === "number" && typeof b === "number") return direction * (a - b);
  return direction * String(a).localeCompare(String(b), undefined, { numeric: true });
};

const sort = (table, header, column) => {
  // A first click on numbers shows the largest first, on names the first of the alphabet.
  const first = header.classList.contains("number") ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = header.getAttribute("aria-sort") === first ? other : first;
  for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
  const direction = order === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
  rows.sort(([a], [b]) => compare(a, b, direction));
  body.append(...rows.map(([, row]) => row));
};

const filter = (grid, text) => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...grid.querySelector("tbody").rows];
  for (const row of rows) {
    const told = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => told.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  grid.querySelector(".shown").textContent = words.length ? `${shown} of ${rows.length} rows` : "";
};

for (const grid of document.querySelectorAll(".grid")) {
  const table = grid.querySelector("table");
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => sort(table, header, column));
  });
  grid.querySelector("input").addEventListener("input", (event) => filter(grid, event.target.value));
}

const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const chosen = root.dataset.theme;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
