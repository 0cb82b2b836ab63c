/** The page, alive: the heat map, its controls and the details of what is selected. */
import * as sentences from "../sentences.ts";
import { colourAt, rgb, valueAt } from "./colour.ts";
import { csvOf } from "./csv.ts";
import type { PageData, PairTable } from "./data.ts";
import { button, element, labelled, save } from "./dom.ts";
import { formatValue } from "./format.ts";
import { HeatMap, inkOf } from "./heat.ts";
import { linkMap } from "./map.ts";
import { Panel } from "./panel.ts";
import { PairsTable } from "./table.ts";
import { compareNames, type Order, type Shade, View } from "./view.ts";

const ORDERS: Readonly<Record<Order, string>> = { similar: "similar side by side", name: "name", size: "size", time: "key and time" };
const SHADES: Readonly<Record<Shade, string>> = { estimate: "estimate", low: "lower end of the interval", error: "± error" };
const PICTURE = 1200; // pixels across

/** Where the live parts of a page are. */
export interface Places {
  /** Of the heat map, its controls and the details. */
  readonly live: HTMLElement;
  /** Of the table of all pairs. */
  readonly table: HTMLElement | null;
  readonly map: SVGSVGElement | null;
}

/** Fill the places of a page. */
export function mount({ live, table, map }: Places, data: PageData, pairs: PairTable): View {
  const view = new View(data, pairs);
  const heat = new HeatMap(view);
  const panel = new Panel(view, (stream) => heat.reveal(stream));
  live.replaceChildren(controls(view, heat), element("div", { class: "live-parts" }, heat.root, panel.root));
  if (map !== null) linkMap(view, map);
  table?.replaceChildren(new PairsTable(view, (stream) => heat.reveal(stream)).root);
  heat.draw();
  printWhole(heat);
  return view;
}

/** Open all details for paper, and put the whole heat map there; afterwards the page is as it was. */
function printWhole(heat: HeatMap): void {
  let closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    for (const one of closed) one.open = true;
    if (heat.root.isConnected) heat.onPaper();
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
  });
}

function controls(view: View, heat: HeatMap): HTMLElement {
  const tools = element("div", { class: "tools", role: "group", "aria-label": "What the heat map shows" }, search(view, heat));
  const inner = element("div", { class: "tools-inner" },
    labelled("order", select(view.orders().map((order) => [order, ORDERS[order]]), view.order, (order) => view.change({ order: order as Order }))),
    labelled("colour", select(Object.entries(SHADES), view.shade, (shade) => view.change({ shade: shade as Shade }))),
    element("span", { class: "control", role: "group", "aria-label": "Zoom" },
      button("−", { "aria-label": "− smaller cells" }, () => heat.zoom(1 / 1.5)),
      button("whole", { "aria-label": "whole: fit the map" }, () => heat.zoom(0)),
      button("+", { "aria-label": "+ larger cells" }, () => heat.zoom(1.5))),
    element("span", { class: "control", role: "group", "aria-label": "Save" },
      button("CSV", { "aria-label": "CSV: save the estimates" }, () => save(`${fileName(view.data.title)}.csv`, new Blob(csvOf(view), { type: "text/csv" }))),
      button("PNG", { "aria-label": "PNG: save the heat map as a picture" }, () => picture(view, heat))),
  );
  const more = element("details", { class: "more" }, element("summary", {}, "Order, colour, zoom and files"), inner);
  const wide = matchMedia("(min-width: 36.01rem)");
  more.open = wide.matches;
  wide.addEventListener("change", () => (more.open = wide.matches));
  tools.append(more);
  if (view.data.windows !== null && view.data.windows.names.length > 1) tools.append(slider(view));
  return tools;
}

function select(options: readonly (readonly [string, string])[], chosen: string, changed: (value: string) => void): HTMLSelectElement {
  const found = element("select", {}, ...options.map(([value, text]) => element("option", { value }, text)));
  found.value = chosen;
  found.addEventListener("change", () => changed(found.value));
  return found;
}

function search(view: View, heat: HeatMap): HTMLElement {
  const { names } = view.data;
  const list = element("datalist", { id: "hm-names" }, ...[...names].sort(compareNames).map((name) => element("option", { value: name })));
  const box = element("input", { type: "search", list: "hm-names", autocomplete: "off", spellcheck: "false", placeholder: "part of a name" });
  const count = element("output", { class: "soft" });
  const go = (): void => {
    const found = names.indexOf(box.value);
    const first = found >= 0 ? found : view.streams().find((stream) => view.isFound(stream));
    if (first === undefined) return;
    view.change({ selection: [first] });
    heat.reveal(first);
  };
  box.addEventListener("input", () => {
    view.change({ search: box.value.trim() });
    const many = names.filter((_, place) => view.isFound(place)).length;
    count.textContent = view.search === "" ? "" : `${many} found`;
    if (names.includes(box.value)) go();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") go();
  });
  return element("span", { class: "control" }, labelled("search", box), count, list);
}

function slider(view: View): HTMLElement {
  const { names } = view.data.windows!;
  const range = element("input", { type: "range", min: "0", max: String(names.length), value: "0" });
  const shown = element("output", {}, "all windows");
  range.setAttribute("aria-valuetext", "all windows");
  range.addEventListener("input", () => {
    const place = Number(range.value) - 1;
    const text = place < 0 ? "all windows" : names[place];
    shown.textContent = text;
    range.setAttribute("aria-valuetext", text);
    const own = place >= 0 && view.single ? view.data.windows!.of.findIndex(([, window]) => window === place) : -1;
    view.change(own >= 0 ? { window: place, selection: [own] } : { window: place < 0 ? null : place });
  });
  return element("span", { class: "control windows" }, labelled("window", range), shown);
}

function fileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "report";
}

/** Save the whole map with title, colours and guarantee as a PNG. */
function picture(view: View, heat: HeatMap): void {
  const { data } = view;
  const map = heat.picture(PICTURE);
  const ink = inkOf(heat.root);
  const [head, foot] = [110, 150];
  const found = element("canvas", { width: String(map.width + 64), height: String(map.height + head + foot) });
  const brush = found.getContext("2d")!;
  brush.fillStyle = ink.paper;
  brush.fillRect(0, 0, found.width, found.height);
  brush.fillStyle = ink.ink;
  brush.font = "bold 36px system-ui, sans-serif";
  brush.fillText(data.title, 32, 54, map.width);
  brush.font = "24px system-ui, sans-serif";
  brush.fillStyle = ink.soft;
  brush.fillText(`${data.quantity}s between ${data.names.length} streams; ${data.guarantee}`, 32, 92, map.width);
  brush.drawImage(map, 32, head);
  const base = map.height + head + 20;
  for (let step = 0; step < 5; step++) {
    const value = valueAt(data.scale, step / 4);
    brush.fillStyle = rgb(colourAt(step / 4));
    brush.fillRect(32 + step * 180, base, 40, 26);
    brush.fillStyle = ink.ink;
    brush.fillText(formatValue(value / data.factor, Math.abs(data.scale.farthest - data.scale.nearest) / data.factor / 40), 80 + step * 180, base + 22);
  }
  brush.fillStyle = ink.soft;
  brush.fillText(`${data.unit === "" ? "" : `In ${data.unit}. `}Hatched: ${sentences.UNCLEAR}. Made by ${data.made}.`, 32, base + 70, map.width);
  found.toBlob((content) => {
    if (content !== null) save(`${fileName(data.title)}.png`, content);
  });
}
