// Every token of the prompt with its numbers, after dom.js; and what the model expects after the chosen one.
const CAP = 256
const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(0)}%` : p >= 0.00095 ? `${(100 * p).toFixed(1)}%` : "<0.1%")

export function render({ model, el }) {
  const list = h("div", { class: "chips", role: "group", "aria-label": "Tokens with their probability" })
  const about = h("p", { role: "status" }), next = h("ol", {})
  const heading = h("h2", {}), after = h("h2", {}), hint = h("p", {}, "Choose one to go on from there.")
  let from = 0
  el.append(h("div", { class: "tokens" }, h("section", {}, heading, list, about, continuationForm(model)), h("section", { class: "next" }, after, hint, next)))

  const tell = () => {
    const t = model.tokens.rows?.[model.token]
    if (!t) { about.textContent = ""; return }
    const [text, , id, p, loss, rank] = t
    about.textContent = p === null ? `Token ${model.token} “${text}”, id ${id}: nothing before it predicted it.`
      : `Token ${model.token} “${text}”, id ${id}: probability ${p.toPrecision(4)}, loss ${loss.toFixed(3)} nats, rank ${(rank + 1).toLocaleString("en-US")} of ${model.tokens.vocab.toLocaleString("en-US")}.`
  }
  const chip = ([text, kind, id, p, loss], i) => h("button", {
    type: "button", class: `chip ${kind}${i >= model.tokens.first_generated ? " new" : ""}`, "data-index": i, "aria-pressed": String(i === model.token), tabindex: i === model.token ? 0 : -1,
    title: (i >= model.tokens.first_generated ? "added, " : "") + (p === null ? `id ${id}` : `id ${id}, probability ${p.toPrecision(4)}, loss ${loss.toFixed(3)} nats`),
    onclick: () => model.send_msg({ token: i }),
  }, h("span", {}, text), h("small", {}, p === null ? "–" : percent(p)),
  h("i", {}, h("b", { style: `width:${p === null ? 0 : Math.max(2, 100 * p)}%` })))
  const draw = () => {
    const rows = model.tokens.rows ?? []
    from = Math.max(0, Math.min(model.token - CAP / 2, rows.length - CAP))
    heading.replaceChildren("Each token", h("span", {}, model.tokens.summary ?? ""), ...[badge_of(model.tokens.badge)].filter(Boolean))
    list.replaceChildren(...rows.slice(from, from + CAP).map((row, i) => chip(row, from + i)))
    tell()
    follow()
  }
  const follow = () => {
    const had = list.contains(el.getRootNode().activeElement)
    for (const button of list.children) {
      const chosen = Number(button.dataset.index) === model.token
      button.setAttribute("aria-pressed", String(chosen))
      button.tabIndex = chosen ? 0 : -1
      if (chosen && had) button.focus()
    }
  }
  const move = () => {
    if (model.token < from || model.token >= from + CAP) draw()
    else { follow(); tell() }
  }
  const expect = () => {
    after.textContent = `After token ${model.next.token ?? ""}`
    const top = model.next.rows?.[0]?.[3] || 1
    next.replaceChildren(...(model.next.rows ?? []).map(([id, text, kind, p, was]) => h("li", {}, h("button", {
      type: "button", class: was ? "was" : null, "aria-label": `Go on with ${text}`, title: `id ${id}, probability ${p.toPrecision(4)}${was ? ", what came next" : ""}`,
      disabled: model.busy, onclick: () => model.send_msg({ pick: id, after: model.next.token }),
    }, h("span", { class: `piece ${kind}` }, text), h("i", {}, h("b", { style: `width:${(100 * p) / top}%` })), h("span", { class: "p" }, percent(p))))))
  }
  list.onkeydown = (event) => {
    const to = { ArrowRight: model.token + 1, ArrowLeft: model.token - 1, Home: 0, End: (model.tokens.rows?.length ?? 1) - 1 }[event.key]
    if (to === undefined || !model.tokens.rows?.[to]) return
    event.preventDefault()
    model.send_msg({ token: to })
  }
  model.on("tokens", draw)
  model.on("token", move)
  model.on("next", expect)
  model.on("busy", () => { for (const button of next.querySelectorAll("button")) button.disabled = model.busy })
  draw()
  expect()
}
