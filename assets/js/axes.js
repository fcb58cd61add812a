// Axis names: the same name anywhere on the page is highlighted together, with the number it stands for.
const AXIS_EVENT = "k3-axis"
const NAME = /[A-Za-z_][A-Za-z_0-9]*/g
const announceAxis = (name) => document.dispatchEvent(new CustomEvent(AXIS_EVENT, { detail: name }))

// The names in each axis of a label, for its line of names and its line of numbers alike.
function axesOf(lines) {
  const inBrackets = (text) => (text.match(/\[[^\]]*\]/g) ?? []).join().replace(/[[\]]/g, "") // a type stands behind
  const terms = (text) => inBrackets(text).split(",").map((term) => term.trim()).filter(Boolean)
  const named = terms(lines.filter((line) => /[A-Za-z]/.test(line)).join(" "))
  const numbers = terms(lines.filter((line) => !/[A-Za-z]/.test(line)).join(" "))
  return { names: named.map((term) => term.match(NAME) ?? []), aligned: named.length === numbers.length, next: 0 }
}

// One line of a shape, each axis in a span of its own; numbers carry the names of their axis.
function drawAxes(line, axes, parent) {
  if (/[A-Za-z]/.test(line)) {
    for (const part of line.split(/([A-Za-z_][A-Za-z_0-9]*)/)) {
      if (/^[A-Za-z_]/.test(part)) shape("tspan", { class: "axis", "data-axis": part }, parent, part)
      else if (part) parent.append(part)
    }
    return
  }
  for (const part of line.split(/(\d+)/)) {
    const names = /^\d/.test(part) && axes.aligned ? axes.names[axes.next++] : []
    if (names?.length) shape("tspan", { class: "axis", "data-axis": names.join(" ") }, parent, part)
    else if (part) parent.append(part)
  }
}

// Follow the pointer over axis names in `root`, and highlight there the name that it is over anywhere on the page.
function followAxes(root, stop) {
  const over = (ev) => announceAxis(ev.target.closest?.("[data-axis]")?.dataset.axis.split(" ")[0] ?? "")
  let current = ""
  const highlight = ({ detail }) => {
    if (detail === current) return
    current = detail
    for (const el of root.querySelectorAll("[data-axis]"))
      el.classList.toggle("lit", !!current && el.dataset.axis.split(" ").includes(current))
  }
  root.addEventListener("pointerover", over, { signal: stop })
  root.addEventListener("pointerleave", () => announceAxis(""), { signal: stop })
  document.addEventListener(AXIS_EVENT, highlight, { signal: stop })
}
