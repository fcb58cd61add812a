/**
 * Every token of the run with its numbers, after dom.js and lab_continuation.js; and what the model expects
 * after the chosen one.
 *
 * Shows `tokens`: { rows: [text, kind, id, probability, loss, rank][], vocab, summary, badge, first_generated },
 * numbers null where nothing predicted a token, its rank -1 where what did is not finite; and `next`: { token,
 * rows: [id, text, kind, probability, whether it came next][], problem }; `token` is the chosen one.
 * Sends { token: position } to choose one, and { append: id, after: position } to go on with a candidate.
 */
const MAX_CHIPS = 256
const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(0)}%` : p >= 0.00095 ? `${(100 * p).toFixed(1)}%` : "<0.1%")
const progressBar = (share) => h("i", {}, h("b", { style: `width:${share}%` }))

const tokenSentence = (position, [text, , id, p, loss, rank], vocab) => {
  const name = `Token ${position} “${text}”, id ${id}`
  if (rank === -1) return `${name}: its probability is not a number.`
  if (p === null) return `${name}: nothing before it predicted it.`
  const [ordinal, all] = [rank + 1, vocab].map((n) => n.toLocaleString("en-US"))
  return `${name}: probability ${p.toPrecision(4)}, loss ${loss.toFixed(3)} nats, rank ${ordinal} of ${all}.`
}

const tokenChip = (model, [text, kind, id, p, loss, rank], position) => {
  const generated = position >= model.tokens.first_generated, chosen = position === model.token
  const numbers = rank === -1 ? ", probability not a number" : p === null ? "" : `, probability ${p.toPrecision(4)}, loss ${loss.toFixed(3)} nats`
  return h("button", {
    type: "button", class: `chip ${kind}${generated ? " new" : ""}`, "data-index": position,
    "aria-pressed": String(chosen), tabindex: chosen ? 0 : -1,
    title: `${generated ? "added, " : ""}id ${id}${numbers}`, onclick: () => model.send_msg({ token: position }),
  }, h("span", {}, text), h("small", {}, rank === -1 ? "not a number" : p === null ? "–" : percent(p)),
  progressBar(p === null ? 0 : Math.max(2, 100 * p)))
}

const candidate = (model, [id, text, kind, p, actual], top) => h("li", {}, h("button", {
  type: "button", class: actual ? "actual" : null, "aria-label": `Go on with ${text}`,
  title: `id ${id}, probability ${p.toPrecision(4)}${actual ? ", what came next" : ""}`,
  disabled: model.busy, onclick: () => model.send_msg({ append: id, after: model.next.token }),
}, h("span", { class: `token ${kind}` }, text), progressBar((100 * p) / top), h("span", { class: "p" }, percent(p))))

export function render({ model, el }) {
  const list = h("div", { class: "chips", role: "group", "aria-label": "Tokens with their probability" })
  const status = h("p", { role: "status" }), next = h("ol", {})
  const heading = h("h2", {}), after = h("h2", {}), hint = h("p", {})
  let first = 0 // position of the first chip: of a long run only those around the chosen token are drawn
  el.append(h("div", { class: "tokens" },
    h("section", {}, heading, list, status, continuationForm(model)),
    h("section", { class: "next" }, after, hint, next)))

  const drawStatus = () => {
    const row = model.tokens.rows?.[model.token]
    status.textContent = row ? tokenSentence(model.token, row, model.tokens.vocab) : ""
  }
  const markChosen = () => {
    const focused = list.contains(el.getRootNode().activeElement)
    for (const chip of list.children) {
      const chosen = Number(chip.dataset.index) === model.token
      chip.setAttribute("aria-pressed", String(chosen))
      chip.tabIndex = chosen ? 0 : -1
      if (chosen && focused) chip.focus()
    }
    drawStatus()
  }
  const draw = () => {
    const { rows = [], summary, badge } = model.tokens
    first = Math.max(0, Math.min(model.token - MAX_CHIPS / 2, rows.length - MAX_CHIPS))
    heading.replaceChildren("Each token", h("span", {}, summary ?? ""), ...[badgeOf(badge)].filter(Boolean))
    list.replaceChildren(...rows.slice(first, first + MAX_CHIPS).map((row, i) => tokenChip(model, row, first + i)))
    markChosen()
  }
  const drawNext = () => {
    const rows = model.next.rows ?? [], top = rows[0]?.[3] || 1
    after.textContent = `After token ${model.next.token ?? ""}`
    hint.textContent = model.next.problem || "Choose one to go on from there."
    next.replaceChildren(...rows.map((row) => candidate(model, row, top)))
  }
  list.onkeydown = (event) => {
    const last = (model.tokens.rows?.length ?? 1) - 1
    const to = { ArrowRight: model.token + 1, ArrowLeft: model.token - 1, Home: 0, End: last }[event.key]
    if (to === undefined || !model.tokens.rows?.[to]) return
    event.preventDefault()
    model.send_msg({ token: to })
  }
  model.on("tokens", draw)
  model.on("token", () => (model.token < first || model.token >= first + MAX_CHIPS ? draw() : markChosen()))
  model.on("next", drawNext)
  model.on("busy", () => { for (const button of next.querySelectorAll("button")) button.disabled = model.busy })
  draw()
  drawNext()
}
