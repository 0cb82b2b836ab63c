/** The details of what is selected: a stream and the others by distance from it, or a pair. */
import * as sentences from "../sentences.ts";
import { button, element } from "./dom.ts";
import { cells, formatValue } from "./format.ts";
import type { Differing, Numbers } from "./data.ts";
import type { View } from "./view.ts";

const AT_FIRST = 20;

export class Panel {
  readonly root: HTMLElement;
  #shown = AT_FIRST;
  #for = "";

  constructor(readonly view: View, readonly reveal: (stream: number) => void) {
    this.root = element("section", { class: "panel", "aria-label": "Details" });
    view.onChange(() => this.draw());
    this.draw();
  }

  draw(): void {
    const { selection } = this.view;
    const drawnFor = JSON.stringify([selection, this.view.window]);
    if (drawnFor !== this.#for) [this.#for, this.#shown] = [drawnFor, AT_FIRST];
    if (selection === null) this.root.replaceChildren(...this.#nothing());
    else if (selection.length === 1) this.root.replaceChildren(...this.#stream(selection[0]));
    else this.root.replaceChildren(...this.#pair(selection[0], selection[1]));
  }

  #nothing(): Node[] {
    const { data } = this.view;
    const found: Node[] = [
      element("h3", {}, "Details"),
      element("p", { class: "soft" }, "Select a cell of the heat map for a pair, a name or a point of the map for a stream, or search for one."),
    ];
    if (data.groups.length > 0) {
      const shown = data.groups.slice(0, 12).map((group, place) => {
        const names = group.slice(0, 3).map((stream) => data.names[stream]).join(", ");
        return element("li", {}, button(`Group ${place + 1}: ${group.length} streams`, { class: "pick" }, () => this.#go(group[0])), ` ${names}${group.length > 3 ? " …" : ""}`);
      });
      found.push(element("ul", { class: "picks" }, ...shown));
    }
    return found;
  }

  #go(stream: number): void {
    this.view.change({ selection: [stream] });
    this.reveal(stream);
  }

  #head(text: string): Node {
    return element("div", { class: "panel-head" }, element("h3", {}, text), button("×", { class: "close", "aria-label": "End the selection" }, () => this.view.change({ selection: null })));
  }

  #size(stream: number): string {
    return `${this.view.data.size ?? "squared norm"} ${this.view.data.sizes[stream][1]}`;
  }

  #stream(stream: number): Node[] {
    const { data, pairs, view } = { data: this.view.data, pairs: this.view.pairs, view: this.view };
    const found: Node[] = [this.#head(data.names[stream])];
    const group = data.groups.findIndex((one) => one.includes(stream));
    found.push(element("p", { class: "soft" }, `${group >= 0 ? `Group ${group + 1}. ` : ""}Size: ${this.#size(stream)}.`));
    const others = view.nearestTo(stream);
    const numbers = others.map((other) => pairs.at(stream, other));
    const [low, high] = reach(numbers, data.largest);
    const before = this.#before(stream);
    if (before !== null) {
      const [value, error] = cells(pairs.at(stream, before));
      found.push(element("p", {}, "From the window before: ", button(`${data.quantity} ${value} ± ${error}`, { class: "pick" }, () => view.change({ selection: [stream, before] }))));
    }
    found.push(element("p", { class: "soft" }, data.ranked ? `The other streams by ${data.quantity}, the nearest first, with 95\u00a0% intervals:` : "The other streams; noise decides which are near:"));
    const rows = others.slice(0, this.#shown).map((other, place) => {
      const one = numbers[place];
      const unclear = pairs.unclear(stream, other);
      const [value, error, interval] = cells(one);
      return element(
        "li", { class: unclear ? "unclear-row" : "" },
        button(data.names[other], { class: "pick", title: data.names[other] }, () => view.change({ selection: [stream, other] })),
        track(one, low, high, unclear),
        element("span", { class: "figure", title: `${value} ± ${error}, ${interval}` }, value),
        element("span", { class: "for-readers" }, ` ± ${error}, interval ${interval}${unclear ? `, ${sentences.UNCLEAR}` : ""}`),
      );
    });
    found.push(element("div", { class: "dots-axis", "aria-hidden": "true" }, element("span", {}, formatValue(low, (high - low) / 10)), element("span", {}, formatValue(high, (high - low) / 10))));
    found.push(element("ol", { class: "dots" }, ...rows));
    if (others.length > this.#shown) {
      found.push(button(`Show more of ${others.length}`, {}, () => {
        this.#shown += 100;
        this.draw();
      }));
    }
    found.push(element("p", { class: "soft" }, `Grey bars hold 0. ${data.together ? "The intervals of all pairs hold at once, so also those of the first of many, which is there partly by chance." : "Each interval holds by itself; the first of many is there partly by chance."}`));
    found.push(...this.#differences(String(stream)));
    return found;
  }

  /** Return the stream of the window before, of the same key. */
  #before(stream: number): number | null {
    const { windows } = this.view.data;
    if (windows === null) return null;
    const [key, window] = windows.of[stream];
    let best: number | null = null;
    windows.of.forEach(([otherKey, other], place) => {
      if (otherKey === key && other < window && (best === null || other > windows.of[best][1])) best = place;
    });
    return best;
  }

  #pair(i: number, j: number): Node[] {
    const { data, pairs } = this.view;
    const one = pairs.at(i, j);
    const [value, error, interval] = cells(one);
    const unclear = pairs.unclear(i, j);
    const [low, high] = reach([one], data.largest);
    const pick = (stream: number): Node => button(data.names[stream], { class: "pick" }, () => this.#go(stream));
    const found: Node[] = [
      this.#head(`${data.names[i]} – ${data.names[j]}`),
      element("p", { class: "big" }, `${data.quantity} ${value} ± ${error}`),
      element("div", { class: "wide-track" }, track(one, low, high, unclear)),
      element("div", { class: "dots-axis", "aria-hidden": "true" }, element("span", {}, formatValue(low, (high - low) / 10)), element("span", {}, formatValue(high, (high - low) / 10))),
      element("p", {}, `95\u00a0% interval ${interval}. ${unclear ? `It holds 0, so the pair cannot be distinguished from ${data.largest ? sentences.NOTHING_IN_COMMON : "equal streams"}.` : ""}`),
      element("ul", { class: "picks" }, ...[i, j].map((stream) => element("li", {}, pick(stream), `: ${this.#size(stream)}`))),
    ];
    found.push(...this.#differing(Math.min(i, j), Math.max(i, j)));
    return found;
  }

  /** Return the items that separate two streams, as bars from 0. */
  #differing(i: number, j: number): Node[] {
    const { data, differing } = this.view;
    const chart = this.#differences(`${i} ${j}`);
    if (chart.length > 0 || differing === null) return chart;
    const title = element("h4", {}, sentences.WHAT_DIFFERS);
    let found: Differing;
    try {
      found = differing(i, j);
    } catch (error) {
      return [title, element("p", { class: "warning" }, error instanceof Error ? error.message : "cannot be computed")];
    }
    const [low, high] = reach(found.rows, false);
    const rows = found.rows.map((row) => {
      const unclear = !(row.low > 0 || row.high < 0);
      const [value, error, interval] = cells(row);
      const kind = unclear ? " unsure" : row.value > 0 ? " in-first" : " in-second";
      const more = unclear ? "either" : `more in ${data.names[row.value > 0 ? i : j]}`;
      return element("li", { title: `${row.name}: ${value} ± ${error}, ${interval}; ${more}` },
        element("span", { class: "item" }, row.name), bar(row, low, high, kind), element("span", { class: "figure" }, value),
        element("span", { class: "for-readers" }, ` ± ${error}, interval ${interval}, ${more}`));
    });
    const many = (one: number): string => one.toLocaleString("en");
    const sums = found.of === "sums";
    return [
      title,
      element("p", { class: "soft" }, `${many(found.separated)} of ${many(found.candidates)} items are separated. By how much ${sums ? sentences.SUMS_DIFFER : sentences.AVERAGES_DIFFER} differ: `,
        element("i", { class: "mark in-first" }), ` more in ${data.names[i]}, `, element("i", { class: "mark in-second" }), ` more in ${data.names[j]}, grey: either.`),
      element("div", { class: "dots-axis", "aria-hidden": "true" }, element("span", {}, formatValue(low, (high - low) / 10)), element("span", {}, formatValue(high, (high - low) / 10))),
      element("ol", { class: "dots differing" }, ...rows),
      element("p", { class: "soft" }, `The intervals of all ${many(found.candidates)} items hold at once, with 95\u00a0%.${sums ? ` ${sentences.SUMS_MEASURE_SIZE}` : ""}`),
    ];
  }

  /** Return a copy of the chart of what differs, if the page has one. */
  #differences(of: string): Node[] {
    const chart = document.querySelector(`section[data-differs="${of}"] svg`);
    if (chart === null) return [];
    const copy = chart.cloneNode(true) as Element;
    return [element("h4", {}, of.includes(" ") ? sentences.WHAT_DIFFERS : `${sentences.WHAT_DIFFERS} from the others`), element("div", { class: "panel-chart" }, copy)];
  }
}

