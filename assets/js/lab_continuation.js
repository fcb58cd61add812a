// A continuation of the run, after dom.js: the next token, several, how they are drawn, and back again.
const continuationForm = (model) => {
  const number = (name, value, more) => h("input", { type: "number", "aria-label": name, value, ...more })
  const count = number("Tokens to add", "16", { min: 1, max: 256 })
  const heat = number("Temperature", "0", { min: 0, max: 10, step: "any" })
  const seed = number("Seed", "0", { min: 0, max: 2147483647 })
  const add = (tokens) => model.send_msg({ add: tokens, temperature: Number(heat.value), seed: Math.trunc(Number(seed.value)) })
  const next = h("button", { type: "button", class: "add", onclick: () => add(1) }, "Next token")
  const several = h("button", { type: "submit" }, "Generate")
  const one = h("button", { type: "button", onclick: () => model.send_msg({ back: 1 }) }, "Take one back")
  const all = h("button", { type: "button", onclick: () => model.send_msg({ back: model.continuation.count }) }, "Remove all")
  const status = h("p", { role: "status", "data-testid": "lab-added" })
  const label = (text, box) => h("label", {}, h("span", {}, text), box)
  const form = h("form", { class: "continuation", "aria-label": "Add tokens" }, next,
    h("div", { class: "buttons" }, several, label("tokens", count)), label("temperature", heat), label("seed", seed), one, all, status)
  form.onsubmit = (event) => { event.preventDefault(); add(Math.trunc(Number(count.value))) }
  const draw = () => {
    for (const button of [next, several, one, all]) button.disabled = model.busy
    one.hidden = all.hidden = !model.continuation.count
    status.textContent = model.continuation.text ?? ""
  }
  model.on("busy", draw)
  model.on("continuation", draw)
  draw()
  return form
}
