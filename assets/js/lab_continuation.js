/**
 * A continuation of the run, after dom.js: the next token, several, how they are sampled, and back again.
 *
 * Shows `continuation`: { count, text } of the tokens after the prompt; `busy` disables its buttons.
 * Sends { generate: count, temperature, seed } and { remove: count }, which takes the last ones away.
 */
const continuationForm = (model) => {
  const number = (name, value, limits) => h("input", { type: "number", "aria-label": name, value, ...limits })
  const count = number("Tokens to add", "16", { min: 1, max: 256 })
  const temperature = number("Temperature", "0", { min: 0, max: 10, step: "any" })
  const seed = number("Seed", "0", { min: 0, max: 2147483647 })
  const generate = (tokens) => model.send_msg({
    generate: tokens, temperature: Number(temperature.value), seed: Math.trunc(Number(seed.value)),
  })
  const remove = (tokens) => model.send_msg({ remove: tokens })
  const next = h("button", { type: "button", class: "add", onclick: () => generate(1) }, "Next token")
  const several = h("button", { type: "submit" }, "Generate")
  const one = h("button", { type: "button", onclick: () => remove(1) }, "Take one back")
  const all = h("button", { type: "button", onclick: () => remove(model.continuation.count) }, "Remove all")
  const status = h("p", { role: "status", "data-testid": "lab-added" })
  const label = (text, box) => h("label", {}, h("span", {}, text), box)
  const form = h("form", { class: "continuation", "aria-label": "Add tokens" },
    next, h("div", { class: "buttons" }, several, label("tokens", count)),
    label("temperature", temperature), label("seed", seed), one, all, status)
  form.onsubmit = (event) => { event.preventDefault(); generate(Math.trunc(Number(count.value))) }
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
