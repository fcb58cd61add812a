// The Lab's own row, after dom.js: its views, what is looked at in them, and what the run is compared with.
export function render({ model, el }) {
  const send = (data) => model.send_msg(data)
  const tabs = h("div", { role: "tablist", "aria-label": "Views of the Lab", class: "tabs" })
  const choosers = h("div", { class: "choosers" })
  el.append(h("div", { class: "choice" }, tabs, choosers))

  const select = (name, options, value, onChoice) => {
    const box = h("select", { "aria-label": name, onchange: () => onChoice(box.value) },
      ...options.map(([key, text]) => h("option", { value: key }, text)))
    box.value = String(value ?? "")
    return h("label", {}, h("span", {}, name), box)
  }
  const drawTabs = () => {
    const buttons = model.views.map(([key, title]) => h("button", {
      role: "tab", type: "button", "aria-selected": String(key === model.view), tabindex: key === model.view ? 0 : -1,
      onclick: () => send({ view: key }),
    }, title))
    const had = el.getRootNode().activeElement?.getAttribute?.("role") === "tab"
    tabs.replaceChildren(...buttons)
    if (had) tabs.querySelector("[aria-selected=true]")?.focus()
  }
  tabs.onkeydown = (event) => {
    const at = model.views.findIndex(([key]) => key === model.view), count = model.views.length
    const to = { ArrowRight: (at + 1) % count, ArrowLeft: (at + count - 1) % count, Home: 0, End: count - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    send({ view: model.views[to][0] })
  }
  const draw = () => {
    const { layers, layer, heads, head, runs, baseline, token, tokens } = model.chosen
    const number = h("input", { type: "number", "aria-label": "Token", min: "0", max: String(tokens - 1), value: String(token),
      onchange: () => send({ token: Number(number.value) }) })
    choosers.replaceChildren(...[
      layers.length ? select("Layer", layers, layer, (value) => send({ layer: Number(value) })) : null,
      heads ? select("Head", Array.from({ length: heads }, (_, i) => [i, i]), head, (value) => send({ head: Number(value) })) : null,
      h("label", {}, h("span", {}, "Token"), number, h("code", {}, model.chosen.text)),
      select("Compare with", runs, baseline, (value) => send({ baseline: value })),
    ].filter(Boolean))
  }
  model.on("view", drawTabs)
  model.on("chosen", draw)
  drawTabs()
  draw()
  send({ connected: true })
}
