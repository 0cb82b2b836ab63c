// Drives a headless Chromium through its debugging pipe: no port, no package, and no request to a network.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

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
    return {
      ask,
      /** Shows a page, and waits until all of it is loaded. */
      async show(url) {
        const loaded = event("Page.loadEventFired");
        const { errorText } = await ask("Page.navigate", { url });
        if (errorText) throw new Error(`${url}: ${errorText}`);
        await loaded;
      },
      /** The window's width and height in CSS pixels. */
      size: (width, height) => ask("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false }),
      /** Runs an expression in the page; returns its value, or that of the promise that it is. */
      async run(expression) {
        const { result, exceptionDetails } = await ask("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
      },
    };
  }

  async function close() {
    await Promise.race([send("Browser.close").catch(() => {}), ended]);
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
  }
  return { tab, close };
}
