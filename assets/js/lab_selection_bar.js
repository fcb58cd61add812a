/**
 * The Lab's own row, after dom.js: its views, the selection they share, and the run that is compared with.
 *
 * Shows `views`: [key, title][], the open `view`, and `chosen`: { layers: [layer, label][], layer, heads (how many),
 * head, token, tokens (how many), text of the token, baselines: [id, label][], baseline }.
 * Sends { view }, { layer }, { head }, { token }, { baseline }; and once { connected: true }: the Lab is drawn.
 */
const menuOf = (name, options, value, onChoice) => {
  const menu = h("select", { "aria-label": name, onchange: () => onChoice(menu.value) },
    ...options.map(([key, text]) => h("option", { value: key }, text)))
  menu.value = String(value ?? "")
  return h("label", {}, h("span", {}, name), menu)
}

export function render({ model, el }) {
  const send = (data) => model.send_msg(data)
  const tabs = h("div", { role: "tablist", "aria-label": "Views of the Lab", class: "tabs" })
  const choosers = h("div", { class: "choosers" })
  el.append(h("div", { class: "selection" }, tabs, choosers))

  const drawTabs = () => {
    const focused = el.getRootNode().activeElement?.getAttribute?.("role") === "tab"
    tabs.replaceChildren(...model.views.map(([key, title]) => h("button", {
      role: "tab", type: "button", "aria-selected": String(key === model.view), tabindex: key === model.view ? 0 : -1,
      onclick: () => send({ view: key }),
    }, title)))
    if (focused) tabs.querySelector("[aria-selected=true]")?.focus()
  }
  tabs.onkeydown = (event) => {
    const open = model.views.findIndex(([key]) => key === model.view), count = model.views.length
    const to = { ArrowRight: (open + 1) % count, ArrowLeft: (open + count - 1) % count, Home: 0, End: count - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    send({ view: model.views[to][0] })
  }
  const drawChoosers = () => {
    const { layers, layer, heads, head, baselines, baseline, token, tokens, text } = model.chosen
    const number = h("input", { type: "number", "aria-label": "Token", min: "0", max: String(tokens - 1), value: String(token),
      onchange: () => send({ token: Number(number.value) }) })
    const headNumbers = Array.from({ length: heads }, (_, i) => [i, i])
    choosers.replaceChildren(...[
      layers.length ? menuOf("Layer", layers, layer, (value) => send({ layer: Number(value) })) : null,
      heads ? menuOf("Head", headNumbers, head, (value) => send({ head: Number(value) })) : null,
      h("label", {}, h("span", {}, "Token"), number, h("code", {}, text)),
      menuOf("Compare with", baselines, baseline, (value) => send({ baseline: value })),
    ].filter(Boolean))
  }
  model.on("view", drawTabs)
  model.on("chosen", drawChoosers)
  drawTabs()
  drawChoosers()
  send({ connected: true })
}
