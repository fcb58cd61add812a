/**
 * What the server keeps of runs, after dom.js: a button that opens it in words, and "Forget my runs" in there.
 *
 * Shows `kept`: string[], a paragraph each.
 * Sends owner { token } as soon as the dock is there, and forget.
 */
const OWNER_KEY = "k3scope-owner"

const newToken = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")

// 32 hex digits that stay the same in this browser; without storage, as in some frames, in this page.
const ownerToken = () => {
  try {
    const stored = localStorage.getItem(OWNER_KEY) ?? ""
    const token = /^[0-9a-f]{32}$/.test(stored) ? stored : newToken()
    localStorage.setItem(OWNER_KEY, token)
    return token
  } catch {
    return newToken()
  }
}

const keptOf = (model, send) => {
  const text = h("div", { class: "text" })
  const forget = h("button", { type: "button", onclick: () => { panel.hidePopover(); send("forget") } }, "Forget my runs")
  const panel = h("div", { popover: "auto", class: "popover kept", role: "dialog", "aria-label": "What is kept" },
    h("h2", {}, "What is kept"), text,
    h("p", {}, forget, h("small", {}, "Removes what was run from this browser. A link then brings back only what its address holds.")))
  const button = h("button", { type: "button", class: "what", "aria-haspopup": "dialog" }, "What is kept")
  const draw = () => text.replaceChildren(...model.kept.map((paragraph) => h("p", {}, paragraph)))
  opensUpwards(button, panel, () => forget.focus())
  model.on("kept", draw)
  draw()
  send("owner", { token: ownerToken() })
  return { button, panel }
}
