// The table of recipes can be narrowed to one task; without this script it shows all of them.
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("#recipes table");
  if (!table) return;
  const rows = [...table.tBodies[0].rows];
  const tasks = ["all", ...new Set(rows.map((row) => row.cells[1].textContent.trim()))];
  const bar = document.createElement("p");
  bar.className = "tasks";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Show the recipes of one task");
  const choose = (task) => {
    for (const row of rows) row.hidden = task !== "all" && row.cells[1].textContent.trim() !== task;
    for (const button of bar.children) button.setAttribute("aria-pressed", String(button.textContent === task));
  };
  for (const task of tasks) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = task;
    button.addEventListener("click", () => choose(task));
    bar.append(button);
  }
  (table.closest(".table-wrapper") ?? table).before(bar);
  choose("all");
});
