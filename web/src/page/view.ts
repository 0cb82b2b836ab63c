/** What is shown of the data, and what is selected: every part of the page reads it and hears of changes. */
import type { Differing, PageData, PairTable } from "./data.ts";

export type Order = "similar" | "name" | "size" | "time";
export type Shade = "estimate" | "low" | "error";
/** One stream, or a pair of them. */
export type Selection = readonly [number] | readonly [number, number] | null;

export class View {
  order: Order;
  shade: Shade = "estimate";
  /** Place of a window in `data.windows.names`, or null for all. */
  window: number | null = null;
  search = "";
  selection: Selection = null;
  /** What separates the streams i < j; null without a dictionary. */
  differing: ((i: number, j: number) => Differing) | null = null;
  #listeners: (() => void)[] = [];

  constructor(readonly data: PageData, readonly pairs: PairTable) {
    this.order = !data.ranked ? "name" : data.windows === null ? "similar" : "time";
    if (!this.orders().includes(this.order)) this.order = "similar";
  }

  /** Return the orders that mean something here. */
  orders(): Order[] {
    const found: Order[] = this.data.ranked ? ["similar", "name", "size"] : ["name", "size"];
    return this.data.windows === null ? found : ["time", ...found];
  }

  /** Call a function after each change. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  change(fields: Partial<Pick<View, "order" | "shade" | "window" | "search" | "selection" | "differing">>): void {
    Object.assign(this, fields);
    for (const listener of this.#listeners) listener();
  }

  /** Whether all windows are drawn although one is chosen, as one key has nothing to be compared with in it. */
  get single(): boolean {
    return this.data.windows !== null && this.data.windows.keys.length < 2;
  }

  /** Return the streams that are drawn, in their order. */
  streams(): number[] {
    const { data } = this;
    const found = data.names.map((_, place) => place);
    if (this.order === "similar") found.splice(0, found.length, ...data.similar);
    else if (this.order === "name") found.sort((a, b) => compareNames(data.names[a], data.names[b]));
    else if (this.order === "size") found.sort((a, b) => data.sizes[b][0] - data.sizes[a][0]);
    else if (data.windows !== null) found.sort((a, b) => byTime(data.windows!.of[a], data.windows!.of[b]));
    return this.window === null || this.single ? found : found.filter((place) => this.inWindow(place));
  }

  inWindow(place: number): boolean {
    return this.window === null || this.data.windows === null || this.data.windows.of[place][1] === this.window;
  }

  /** Whether a stream's name has what is searched for. */
  isFound(place: number): boolean {
    return this.search !== "" && this.data.names[place].toLocaleLowerCase().includes(this.search.toLocaleLowerCase());
  }

  isSelected(place: number): boolean {
    return this.selection !== null && (this.selection as readonly number[]).includes(place);
  }

  /** Return the other streams that are drawn, the nearest first. */
  nearestTo(place: number): number[] {
    const others = this.streams().filter((other) => other !== place);
    if (!this.data.ranked) return others;
    const sign = this.data.largest ? -1 : 1;
    return others.sort((a, b) => sign * (this.pairs.at(place, a).value - this.pairs.at(place, b).value));
  }
}

/** Compare names as people do, numbers by their size; the same on every machine. */
export function compareNames(first: string, second: string): number {
  const parts = (name: string): string[] => name.toLowerCase().match(/\d+|\D+/g) ?? [];
  const [a, b] = [parts(first), parts(second)];
  for (let place = 0; place < Math.min(a.length, b.length); place++) {
    const numbers = /^\d/.test(a[place]) && /^\d/.test(b[place]);
    const gap = numbers ? Number(a[place]) - Number(b[place]) : a[place] < b[place] ? -1 : a[place] > b[place] ? 1 : 0;
    if (gap !== 0) return gap;
  }
  return a.length - b.length || (first < second ? -1 : first > second ? 1 : 0);
}

function byTime(a: readonly [number, number], b: readonly [number, number]): number {
  return a[0] - b[0] || a[1] - b[1];
}
