// Drives a headless Chromium through its debugging pipe: no port, no package, and no request to a network.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

export const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

const MOST = 600_000; // milliseconds: what never comes true must not hang
const NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/** The path of Chromium or Chrome, or undefined where there is none. */
export function findBrowser() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return [process.env.CHROMIUM, ...NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))].find((path) => path && existsSync(path));
}

/** Starts the browser. `tab()` opens a tab, `close()` ends the browser and removes its profile. */
export function start(path) {
  const profile = mkdtempSync(join(tmpdir(), "streamsketch-web-"));
  const child = spawn(
    path,
    ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking", "--disable-dev-shm-usage", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", `--user-data-dir=${profile}`, "--remote-debugging-pipe"],
    { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
  );
  const waiting = new Map();
  const listening = new Set();
  const ended = new Promise((done) => child.once("close", done));
  const fail = (error) => { for (const { refuse } of waiting.values()) refuse(error); waiting.clear(); };
  child.once("error", fail);
  child.once("close", () => fail(new Error("Chromium ended")));
  let count = 0;
  let rest = "";
  child.stdio[4].setEncoding("utf8").on("data", (text) => {
    const messages = (rest + text).split("\0");
    rest = messages.pop();
    for (const { id, error, method, params, result, sessionId } of messages.map((one) => JSON.parse(one))) {
      if (id === undefined) for (const heard of listening) heard(method, params, sessionId);
      else if (error) waiting.get(id).refuse(new Error(error.message));
      else waiting.get(id).done(result);
      waiting.delete(id);
    }
  });
  const send = (method, params = {}, sessionId = undefined) => new Promise((done, refuse) => {
    waiting.set(++count, { done, refuse });
    child.stdio[3].write(`${JSON.stringify({ id: count, method, params, sessionId })}\0`);
  });

  async function tab() {
    const { targetId } = await send("Target.createTarget", { url: "about:blank", newWindow: true });
    const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
    const ask = (method, params) => send(method, params, sessionId);
    await ask("Page.enable");
    const event = (name) => new Promise((done) => {
      const heard = (method, params, session) => { if (method === name && session === sessionId) { listening.delete(heard); done(params); } };
      listening.add(heard);
    });
    /** Runs an expression in the page; returns its value, or that of the promise that it is. */
    const run = async (expression) => {
      const { result, exceptionDetails } = await ask("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    };
    return {
      /** Shows a page, and waits until all of it is loaded. */
      async show(url) {
        const loaded = event("Page.loadEventFired");
        const { errorText } = await ask("Page.navigate", { url });
        if (errorText) throw new Error(`${url}: ${errorText}`);
        await loaded;
      },
      /** The window's width and height in CSS pixels. */
      size: (width, height) => ask("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false }),
      run,
      /** Waits until an expression is true in the page, however slow the machine is. */
      async until(expression) {
        for (const end = Date.now() + MOST; !(await run(expression)); await new Promise((done) => setTimeout(done, 20))) {
          if (Date.now() > end) throw new Error(`never true: ${expression}; the page says: ${await run("document.body.innerText")}`);
        }
      },
      /** Drops files on the page: of each, its name and its content, a string or bytes. */
      drop: (files) => run(`{
        const files = new DataTransfer();
        for (const [name, content] of ${JSON.stringify(files.map(([name, content]) => [name, Buffer.from(content).toString("base64")]))}) files.items.add(new File([Uint8Array.from(atob(content), (one) => one.charCodeAt(0))], name));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
      }`),
      /** What axe finds: of each fault, the name of its rule, and the first element that has it. */
      async faults() {
        await run(axe);
        return run(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.map((one) => [one.id, one.nodes[0].html.slice(0, 200)]))`);
      },
      /** A picture of the window. */
      picture: async () => Buffer.from((await ask("Page.captureScreenshot", { format: "png" })).data, "base64"),
    };
  }

  async function close() {
    await Promise.race([send("Browser.close").catch(() => {}), ended]);
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
  }
  return { tab, close };
}
