/** Brings a page of `streamsketch report` to life. Without this script the page is complete too. */
import { mount } from "./app.ts";
import { type PageData, unpack } from "./data.ts";

async function start(): Promise<void> {
  const [facts, place] = [document.getElementById("page-data"), document.getElementById("live")];
  if (facts === null || place === null) return;
  const data = JSON.parse(facts.textContent ?? "") as PageData;
  if (data.version !== 1) return;
  const pairs = await unpack(data.names.length, data.pairs);
  document.documentElement.classList.add("alive");
  place.hidden = false;
  mount(place, data, pairs, document.querySelector<SVGSVGElement>("svg.map"));
}

start().catch((error: unknown) => {
  document.documentElement.classList.remove("alive");
  console.error(error);
});
