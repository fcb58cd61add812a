// Images before the prompt, after dom.js: chosen, dropped or pasted. Each goes to the server once, in base64.
const ICON = "M3 4h14v12H3zM3 13l4-4 3 3 3-4 4 4M7 7.5h.01"

const icon = () => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  svg.setAttribute("viewBox", "0 0 20 20")
  svg.setAttribute("aria-hidden", "true")
  const line = document.createElementNS(svg.namespaceURI, "path")
  line.setAttribute("d", ICON)
  svg.append(line)
  return svg
}

const why_not = (file, have, limits) => {
  const most = limits.bytes / 2 ** 20
  if (!file.type.startsWith("image/")) return `${file.name} is no image.`
  if (!file.size) return `${file.name} is empty.`
  if (file.size > limits.bytes)
    return `${file.name} has ${(file.size / 2 ** 20).toFixed(1)} MB; an image here has at most ${most} MB.`
  if (have >= limits.images) return `${file.name} is one too many: a prompt takes at most ${limits.images} images.`
  return ""
}

const base64 = (file) => new Promise((done, failed) => {
  const reader = new FileReader()
  reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1))
  reader.onerror = () => failed(reader.error)
  reader.readAsDataURL(file)
})

const image_chip = (image, index, send) => {
  const rows = image.rows ? `${image.rows.toLocaleString("en-US")} row${image.rows > 1 ? "s" : ""}` : ""
  const facts = [image.size, rows, image.note].filter(Boolean).join(" · ")
  return h("li", {},
    h("img", { src: image.thumb, alt: "" }),
    h("span", { class: "named" }, h("b", {}, image.name), h("small", {}, facts)),
    image.large ? h("button", {
      type: "button", onclick: () => send("shrink", { index }), "aria-label": `Scale ${image.name} down`,
      title: "Fewer rows leave room for text",
    }, "Scale down") : null,
    h("button", {
      type: "button", class: "remove", onclick: () => send("remove", { index }), "aria-label": `Remove ${image.name}`,
    }, "×"))
}

// The button, the strip of images and what listens for files; `refuse` shows a sentence.
const images_of = (model, root, send, refuse) => {
  const input = h("input", { type: "file", accept: "image/*", multiple: true, hidden: true })
  const button = h("button", {
    type: "button", class: "add", onclick: () => input.click(),
  }, icon(), h("span", {}, "Image"))
  const strip = h("ul", { class: "images", "aria-label": "Images before the prompt", "aria-live": "polite" })
  const unread = h("p", { role: "status", class: "problem" })
  const coming = [] // names of files on their way
  let sent = 0

  const draw = () => {
    const held = strip.contains(strip.getRootNode().activeElement)
    const waiting = coming.map((name) => h("li", { class: "coming" }, `Reading ${name} …`))
    strip.replaceChildren(...model.images.map((image, index) => image_chip(image, index, send)), ...waiting)
    strip.hidden = !strip.children.length
    button.disabled = Boolean(model.blind)
    button.title = model.blind || "Add an image (or drop or paste one)"
    const one = model.images.length === 1
    unread.textContent = model.blind && model.images.length
      ? `${model.blind} and will not take ${one ? "this image" : "these images"}: choose another model, or remove ${one ? "it" : "them"}.` : ""
    unread.hidden = !unread.textContent
    if (held) (strip.querySelector(".remove") ?? button).focus()
  }
  const add = async (files) => {
    refuse(model.blind && files.length ? `${model.blind}, so it takes no images.` : "")
    if (model.blind) return
    for (const file of files) {
      const reason = why_not(file, model.images.length + coming.length, model.limits)
      if (reason) { refuse(reason); continue }
      coming.push(file.name)
      sent += 1
      draw()
      send("image", { name: file.name, data: await base64(file).catch(() => "?") }) // the server says what is wrong
    }
  }
  input.onchange = () => { add([...input.files]); input.value = "" }
  root.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files]
    if (!files.length || event.clipboardData.getData("text/plain")) return
    event.preventDefault()
    add(files)
  })
  // anywhere on the page: a file dropped beside the dock must not replace the page
  const gone = new AbortController()
  const listen = (name, act) => document.addEventListener(name, (event) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return
    event.preventDefault()
    act(event)
  }, { signal: gone.signal })
  listen("dragover", () => root.classList.add("over"))
  listen("dragleave", (event) => { if (!event.relatedTarget) root.classList.remove("over") })
  listen("drop", (event) => { root.classList.remove("over"); add([...event.dataTransfer.files]) })
  model.on("remove", () => gone.abort())
  model.on("images", draw)
  model.on("blind", draw)
  model.on("received", () => { coming.splice(0, coming.length - (sent - model.received)); draw() })
  draw()
  return { button, input, strip, unread, waiting: () => coming.length > 0 }
}
