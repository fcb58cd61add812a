// The dock, after dom.js, dock_images.js and dock_examples.js: type a prompt, run it, see its tokens and what would come next. Everything typed is set as text.
const CAP = 256 // chips shown until "show all"
const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(0)}%` : `${(100 * p).toFixed(p < 0.01 ? 2 : 1)}%`)

const chip_title = ([id, text, kind, index, count, added]) => {
  if (kind === "image") return `tokens ${index} to ${index + count - 1}: ${text}, id ${id}`
  const what = { special: "special token", byte: "one byte of a longer character", space: "white space" }[kind]
  return `token ${index}: ${text}, id ${id}${what ? `, ${what}` : ""}${added ? ", added to the prompt" : ""}`
}

const holds = (first, count, token) => token != null && token >= first && token < first + count

const chips_of = (result, chosen, show_all, choose) => {
  const list = h("div", { class: "chips", role: "group", "aria-label": "Tokens of the prompt" })
  const pieces = show_all ? result.pieces : result.pieces.slice(0, CAP)
  const current = Math.max(0, pieces.findIndex((piece) => holds(piece[3], piece[4], chosen)))
  list.append(...pieces.map((piece, at) => h("button", {
    type: "button", class: `chip ${piece[2]}${piece[5] ? " new" : ""}`, title: chip_title(piece), "data-index": piece[3], "data-count": piece[4],
    "aria-pressed": String(holds(piece[3], piece[4], chosen)), tabindex: at === current ? "0" : "-1",
  }, h("span", {}, piece[1]), h("small", {}, String(piece[0])))))
  list.onclick = (event) => {
    const chip = event.target.closest(".chip")
    if (chip) choose(Number(chip.dataset.index), Number(chip.dataset.count))
  }
  list.onkeydown = (event) => {
    const at = [...list.children].indexOf(event.target.closest(".chip"))
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: list.children.length - 1 }[event.key]
    if (at < 0 || !list.children[to]) return
    event.preventDefault()
    list.children[at].tabIndex = -1
    list.children[to].tabIndex = 0
    list.children[to].focus()
  }
  return list
}

const next_of = (result) => {
  const top = result.next[0]?.[3] || 1
  const row = ([id, text, kind, p]) => h("li", { title: `id ${id}, probability ${p.toPrecision(4)}` },
    h("span", { class: `piece ${kind}` }, text), h("small", {}, String(id)),
    h("i", {}, h("b", { style: `width:${(100 * p) / top}%` })), h("span", { class: "p" }, percent(p)))
  return h("section", { class: "next", "aria-label": "Likeliest next tokens" },
    h("h3", {}, "Next token", badge_of(result.badge)),
    h("ol", {}, ...result.next.map(row)))
}

export function render({ model, el }) {
  const send = (type, more = {}) => model.send_msg({ type, ...more })
  const runs_on = h("select", { "aria-label": "Model that runs", class: "model" })
  const prompt = h("textarea", {
    rows: "1", "aria-label": "Prompt", spellcheck: "false", autocomplete: "off", placeholder: "Type a prompt, press Enter",
  })
  const examples = examples_of(model, send)
  const run = h("button", { type: "submit", class: "run", title: "Run (Enter; Shift+Enter makes a new line)" }, "Run")
  const cancel = h("button", { type: "button", class: "cancel", hidden: true }, "Cancel")
  const fold = h("button", { type: "button", class: "fold", "aria-expanded": "true", hidden: true })
  const bar = h("progress", { max: "1", value: "0", "aria-label": "Layers done", hidden: true })
  const told = h("span", { role: "status", "data-testid": "run-status" })
  const look = h("p", { class: "look", "data-testid": "look", hidden: true })
  const problem = h("p", { role: "alert", class: "problem", hidden: true })
  const result = h("div", { class: "result", hidden: true })
  let folded = model.beside_lab, show_all = false, refused = "", wanted = false
  const root = h("div", { class: "frame" })
  const images = images_of(model, root, send, (sentence) => { refused = sentence; draw_problem() })
  const form = h("form", { class: "line" }, runs_on, prompt, images.button, examples.button, run, cancel, fold)
  root.append(form, images.input, images.strip, images.unread, h("div", { class: "status" }, bar, told), problem, look, result, examples.panel)
  el.append(root)

  const grow = () => {
    prompt.style.height = "auto"
    prompt.style.height = `${prompt.scrollHeight + 2}px`
  }
  const start = () => {
    wanted = images.waiting() // then the run starts when they are there
    if (model.busy || wanted) return
    refused = ""
    send("run", { model: runs_on.value, prompt: prompt.value })
  }
  form.onsubmit = (event) => { event.preventDefault(); start() }
  runs_on.onchange = () => send("model", { model: runs_on.value })
  prompt.oninput = grow
  prompt.onkeydown = (event) => {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return
    event.preventDefault()
    start()
  }
  cancel.onclick = () => send("cancel")
  fold.onclick = () => { folded = !folded; draw_result() }
  const fill = () => {
    runs_on.replaceChildren(...model.models.map(([name, note]) => h("option", { value: name }, note)))
    runs_on.value = model.model_name
  }
  const draw_progress = () => {
    const { text, done, of } = model.progress
    run.hidden = model.busy
    cancel.hidden = !model.busy
    bar.hidden = !model.busy
    bar.max = of || 1
    if (model.busy && !of) bar.removeAttribute("value")
    else bar.value = done || 0
    told.textContent = text ?? ""
  }
  const draw_problem = () => {
    problem.textContent = refused || model.problem
    problem.hidden = !problem.textContent
  }
  const draw_result = () => {
    const shown = model.result
    look.textContent = shown.look ?? ""
    look.hidden = !shown.look
    const some = Boolean(shown.pieces)
    fold.hidden = !some
    fold.setAttribute("aria-expanded", String(!folded))
    fold.setAttribute("aria-label", folded ? "Show the tokens" : "Fold the tokens away")
    fold.title = fold.getAttribute("aria-label")
    result.hidden = !some || folded
    if (result.hidden) return result.replaceChildren()
    const more = shown.pieces.length > CAP && !show_all
      ? h("button", { type: "button", class: "more", onclick: () => { show_all = true; draw_result() } },
        `Show all ${shown.count.toLocaleString("en-US")} tokens`) : null
    const choose = (index, count) => send("token", { index: holds(index, count, model.token) ? null : index })
    const tokens = h("section", { class: "tokens" }, chips_of(shown, model.token, show_all, choose), more)
    result.replaceChildren(tokens, next_of(shown))
  }
  const mark_token = () => {
    for (const chip of result.querySelectorAll(".chip"))
      chip.setAttribute("aria-pressed", String(holds(Number(chip.dataset.index), Number(chip.dataset.count), model.token)))
  }

  model.on("models", fill)
  model.on("model_name", () => { runs_on.value = model.model_name })
  model.on("prompt", () => { prompt.value = model.prompt; grow() })
  model.on("busy", draw_progress)
  model.on("progress", draw_progress)
  model.on("problem", draw_problem)
  model.on("received", () => { if (wanted) start() })
  model.on("result", () => { show_all = false; draw_result() })
  model.on("token", mark_token)
  model.on("beside_lab", () => { folded = model.beside_lab; draw_result() })
  fill()
  prompt.value = model.prompt
  draw_progress()
  draw_problem()
  draw_result()
  requestAnimationFrame(grow)
}
