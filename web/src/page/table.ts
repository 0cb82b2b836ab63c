/** The table of all pairs, of which only the rows in view are in the page: it scrolls over half a million of them. */
import { button, element, labelled } from "./dom.ts";
import { cells } from "./format.ts";
import { PairRows, type Sort } from "./pairs.ts";
import type { View } from "./view.ts";

const ROW = 28; // pixels; half a million of them are less than the tallest element of a browser
const BEYOND = 6; // rows drawn above and below what is visible
const PRINTED = 1000; // rows on paper, as in reports

export class PairsTable {
  readonly root: HTMLElement;
  readonly #pairs: PairRows;
  readonly #box: HTMLElement;
  readonly #table: HTMLTableElement;
  readonly #body: HTMLElement;
  readonly #count: HTMLElement;
  readonly #heads = new Map<Sort, HTMLElement>();
  #rows: Uint32Array = new Uint32Array();
  #sort: Sort;
  #isFalling: boolean;
  #search = "";
  #cursor = 0;
  #drawnFor = "";
  #isWaiting = false;

  constructor(readonly view: View, readonly reveal: (stream: number) => void) {
    const { data } = view;
    this.#pairs = new PairRows(view);
    [this.#sort, this.#isFalling] = data.ranked ? ["value", data.largest] : ["name", false];
    const head = element("tr", { "aria-rowindex": "1" },
      this.#head("name", "stream", "name"), element("th", { scope: "col", class: "name" }, "other"),
      this.#head("value", data.quantity), this.#head("error", "± s.e."), element("th", { scope: "col" }, `95\u00a0% interval, ${data.together ? "all at once" : "each by itself"}`));
    this.#body = element("tbody");
    this.#table = element("table", { role: "grid", tabindex: "0", "aria-label": this.#label(), "aria-describedby": "vt-help" }, element("thead", {}, head), this.#body);
    this.#box = element("div", { class: "vt-box" }, this.#table);
    this.#count = element("output", { class: "soft" });
    const search = element("input", { type: "search", autocomplete: "off", spellcheck: "false", placeholder: "part of a name, or of two: a, b" });
    search.addEventListener("input", () => {
      this.#search = search.value;
      this.#change();
    });
    this.root = element("div", { class: "vt" },
      element("div", { class: "tools", role: "group", "aria-label": "Rows of the table" }, labelled("search pairs", search), this.#count),
      this.#box,
      element("p", { class: "soft", id: "vt-help" }, `Click on a head to sort. The arrow keys, Page Up and Down, Home and End move over the rows; Enter selects the pair.${data.together ? " All intervals hold at once." : ""}`));
    this.#listen();
    view.onChange(() => this.#change());
    new ResizeObserver(() => this.#paint()).observe(this.#box);
    addEventListener("beforeprint", () => this.root.isConnected && this.#paint(PRINTED));
    addEventListener("afterprint", () => this.root.isConnected && this.#paint());
    this.#change();
  }

  #label(): string {
    return `All pairs by ${this.view.data.quantity}`;
  }

  #head(sort: Sort, text: string, kind = ""): HTMLElement {
    const found = element("th", { scope: "col", class: kind }, button(text, { tabindex: "0" }, () => {
      // names and errors rise first, estimates begin with the nearest
      this.#isFalling = this.#sort === sort ? !this.#isFalling : sort === "value" && this.view.data.largest;
      this.#sort = sort;
      this.#change();
    }));
    this.#heads.set(sort, found);
    return found;
  }

  /** Order the rows anew where something that they depend on has changed, and draw them. */
  #change(): void {
    const { view } = this;
    const drawnFor = JSON.stringify([this.#sort, this.#isFalling, this.#search, view.single ? null : view.window]);
    if (drawnFor !== this.#drawnFor) {
      this.#drawnFor = drawnFor;
      this.#rows = this.#pairs.rows(this.#sort, this.#isFalling, this.#search);
      this.#cursor = 0;
      this.#box.scrollTop = 0;
      const number = (one: number): string => one.toLocaleString("en");
      const all = view.pairs.value.length;
      this.#count.textContent = this.#rows.length === all ? `${number(all)} pairs` : `${number(this.#rows.length)} of ${number(all)} pairs`;
      this.#table.setAttribute("aria-rowcount", String(this.#rows.length + 1));
      for (const [sort, head] of this.#heads) {
        if (sort === this.#sort) head.setAttribute("aria-sort", this.#isFalling ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      }
    }
    this.#paint();
  }

  /** Draw the rows in view or, for paper, the first ones. */
  #paint(printed = 0): void {
    const { data, pairs, selection } = this.view;
    const height = this.#box.clientHeight;
    const first = printed > 0 ? 0 : Math.max(0, Math.floor(this.#box.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.#rows.length, printed || Math.ceil((this.#box.scrollTop + height) / ROW) + BEYOND);
    const found: Node[] = [space(first)];
    for (let place = first; place < last; place++) {
      const row = this.#rows[place];
      const [i, j] = [this.#pairs.first[row], this.#pairs.second[row]];
      const texts = cells(pairs.at(i, j));
      const isSelected = selection?.length === 2 && this.view.isSelected(i) && this.view.isSelected(j);
      const line = element("tr", { id: `vt-${place}`, "aria-rowindex": String(place + 2), "aria-selected": String(isSelected), class: place === this.#cursor ? "cursor" : "" },
        element("th", { scope: "row", class: "name", title: data.names[i] }, data.names[i]), element("td", { class: "name", title: data.names[j] }, data.names[j]),
        ...texts.map((text) => element("td", {}, text)));
      line.addEventListener("click", () => this.#select(place));
      found.push(line);
    }
    found.push(space(printed > 0 ? 0 : this.#rows.length - last));
    this.#body.replaceChildren(...found);
    if (this.#cursor >= first && this.#cursor < last) this.#table.setAttribute("aria-activedescendant", `vt-${this.#cursor}`);
    else this.#table.removeAttribute("aria-activedescendant");
  }

  #select(place: number): void {
    const row = this.#rows[place];
    if (row === undefined) return;
    this.#cursor = place;
    this.view.change({ selection: [this.#pairs.first[row], this.#pairs.second[row]] });
    this.reveal(this.#pairs.first[row]);
  }

  #move(place: number): void {
    this.#cursor = Math.max(0, Math.min(place, this.#rows.length - 1));
    const top = this.#cursor * ROW;
    const room = this.#box.clientHeight - 2 * ROW; // the head covers a row
    if (top < this.#box.scrollTop) this.#box.scrollTop = top;
    else if (top > this.#box.scrollTop + room) this.#box.scrollTop = top - room;
    this.#paint();
  }

  #listen(): void {
    this.#box.addEventListener("scroll", () => {
      if (this.#isWaiting) return;
      this.#isWaiting = true;
      requestAnimationFrame(() => {
        this.#isWaiting = false;
        this.#paint();
      });
    });
    this.#table.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.target !== this.#table) return;
      const page = Math.max(Math.floor(this.#box.clientHeight / ROW) - 2, 1);
      const moved: Record<string, number> = {
        ArrowUp: this.#cursor - 1, ArrowDown: this.#cursor + 1, PageUp: this.#cursor - page, PageDown: this.#cursor + page,
        Home: 0, End: this.#rows.length - 1,
      };
      const next = moved[event.key];
      if (next !== undefined) this.#move(next);
      else if (event.key === "Enter" || event.key === " ") this.#select(this.#cursor);
      else if (event.key === "Escape") this.view.change({ selection: null });
      else return;
      event.preventDefault();
    });
  }
}

/** Return a row of the height of many. */
function space(rows: number): HTMLElement {
  const found = element("tr", { class: "space", "aria-hidden": "true" });
  found.style.height = `${rows * ROW}px`;
  return found;
}
