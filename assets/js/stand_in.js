// What a drawing is given in place of a server's model: plain values, and who wants to hear of changes.
// `take` changes a value and says so here; a plain assignment tells `changed` too.
const standIn = (values, changed) => {
  const heard = {}
  const made = {
    on: (name, act) => { (heard[name] ??= []).push(act) },
    take: (name, value) => {
      values[name] = value
      for (const act of heard[name] ?? []) act()
    },
  }
  for (const name of Object.keys(values))
    Object.defineProperty(made, name, {
      get: () => values[name],
      set: (value) => {
        if (value === values[name]) return
        made.take(name, value)
        changed(name, value)
      },
    })
  return made
}
