/**
 * Interventions, after dom.js: build one, add it to the run, take one away, undo, clear.
 *
 * Shows `options` (see intervention_form.options), the list of `interventions` as phrases, `sources`: [id, label][]
 * of runs to patch from, `undoable` and `problem`; an untouched form starts from `likely`: { what, layer, index }.
 * Sends { add: fields } with every field as text, { remove: index }, { undo: true } and { clear: true }.
 */
const TITLES = {
  head: "attention head", expert: "routed expert", mix: "mix candidate", sublayer: "sublayer",
  token: "token (running sum)", routes: "routes", decay: "decay",
}
const EXPLANATION = "Change something inside the pass and see what follows. Each change runs the prompt again, " +
  "and every picture becomes its difference from the plain run."
const FIRST_VALUES = {
  what: "head", do: "zero", layer: 0, index: 0, place: "attention", tokens: "", amount: 1, low: 0, high: 1, experts: "", run: "",
}

// Layers that have what is changed; for some kinds also none of them, which means all or the embedding.
const layerChoices = (layers, what) => {
  const none = ["token", "routes", "decay"].includes(what) ? [["", what === "token" ? "embedding" : "all"]] : []
  const fits = { expert: (l) => l.experts, routes: (l) => l.experts, decay: (l) => l.kind === "KDA" }[what] ?? (() => true)
  return [...none, ...layers.filter(fits).map((l) => [l.layer, `${l.layer} ${l.kind}`])]
}

// The labelled boxes of the kind of intervention in `values`. Boxes are made from the general to the particular:
// a menu that has not the value of its field takes its first choice, and the menus after it depend on that.
const fieldsOf = (model, values, onInput, onChoice) => {
  const { kinds, sites, layers, output, top_k: topK } = model.options
  const menu = (name, key, choices) => {
    const box = h("select", { "aria-label": `${name} of the change`, onchange: () => { values[key] = box.value; onChoice() } },
      ...choices.map(([value, text]) => h("option", { value }, text)))
    if (!choices.some(([value]) => String(value) === String(values[key]))) values[key] = String(choices[0]?.[0] ?? "")
    box.value = String(values[key])
    return h("label", {}, h("span", {}, name), box)
  }
  const input = (name, key, attributes) => {
    const box = h("input", {
      "aria-label": `${name} of the change`, value: String(values[key]), ...attributes,
      oninput: () => { values[key] = box.value; onInput() },
    })
    return h("label", {}, h("span", {}, name), box)
  }
  const share = { type: "number", step: "any", min: 0, max: 1 }
  const boxes = [menu("What", "what", Object.keys(kinds).map((what) => [what, TITLES[what]]))]
  const { what } = values
  boxes.push(menu("Do", "do", kinds[what].map((d) => [d, what === "routes" && d === "patch" ? "replay of a run" : d])))
  if (sites[what]) boxes.push(menu("Where", "place", sites[what].map((site) => [site, site])))
  const ofOutput = what === "mix" && values.place === "output" // the only mix outside the layers
  if (!ofOutput) boxes.push(menu("Layer", "layer", layerChoices(layers, what)))
  const layer = layers.find((l) => String(l.layer) === String(values.layer)) ?? {}
  const candidates = ofOutput ? output : layer[values.place]
  const count = { head: layer.heads, expert: layer.experts, mix: candidates, decay: layer.heads }[what]
  if (count) {
    const all = what === "decay" ? [["", "all heads"]] : []
    const numbers = Array.from({ length: count }, (_, i) => [i, String(i)])
    boxes.push(menu({ mix: "Candidate", expert: "Expert" }[what] ?? "Head", "index", [...all, ...numbers]))
  }
  if (values.do === "force") boxes.push(input(`${topK} experts`, "experts", { placeholder: "0, 1, 2" }))
  if (values.do === "noise") boxes.push(input("Amount, RMS", "amount", { type: "number", step: "any" }))
  if (values.do === "clamp") boxes.push(input("Keep at least", "low", share), input("at most", "high", share))
  if (values.do === "patch") boxes.push(menu("From run", "run", model.sources.length ? model.sources : [["", "none yet"]]))
  return [...boxes, input("Tokens", "tokens", { placeholder: what === "token" ? "0, 3-5" : "all" })]
}

// What is sent of `values`: the fields that have a box among `names`, the labels on show.
const filledFields = (values, names) => {
  const has = (...some) => some.some((name) => names.has(name))
  const when = (shown, key) => (shown ? String(values[key]) : "")
  return {
    what: values.what, do: values.do, tokens: values.tokens,
    place: when(has("Where"), "place"), layer: when(has("Layer"), "layer"),
    index: when(has("Head", "Expert", "Candidate"), "index"), run: when(values.do === "patch", "run"),
    experts: when(values.do === "force", "experts"), amount: when(values.do === "noise", "amount"),
    low: when(values.do === "clamp", "low"), high: when(values.do === "clamp", "high"),
  }
}

export function render({ model, el }) {
  const summary = h("summary", {}), list = h("ol", { "aria-label": "Changes to the pass" })
  const fields = h("div", { class: "fields" })
  const add = h("button", { type: "submit", class: "add" }, "Add and run")
  const undo = h("button", { type: "button", onclick: () => model.send_msg({ undo: true }) }, "Undo")
  const clear = h("button", { type: "button", onclick: () => model.send_msg({ clear: true }) }, "Clear all")
  const problem = h("p", { role: "alert", class: "problem" })
  const form = h("form", {}, fields, h("div", { class: "buttons" }, add, undo, clear))
  const details = h("details", {}, summary, h("p", {}, EXPLANATION), list, form, problem)
  el.append(details)
  const values = { ...FIRST_VALUES }
  let touched = false

  const touch = () => { touched = true }
  const drawFields = () => {
    if (model.options.kinds) fields.replaceChildren(...fieldsOf(model, values, touch, () => { touch(); drawFields() }))
  }
  form.onsubmit = (event) => {
    event.preventDefault()
    const names = new Set([...fields.querySelectorAll("span")].map((span) => span.textContent))
    model.send_msg({ add: filledFields(values, names) })
  }
  const suggest = () => {
    const { what, layer, index } = model.likely
    if (touched || !model.options.kinds?.[what]) return
    Object.assign(values, { what, layer: layer ?? values.layer, index: index ?? values.index })
    drawFields()
  }
  const drawList = () => {
    const count = model.interventions.length
    summary.textContent = count ? `Changes to the pass: ${count}` : "Change the pass"
    list.replaceChildren(...model.interventions.map((phrase, i) => h("li", {}, h("span", {}, phrase),
      h("button", { type: "button", "aria-label": `Remove: ${phrase}`, onclick: () => model.send_msg({ remove: i }) }, "×"))))
    list.hidden = clear.hidden = !count
    undo.disabled = !model.undoable
    if (count) details.open = true
  }
  const drawProblem = () => { problem.textContent = model.problem; problem.hidden = !model.problem }
  model.on("options", () => { suggest(); drawFields() })
  model.on("likely", suggest)
  model.on("sources", drawFields)
  model.on("interventions", drawList)
  model.on("undoable", drawList)
  model.on("problem", drawProblem)
  suggest()
  drawFields()
  drawList()
  drawProblem()
}
