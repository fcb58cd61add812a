/**
 * The dock, after dom.js and dock_*.js: type a prompt, run it, see its tokens and what would come next.
 * Everything typed is set as text.
 *
 * Shows `models`: [name, label][], `model_name`, `prompt`, `busy`, `progress`: { text, done, of } and `problem`.
 * Sends messages { type, ... }: run { model, prompt }, model { model }, cancel; and those of its parts.
 */
export function render({ model, el }) {
  const send = (type, fields = {}) => model.send_msg({ type, ...fields })
  const modelMenu = h("select", { "aria-label": "Model that runs", class: "model" })
  const prompt = h("textarea", {
    rows: "1", "aria-label": "Prompt", spellcheck: "false", autocomplete: "off", placeholder: "Type a prompt, press Enter",
  })
  const run = h("button", { type: "submit", class: "run", title: "Run (Enter; Shift+Enter makes a new line)" }, "Run")
  const cancel = h("button", { type: "button", class: "cancel", hidden: true, onclick: () => send("cancel") }, "Cancel")
  const bar = h("progress", { max: "1", value: "0", "aria-label": "Layers done", hidden: true })
  const status = h("span", { role: "status", "data-testid": "run-status" })
  const problem = h("p", { role: "alert", class: "problem", hidden: true })
  let refused = "" // why a file was not attached; stands in place of the server's problem until the next run
  let waiting = false // for attachments on their way: the run starts when they have arrived
  const drawProblem = () => {
    problem.textContent = refused || model.problem
    problem.hidden = !problem.textContent
  }
  const root = h("div", { class: "frame" })
  const attachments = attachmentsOf(model, root, send, (sentence) => { refused = sentence; drawProblem() })
  const examples = examplesOf(model, send)
  const kept = keptOf(model, send)
  const result = resultOf(model, send)
  const form = h("form", { class: "prompt-row" }, modelMenu, prompt, attachments.button, examples.button, run, cancel, result.fold)
  root.append(form, attachments.input, attachments.strip, attachments.warning,
    h("div", { class: "status" }, bar, status, kept.button), problem, result.caption, result.body, examples.panel, kept.panel)
  el.append(root)

  const fitPrompt = () => {
    prompt.style.height = "auto"
    prompt.style.height = `${prompt.scrollHeight + 2}px`
  }
  const start = () => {
    waiting = attachments.isPending()
    if (model.busy || waiting) return
    refused = ""
    send("run", { model: modelMenu.value, prompt: prompt.value })
  }
  form.onsubmit = (event) => { event.preventDefault(); start() }
  modelMenu.onchange = () => send("model", { model: modelMenu.value })
  prompt.oninput = fitPrompt
  prompt.onkeydown = (event) => {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return
    event.preventDefault()
    start()
  }
  const drawModels = () => {
    modelMenu.replaceChildren(...model.models.map(([name, label]) => h("option", { value: name }, label)))
    modelMenu.value = model.model_name
  }
  const drawProgress = () => {
    const { text, done, of } = model.progress
    run.hidden = model.busy
    cancel.hidden = bar.hidden = !model.busy
    bar.max = of || 1
    if (model.busy && !of) bar.removeAttribute("value")
    else bar.value = done || 0
    status.textContent = text ?? ""
  }

  model.on("models", drawModels)
  model.on("model_name", () => { modelMenu.value = model.model_name })
  model.on("prompt", () => { prompt.value = model.prompt; fitPrompt() })
  model.on("busy", drawProgress)
  model.on("progress", drawProgress)
  model.on("problem", drawProblem)
  model.on("received", () => { if (waiting) start() })
  drawModels()
  prompt.value = model.prompt
  drawProgress()
  drawProblem()
  requestAnimationFrame(fitPrompt)
}
