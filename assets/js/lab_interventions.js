// Interventions, after dom.js: build one, add it to the run, take one away, undo, clear.
const TITLES = {
  head: "attention head", expert: "routed expert", mix: "mix candidate", sublayer: "sublayer", token: "token (running sum)",
  routes: "routes", decay: "decay",
}

export function render({ model, el }) {
  const details = h("details", {})
  const summary = h("summary", {}), list = h("ol", { "aria-label": "Changes to the pass" })
  const fields = h("div", { class: "fields" })
  const add = h("button", { type: "submit", class: "add" }, "Add and run")
  const undo = h("button", { type: "button", onclick: () => model.send_msg({ undo: true }) }, "Undo")
  const clear = h("button", { type: "button", onclick: () => model.send_msg({ clear: true }) }, "Clear all")
  const problem = h("p", { role: "alert", class: "problem" })
  const form = h("form", {}, fields, h("div", { class: "buttons" }, add, undo, clear))
  details.append(summary, h("p", {}, "Change something inside the pass and see what follows. Each change runs the prompt again, and every picture becomes its difference from the plain run."), list, form, problem)
  el.append(details)
  let now = { what: "head", do: "zero", layer: 0, index: 0, place: "attention", tokens: "", amount: 1, low: 0, high: 1, experts: "", run: "" }
  let touched = false

  const select = (name, key, options) => {
    const box = h("select", { "aria-label": `${name} of the change`, onchange: () => { now[key] = box.value; touched = true; drawFields() } },
      ...options.map(([value, text]) => h("option", { value }, text)))
    if (!options.some(([value]) => String(value) === String(now[key]))) now[key] = String(options[0]?.[0] ?? "")
    box.value = String(now[key])
    return h("label", {}, h("span", {}, name), box)
  }
  const input = (name, key, more) => {
    const box = h("input", { "aria-label": `${name} of the change`, value: String(now[key]), oninput: () => { now[key] = box.value; touched = true }, ...more })
    return h("label", {}, h("span", {}, name), box)
  }
  const numbers = (count) => Array.from({ length: count }, (_, i) => [i, String(i)])
  const layersFor = () => {
    const every = ["token", "routes", "decay"].includes(now.what) ? [["", now.what === "token" ? "embedding" : "all"]] : []
    const fits = { expert: (l) => l.experts, routes: (l) => l.experts, decay: (l) => l.kind === "KDA" }[now.what] ?? (() => true)
    return [...every, ...model.options.layers.filter(fits).map((l) => [l.layer, `${l.layer} ${l.kind}`])]
  }
  const drawFields = () => {
    if (!model.options.kinds) return
    const boxes = [
      select("What", "what", Object.keys(model.options.kinds).map((what) => [what, TITLES[what]])),
      select("Do", "do", model.options.kinds[now.what].map((d) => [d, now.what === "routes" && d === "patch" ? "replay of a run" : d])),
    ]
    const sites = model.options.sites[now.what]
    if (sites) boxes.push(select("Where", "place", sites.map((p) => [p, p])))
    const output = now.what === "mix" && now.place === "output"
    if (!output) boxes.push(select("Layer", "layer", layersFor()))
    const layer = model.options.layers.find((l) => String(l.layer) === String(now.layer)) ?? {}
    const counts = { head: layer.heads, expert: layer.experts, mix: output ? model.options.output : layer[now.place], decay: layer.heads }
    if (now.what in counts && counts[now.what]) {
      const all = now.what === "decay" ? [["", "all heads"]] : []
      boxes.push(select(now.what === "mix" ? "Candidate" : now.what === "expert" ? "Expert" : "Head", "index", [...all, ...numbers(counts[now.what])]))
    }
    if (now.do === "force") boxes.push(input(`${model.options.top_k} experts`, "experts", { placeholder: "0, 1, 2" }))
    if (now.do === "noise") boxes.push(input("Amount, RMS", "amount", { type: "number", step: "any" }))
    if (now.do === "clamp") boxes.push(input("Keep at least", "low", { type: "number", step: "any", min: 0, max: 1 }), input("at most", "high", { type: "number", step: "any", min: 0, max: 1 }))
    if (now.do === "patch") boxes.push(select("From run", "run", model.runs.length ? model.runs : [["", "none yet"]]))
    boxes.push(input("Tokens", "tokens", { placeholder: now.what === "token" ? "0, 3-5" : "all" }))
    fields.replaceChildren(...boxes)
  }
  form.onsubmit = (event) => {
    event.preventDefault()
    const shown = new Set([...fields.querySelectorAll("span")].map((span) => span.textContent))
    const has = (...names) => names.some((name) => shown.has(name))
    model.send_msg({ add: {
      what: now.what, do: now.do, place: has("Where") ? now.place : "", layer: has("Layer") ? String(now.layer) : "",
      index: has("Head", "Expert", "Candidate") ? String(now.index) : "", tokens: now.tokens, run: now.do === "patch" ? now.run : "",
      experts: now.do === "force" ? now.experts : "",
      amount: now.do === "noise" ? String(now.amount) : "", low: now.do === "clamp" ? String(now.low) : "", high: now.do === "clamp" ? String(now.high) : "",
    } })
  }
  const follow = () => {
    const { what, layer, index } = model.likely
    if (touched || !model.options.kinds?.[what]) return
    Object.assign(now, { what, layer: layer ?? now.layer, index: index ?? now.index })
    drawFields()
  }
  const draw = () => {
    summary.textContent = model.interventions.length ? `Changes to the pass: ${model.interventions.length}` : "Change the pass"
    list.replaceChildren(...model.interventions.map((text, i) => h("li", {}, h("span", {}, text),
      h("button", { type: "button", "aria-label": `Remove: ${text}`, onclick: () => model.send_msg({ remove: i }) }, "×"))))
    list.hidden = clear.hidden = !model.interventions.length
    undo.disabled = !model.undoable
    if (model.interventions.length) details.open = true
  }
  const drawProblem = () => { problem.textContent = model.problem; problem.hidden = !model.problem }
  model.on("options", follow)
  model.on("likely", follow)
  model.on("options", drawFields)
  model.on("runs", drawFields)
  model.on("interventions", draw)
  model.on("undoable", draw)
  model.on("problem", drawProblem)
  follow()
  drawFields()
  draw()
  drawProblem()
}
