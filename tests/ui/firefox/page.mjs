// A page of k3scope in Firefox: what is found through shadow roots, what is waited for, what goes wrong.

const PATIENCE = 30_000; // ms; CI machines are slow
const BETWEEN = 100; // ms between two looks

/** Wait until `look` gives something, and return it. */
export async function until(look, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`not within ${PATIENCE / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, BETWEEN));
  }
}

/** The first element, in any shadow root, that is shown and whose name begins as given. */
export function find(page, css, name = "") {
  const look = async () => {
    const handle = await page.evaluateHandle(
      (css, name) => {
        const all = (root) =>
          [...root.querySelectorAll("*")].flatMap((at) => [at, ...(at.shadowRoot ? all(at.shadowRoot) : [])]);
        const called = (at) => (at.getAttribute("aria-label") || at.textContent).trim();
        const shown = (at) => at.getClientRects().length > 0;
        return all(document).find((at) => at.matches(css) && shown(at) && called(at).startsWith(name)) ?? null;
      },
      css,
      name,
    );
    return handle.asElement();
  };
  return until(look, `${css} "${name}"`);
}

/** What `measure` makes of every element, in any shadow root, that is shown. */
export function measureAll(page, css, measure) {
  return page.evaluate(
    (css, measure) => {
      const all = (root) =>
        [...root.querySelectorAll("*")].flatMap((at) => [at, ...(at.shadowRoot ? all(at.shadowRoot) : [])]);
      const shown = all(document).filter((at) => at.matches(css) && at.getClientRects().length > 0);
      return shown.map(new Function(`return ${measure}`)());
    },
    css,
    measure.toString(),
  );
}

export async function click(page, css, name) {
  const at = await find(page, css, name);
  await at.click();
}

/** Wait until the address holds a text. */
export function addressHas(page, text) {
  return until(async () => (await page.evaluate(() => location.search)).includes(text), `${text} in the address`);
}

/** Open a link and wait until the page is alive; `wrong` gets errors and refusals of the content security policy. */
export async function visit(browser, address, wrong) {
  const page = await browser.newPage();
  page.on("console", (line) => line.type() === "error" && wrong.errors.push(line.text()));
  page.on("pageerror", (error) => wrong.errors.push(String(error)));
  page.on("response", (got) => got.status() >= 400 && wrong.errors.push(`${got.status()} ${got.url()}`));
  await page.exposeFunction("reportViolation", (text) => wrong.violations.push(text));
  await page.evaluateOnNewDocument(() => {
    addEventListener("securitypolicyviolation", (event) => {
      window.reportViolation(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`);
    });
  });
  await page.setViewport({ width: 1440, height: 900 });
  await page.goto(address);
  await until(() => page.evaluate(() => document.documentElement.classList.contains("live")), "html.live");
  return page;
}
