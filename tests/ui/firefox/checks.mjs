// Firefox opens the page at a base address and goes through it: `node checks.mjs BASE FIREFOX DOWNLOADS`.
// Prints a JSON object per check: its name, and why it failed or null.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import { addressHas, click, find, measureAll, until, visit } from "./page.mjs";

const [BASE, FIREFOX, DOWNLOADS] = process.argv.slice(2);
const STARTS = { svg: "<svg", png: "\x89PNG" };

function expect(holds, why) {
  if (!holds) throw new Error(typeof why === "string" ? why : JSON.stringify(why));
}

const luminance = (page) =>
  page.evaluate(() => {
    const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    return (r + g + b) / (3 * 255);
  });

const focusedName = (page) =>
  page.evaluate(() => {
    let at = document.activeElement;
    while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return at.getAttribute("aria-label") || at.textContent.trim();
  });

async function diagramIsDrawn({ page }) {
  const boxes = await measureAll(page, "[role=treeitem]", (at) => {
    const { width, height } = at.getBoundingClientRect();
    return { title: (at.getAttribute("aria-label") ?? "").split(",")[0], width, height };
  });
  const [drawn] = await measureAll(page, "[role=tree]", (at) => at.textContent);
  expect(boxes.length >= 5, `${boxes.length} boxes`);
  const wrong = boxes.filter((box) => !box.title || !drawn.includes(box.title) || box.width < 10 || box.height < 5);
  expect(wrong.length === 0, wrong);
}

async function clickSelects({ page }) {
  await click(page, "[role=treeitem]", "Token embedding");
  await addressHas(page, "select=token_embedding");
  await find(page, "[data-testid=subject]", "Token embedding");
}

async function keysMoveAndSelect({ page }) {
  const before = await focusedName(page);
  await page.keyboard.press("ArrowDown");
  const name = await until(async () => {
    const now = await focusedName(page);
    return now !== before && now;
  }, `the focus leaves ${before}`);
  await page.keyboard.press("Enter");
  await until(async () => !page.url().includes("select=token_embedding"), "another block in the address");
  await find(page, "[data-testid=subject]", name.split(",")[0]);
}

async function backReturns({ page }) {
  await page.evaluate(() => history.back());
  await addressHas(page, "select=token_embedding");
  await find(page, "[data-testid=subject]", "Token embedding");
}

async function promptRuns({ page }) {
  await click(page, "textarea[aria-label=Prompt]", "");
  await page.keyboard.type("a b 12");
  await click(page, "button", "Run");
  const status = await find(page, "[data-testid=run-status]");
  await until(() => status.evaluate((at) => at.textContent.includes(" ms · ")), "the time of the run");
  const tokens = await measureAll(page, "[aria-label='Tokens of the prompt'] button", (at) => at.textContent);
  expect(tokens.length >= 3, tokens);
}

async function labDraws({ page }) {
  await click(page, "[role=tab]", "Lab");
  const colours = () =>
    measureAll(page, "canvas", (at) => {
      if (!at.width || !at.height) return 0;
      const { data } = at.getContext("2d").getImageData(0, 0, at.width, at.height);
      return new Set(new Uint32Array(data.buffer)).size;
    });
  await until(async () => (await colours()).some((count) => count > 10), "a picture of over 10 colours");
}

async function darkIsDark({ page }) {
  const light = await luminance(page);
  await click(page, "button", "Dark theme");
  await until(async () => (await luminance(page)) < 0.3, "a dark background");
  expect(light > 0.7, `luminance before: ${light}`);
}

async function filesAreSaved({ page }) {
  await click(page, "[role=tab]", "Architecture");
  for (const form of ["SVG", "PNG"]) {
    const ending = form.toLowerCase();
    await click(page, "[aria-label='Export the drawing']", "");
    await click(page, "button", form);
    const finished = (name) => name.endsWith(`.${ending}`);
    const name = await until(async () => (await readdir(DOWNLOADS)).find(finished), `a ${form} file`);
    const begins = async () => (await readFile(join(DOWNLOADS, name), "latin1")).startsWith(STARTS[ending]);
    await until(begins, `${name} is ${form}`);
  }
}

async function phoneFits({ browser, wrong }) {
  const page = await visit(browser, BASE, wrong);
  await page.setViewport({ width: 390, height: 844 });
  await find(page, "[role=treeitem]");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width <= 390, `the page is ${width} wide`);
}

const CHECKS = {
  "the diagram is drawn": diagramIsDrawn,
  "a click selects a box": clickSelects,
  "keys move and select": keysMoveAndSelect,
  "back returns": backReturns,
  "a prompt runs": promptRuns,
  "the lab draws": labDraws,
  "dark is dark": darkIsDark,
  "files are saved": filesAreSaved,
  "a phone has no sideways scroll": phoneFits,
};

async function report(name, check) {
  let failed = null;
  try {
    await check();
  } catch (error) {
    failed = String(error);
  }
  console.log(JSON.stringify({ name, failed }));
}

const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath: FIREFOX,
  headless: true,
  extraPrefsFirefox: {
    "browser.download.folderList": 2,
    "browser.download.dir": DOWNLOADS,
    "browser.download.alwaysOpenPanel": false,
    "ui.systemUsesDarkTheme": 0,
  },
});
try {
  const wrong = { errors: [], violations: [] };
  const page = await visit(browser, BASE, wrong);
  for (const [name, check] of Object.entries(CHECKS)) await report(name, () => check({ browser, page, wrong }));
  await report("the console has no errors", () => expect(wrong.errors.length === 0, wrong.errors));
  await report("the content security policy refuses nothing", () =>
    expect(wrong.violations.length === 0, wrong.violations),
  );
} finally {
  await browser.close();
}
