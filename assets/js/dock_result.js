/**
 * The tokens of a run and what would come next, after dom.js: a part of the dock that can be folded away.
 *
 * Shows `result`: { chips: [id, text, kind, first position, count of tokens, whether generated][], count,
 * next: [id, text, kind, probability][], no_next (why there is none), badge, caption }; `token` is the chosen
 * position.
 * Sends token { index }, null when the chosen one is clicked again.
 */
const MAX_CHIPS = 256 // until "show all"
const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(0)}%` : `${(100 * p).toFixed(p < 0.01 ? 2 : 1)}%`)
const KINDS = { special: "special token", byte: "one byte of a longer character", space: "white space" }

const chipTitle = ([id, text, kind, first, count, generated]) => {
  if (kind === "image") return `tokens ${first} to ${first + count - 1}: ${text}, id ${id}`
  return `token ${first}: ${text}, id ${id}${KINDS[kind] ? `, ${KINDS[kind]}` : ""}${generated ? ", added to the prompt" : ""}`
}

const holds = (first, count, token) => token != null && token >= first && token < first + count

const chipList = (chips, chosen, choose) => {
  const list = h("div", { class: "chips", role: "group", "aria-label": "Tokens of the prompt" })
  const current = Math.max(0, chips.findIndex(([, , , first, count]) => holds(first, count, chosen)))
  list.append(...chips.map((chip, i) => {
    const [id, text, kind, first, count, generated] = chip
    return h("button", {
      type: "button", class: `chip ${kind}${generated ? " new" : ""}`, title: chipTitle(chip), "data-index": first, "data-count": count,
      "aria-pressed": String(holds(first, count, chosen)), tabindex: i === current ? "0" : "-1",
    }, h("span", {}, text), h("small", {}, String(id)))
  }))
  list.onclick = (event) => {
    const chip = event.target.closest(".chip")
    if (chip) choose(Number(chip.dataset.index), Number(chip.dataset.count))
  }
  list.onkeydown = (event) => {
    const from = [...list.children].indexOf(event.target.closest(".chip"))
    const to = { ArrowRight: from + 1, ArrowLeft: from - 1, Home: 0, End: list.children.length - 1 }[event.key]
    if (from < 0 || !list.children[to]) return
    event.preventDefault()
    list.children[from].tabIndex = -1
    list.children[to].tabIndex = 0
    list.children[to].focus()
  }
  return list
}

const nextTokens = (result) => {
  const top = result.next[0]?.[3] || 1
  const row = ([id, text, kind, p]) => h("li", { title: `id ${id}, probability ${p.toPrecision(4)}` },
    h("span", { class: `token ${kind}` }, text), h("small", {}, String(id)),
    h("i", {}, h("b", { style: `width:${(100 * p) / top}%` })), h("span", { class: "p" }, percent(p)))
  return h("section", { class: "next", "aria-label": "Likeliest next tokens" },
    h("h3", {}, "Next token", badgeOf(result.badge)),
    result.no_next ? h("p", {}, result.no_next) : h("ol", {}, ...result.next.map(row)))
}

// The button that folds the tokens away, the caption of an example, and the result itself.
const resultOf = (model, send) => {
  const fold = h("button", { type: "button", class: "fold", "aria-expanded": "true", hidden: true })
  const caption = h("p", { class: "caption", "data-testid": "look", hidden: true })
  const body = h("div", { class: "result", hidden: true })
  let folded = model.beside_lab, showAll = false

  const drawFold = (hasResult) => {
    fold.hidden = !hasResult
    fold.setAttribute("aria-expanded", String(!folded))
    fold.title = folded ? "Show the tokens" : "Fold the tokens away"
    fold.setAttribute("aria-label", fold.title)
  }
  const choose = (first, count) => send("token", { index: holds(first, count, model.token) ? null : first })
  const draw = () => {
    const { result } = model, hasResult = Boolean(result.chips)
    caption.textContent = result.caption ?? ""
    caption.hidden = !result.caption
    drawFold(hasResult)
    body.hidden = !hasResult || folded
    if (body.hidden) return body.replaceChildren()
    const chips = showAll ? result.chips : result.chips.slice(0, MAX_CHIPS)
    const rest = chips.length < result.chips.length
      ? h("button", { type: "button", class: "rest", onclick: () => { showAll = true; draw() } },
        `Show all ${result.count.toLocaleString("en-US")} tokens`) : null
    body.replaceChildren(h("section", { class: "tokens" }, chipList(chips, model.token, choose), rest), nextTokens(result))
  }
  const markToken = () => {
    for (const chip of body.querySelectorAll(".chip"))
      chip.setAttribute("aria-pressed", String(holds(Number(chip.dataset.index), Number(chip.dataset.count), model.token)))
  }
  fold.onclick = () => { folded = !folded; draw() }
  model.on("result", () => { showAll = false; draw() })
  model.on("token", markToken)
  model.on("beside_lab", () => { folded = model.beside_lab; draw() })
  draw()
  return { fold, caption, body }
}