/** Return an estimate as a bar from 0, with its interval. */
function bar(one: Numbers, low: number, high: number, kind: string): Node {
  const percent = percentOf(low, high);
  const [zero, value] = [percent(0), percent(one.value)];
  const found = element("i", { class: `from-zero${kind}` });
  found.style.left = `${Math.min(zero, value)}%`;
  found.style.width = `${Math.abs(value - zero)}%`;
  const line = element("i", { class: "whisker" });
  line.style.left = `${percent(one.low)}%`;
  line.style.width = `${Math.max(percent(one.high) - percent(one.low), 0.6)}%`;
  return element("span", { class: "track", "aria-hidden": "true" }, found, line);
}

function percentOf(low: number, high: number): (value: number) => number {
  return (value) => (100 * (Math.min(Math.max(value, low), high) - low)) / (high - low || 1);
}

/** Return an interval as a bar with a dot. */
function track(one: Numbers, low: number, high: number, unclear: boolean): Node {
  const percent = percentOf(low, high);
  const [start, end] = [percent(one.low), percent(one.high)];
  const kind = unclear ? " unsure" : "";
  const bar = element("i", { class: `reach${kind}` });
  bar.style.left = `${start}%`;
  bar.style.width = `${Math.max(end - start, 0.6)}%`;
  const dot = element("i", { class: `dot${kind}` });
  dot.style.left = `${percent(one.value)}%`;
  return element("span", { class: "track", "aria-hidden": "true" }, bar, dot);
}

/** Return the ends of an axis for intervals: 0 is on it. */
function reach(numbers: readonly Numbers[], largest: boolean): [number, number] {
  let [low, high] = [0, largest ? 1 : 0];
  for (const { value, low: least, high: most } of numbers) {
    for (const end of [value, least, most]) {
      if (Number.isFinite(end)) [low, high] = [Math.min(low, end), Math.max(high, end)];
    }
  }
  return low === high ? [low, low + 1] : [low, high];
}
