/** Brings a page of `streamsketch report` to life. Without this script the page is complete too. */
import { mount } from "./app.ts";
import { type PageData, unpack, unpackDiffering } from "./data.ts";

async function start(): Promise<void> {
  const [facts, live] = [document.getElementById("page-data"), document.getElementById("live")];
  if (facts === null || live === null) return;
  const data = JSON.parse(facts.textContent ?? "") as PageData;
  if (data.version !== 1) return;
  const pairs = await unpack(data.names.length, data.pairs);
  document.documentElement.classList.add("alive");
  const table = document.getElementById("live-pairs");
  for (const one of [live, table]) if (one !== null) one.hidden = false;
  const view = mount({ live, table, map: document.querySelector<SVGSVGElement>("svg.map") }, data, pairs);
  if (data.differing) view.change({ differing: await unpackDiffering(data.names.length, data.differing) });
}

start().catch((error: unknown) => {
  document.documentElement.classList.remove("alive");
  console.error(error);
});
