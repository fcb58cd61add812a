/**
 * Images attached to the prompt, after dom.js: chosen, dropped or pasted. Each goes to the server once, in base64 and in
 * pieces: a message has a limit.
 *
 * Shows `attachments`: { name, size, rows, note, thumb, large }[]; `no_vision` is a sentence that the model takes none;
 * `received` counts the files that have arrived, attached or refused; `limits`: { images, bytes, piece }.
 * Sends attach { name, data, part, of }, cancel_attach, which stops what is being read, remove { index } and shrink { index }.
 */
const ICON = "M3 4h14v12H3zM3 13l4-4 3 3 3-4 4 4M7 7.5h.01"
const MEGABYTE = 2 ** 20

const imageIcon = () => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  svg.setAttribute("viewBox", "0 0 20 20")
  svg.setAttribute("aria-hidden", "true")
  const path = document.createElementNS(svg.namespaceURI, "path")
  path.setAttribute("d", ICON)
  svg.append(path)
  return svg
}

// Why a file cannot be attached, known before it is sent; the server checks what is in it.
const refusal = (file, attached, limits) => {
  if (!file.type.startsWith("image/")) return `${file.name} is no image.`
  if (!file.size) return `${file.name} is empty.`
  if (file.size > limits.bytes)
    return `${file.name} has ${(file.size / MEGABYTE).toFixed(1)} MB; an image here has at most ${limits.bytes / MEGABYTE} MB.`
  if (attached >= limits.images) return `${file.name} is one too many: a prompt takes at most ${limits.images} images.`
  return ""
}

const toBase64 = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader()
  reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1))
  reader.onerror = () => reject(reader.error)
  reader.readAsDataURL(file)
})

const attachmentItem = (image, index, send) => {
  const rows = image.rows ? `${image.rows.toLocaleString("en-US")} row${image.rows > 1 ? "s" : ""}` : ""
  const facts = [image.size, rows, image.note].filter(Boolean).join(" · ")
  return h("li", {},
    h("img", { src: image.thumb, alt: "" }),
    h("span", { class: "description" }, h("b", {}, image.name), h("small", {}, facts)),
    image.large ? h("button", {
      type: "button", onclick: () => send("shrink", { index }), "aria-label": `Scale ${image.name} down`,
      title: "Fewer rows leave room for text",
    }, "Scale down") : null,
    h("button", {
      type: "button", class: "remove", onclick: () => send("remove", { index }), "aria-label": `Remove ${image.name}`,
    }, "×"))
}

// Files that are pasted into the dock, or dropped anywhere on the page: one dropped beside the dock must not
// replace the page. Listening ends with the component.
const listenForFiles = (model, root, add) => {
  root.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files]
    if (!files.length || event.clipboardData.getData("text/plain")) return // text copied with a picture of it is text
    event.preventDefault()
    add(files)
  })
  const removed = new AbortController()
  const listen = (name, act) => document.addEventListener(name, (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return
    event.preventDefault()
    act(event)
  }, { signal: removed.signal })
  listen("dragover", () => root.classList.add("dragged-over"))
  listen("dragleave", (event) => { if (!event.relatedTarget) root.classList.remove("dragged-over") })
  listen("drop", (event) => { root.classList.remove("dragged-over"); add([...event.dataTransfer.files]) })
  model.on("remove", () => removed.abort())
}

// The button, the strip of attachments and what listens for files; `refuse` shows a sentence.
const attachmentsOf = (model, root, send, refuse) => {
  const input = h("input", { type: "file", accept: "image/*", multiple: true, hidden: true })
  const button = h("button", { type: "button", class: "add", onclick: () => input.click() }, imageIcon(), h("span", {}, "Image"))
  const strip = h("ul", { class: "attachments", "aria-label": "Images before the prompt", "aria-live": "polite" })
  const warning = h("p", { role: "status", class: "problem" })
  const pending = [] // names of files on their way, in the order in which they were sent
  let sent = 0
  let sending = Promise.resolve() // pieces of two files must not mix

  const sendFile = async (file) => {
    const data = await toBase64(file).catch(() => "?") // "?": the server says what is wrong
    const of = Math.ceil(data.length / model.limits.piece)
    for (let part = 0; part < of; part += 1) {
      const piece = data.slice(part * model.limits.piece, (part + 1) * model.limits.piece)
      send("attach", { name: file.name, data: piece, part, of })
    }
  }
  const draw = () => {
    const focused = strip.contains(strip.getRootNode().activeElement)
    const reading = pending.map((name) => h("li", { class: "pending" }, `Reading ${name} …`,
      h("button", { type: "button", class: "remove", onclick: () => send("cancel_attach", {}), "aria-label": "Stop reading" }, "×")))
    strip.replaceChildren(...model.attachments.map((image, index) => attachmentItem(image, index, send)), ...reading)
    strip.hidden = !strip.children.length
    button.disabled = Boolean(model.no_vision)
    button.title = model.no_vision || "Add an image (or drop or paste one)"
    const one = model.attachments.length === 1
    warning.textContent = model.no_vision && model.attachments.length
      ? `${model.no_vision} and will not take ${one ? "this image" : "these images"}: choose another model, or remove ${one ? "it" : "them"}.` : ""
    warning.hidden = !warning.textContent
    if (focused) (strip.querySelector(".remove") ?? button).focus()
  }
  const add = (files) => {
    refuse(model.no_vision && files.length ? `${model.no_vision}, so it takes no images.` : "")
    if (model.no_vision) return
    for (const file of files) {
      const reason = refusal(file, model.attachments.length + pending.length, model.limits)
      if (reason) { refuse(reason); continue }
      pending.push(file.name)
      sent += 1
      draw()
      sending = sending.then(() => sendFile(file))
    }
  }
  input.onchange = () => { add([...input.files]); input.value = "" }
  listenForFiles(model, root, add)
  model.on("attachments", draw)
  model.on("no_vision", draw)
  model.on("received", () => { pending.splice(0, pending.length - (sent - model.received)); draw() })
  draw()
  return { button, input, strip, warning, isPending: () => pending.length > 0 }
}
