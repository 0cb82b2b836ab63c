/** The heat map: a canvas with the tree beside it, moved over with a pointer or the arrow keys. */
import * as sentences from "../sentences.ts";
import { colourAt, type Colour, greyAt, HATCH, isLight, lined, placeOn, rgb } from "./colour.ts";
import { element } from "./dom.ts";
import { cells, shortened } from "./format.ts";
import type { View } from "./view.ts";

const LETTERS = 12; // pixels high, and less where cells are small
const NAMED = 9; // pixels of a cell, from which on names are drawn
const NUMBERED = 34; // and from which on numbers are
const HATCHED = 5; // and from which on lines are; smaller cells are lighter or darker
const LARGEST = 44;
const ALONE = 440; // pixels across, which the cells of few streams fill
const WIDEST = 110;
const PAPER = 700; // pixels across
const LABEL = 18; // letters of a name

interface Layout {
  readonly cell: number;
  /** Of the first cell. */
  readonly left: number;
  readonly top: number;
  /** Of the tree. */
  readonly tree: number;
  readonly width: number;
  readonly height: number;
}

/** Where a stream is among those drawn, for rows and columns. */
type Cell = readonly [number, number];

export class HeatMap {
  readonly root: HTMLElement;
  readonly #box: HTMLElement;
  readonly #space: HTMLElement;
  readonly #canvas: HTMLCanvasElement;
  readonly #paper: HTMLElement;
  readonly #readout: HTMLElement;
  #streams: number[] = [];
  #place = new Map<number, number>();
  #image: HTMLCanvasElement | null = null;
  #drawnFor = "";
  #layout: Layout = { cell: 1, left: 0, top: 0, tree: 0, width: 0, height: 0 };
  #zoom = 1;
  #cursor: Cell | null = null;
  #pointed: Cell | null = null;
  #focused = false;

  constructor(readonly view: View) {
    this.#canvas = element("canvas", { "aria-hidden": "true" });
    this.#space = element("div", { class: "hm-space" }, this.#canvas);
    this.#box = element("div", { class: "hm-box", tabindex: "0", role: "application", "aria-roledescription": "heat map", "aria-label": this.#label(), "aria-describedby": "hm-help hm-readout" }, this.#space);
    this.#readout = element("output", { class: "hm-readout", id: "hm-readout" });
    const help = element("p", { class: "soft hm-help", id: "hm-help" }, "Point at a cell, or move with the arrow keys. Enter selects a pair; S selects the stream of the row; Escape ends a selection.");
    this.#paper = element("div", { class: "on-paper" });
    this.root = element("div", { class: "hm" }, this.#box, this.#paper, this.#readout, help);
    this.#listen();
    view.onChange(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.#box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  #label(): string {
    return `Heat map of ${this.view.data.quantity}s between ${this.view.data.names.length} streams`;
  }

  /** Multiply the size of cells; 0 fits all into the width. */
  zoom(factor: number): void {
    this.#zoom = factor === 0 ? 1 : Math.max(1, this.#zoom * factor);
    this.draw();
    if (this.#cursor !== null) this.#reveal(this.#cursor);
  }

  /** Show the row of a stream. */
  reveal(stream: number): void {
    const place = this.#place.get(stream);
    if (place !== undefined) this.#reveal([place, place]);
  }

  draw(): void {
    const { view } = this;
    this.#streams = view.streams();
    this.#place = new Map(this.#streams.map((stream, place) => [stream, place]));
    if (this.#cursor !== null && Math.max(...this.#cursor) >= this.#streams.length) this.#cursor = null;
    const width = this.#box.clientWidth;
    if (width === 0 || this.#streams.length === 0) return;
    this.#layout = this.#measure(width);
    const { width: wide, height: high } = this.#layout;
    const height = Math.min(high, Math.max(320, Math.round(window.innerHeight * 0.85)));
    this.#box.style.height = `${height}px`;
    this.#space.style.width = `${wide}px`;
    this.#space.style.height = `${high}px`;
    const ratio = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    this.#canvas.style.width = `${width}px`;
    this.#canvas.style.height = `${height}px`;
    this.#paint();
  }

  #measure(width: number): Layout {
    const n = this.#streams.length;
    const small = width < 500;
    const tree = this.view.order === "similar" && this.view.window === null && n > 2 ? (small ? 30 : 64) : 4;
    const names = Math.min(this.#nameWidth(), small ? 76 : 150);
    const largest = largestCell(n);
    let cell = Math.min(largest, (width - tree - names) / n) * this.#zoom;
    const named = cell >= NAMED;
    if (!named) cell = Math.min(largest, (width - tree - 4) / n) * this.#zoom;
    cell = Math.min(cell, Math.max(largest, (width - tree) / n));
    if (cell >= 3) cell = Math.floor(cell);
    const left = tree + (named ? names : 4);
    const top = named ? Math.min(names, 110) : 4;
    return { cell, left, top, tree, width: Math.ceil(Math.max(left + n * cell, 1)), height: Math.ceil(top + n * cell + 2) };
  }

  #nameWidth(): number {
    const brush = this.#canvas.getContext("2d");
    if (brush === null) return 100;
    brush.font = lettersOf(LETTERS);
    return 10 + Math.max(...this.#streams.map((stream) => brush.measureText(this.#name(stream)).width));
  }

  #name(stream: number): string {
    const name = this.view.data.names[stream];
    return name.length > LABEL ? `${name.slice(0, LABEL - 1)}…` : name;
  }

  /** Return the colour of a pair. */
  #colour(i: number, j: number): Colour {
    const { data, pairs, shade } = this.view;
    const place = pairs.place(i, j);
    if (shade === "error") return greyAt(pairs.error[place] / this.#mostError());
    return colourAt(placeOn(data.scale, shade === "low" ? pairs.low[place] : pairs.value[place]));
  }

  #most = 0;
  #mostError(): number {
    if (this.#most === 0) for (const error of this.view.pairs.error) this.#most = Math.max(this.#most, Number.isFinite(error) ? error : 0);
    return this.#most || 1;
  }

  /** Return all cells as an image of a pixel each. */
  #pixels(hatched: boolean): HTMLCanvasElement {
    const { view } = this;
    const drawnFor = `${view.order} ${view.shade} ${view.window} ${hatched}`;
    if (this.#image !== null && this.#drawnFor === drawnFor) return this.#image;
    const n = this.#streams.length;
    const image = element("canvas", { width: String(n), height: String(n) });
    const brush = image.getContext("2d")!;
    const pixels = brush.createImageData(n, n);
    for (let row = 0; row < n; row++) {
      for (let column = 0; column <= row; column++) {
        let colour: Colour = [128, 128, 128];
        if (row !== column) {
          const [i, j] = [this.#streams[row], this.#streams[column]];
          colour = this.#colour(i, j);
          if (hatched && view.pairs.unclear(i, j)) colour = lined(colour, HATCH / 2);
        }
        for (const at of [row * n + column, column * n + row]) pixels.data.set([...colour, 255], 4 * at);
      }
    }
    brush.putImageData(pixels, 0, 0);
    [this.#image, this.#drawnFor] = [image, drawnFor];
    return image;
  }

  #paint(): void {
    const ratio = window.devicePixelRatio || 1;
    const brush = this.#canvas.getContext("2d");
    if (brush === null) return;
    brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paintOn(brush, this.#layout, this.#box.scrollLeft, this.#box.scrollTop, this.#box.clientWidth, this.#box.clientHeight);
    this.#say();
  }

  /** Draw the part of the map that is visible. */
  paintOn(brush: CanvasRenderingContext2D, layout: Layout, x: number, y: number, width: number, height: number, ink: Ink = inkOf(this.#box)): void {
    const { cell, left, top } = layout;
    const n = this.#streams.length;
    brush.fillStyle = ink.paper;
    brush.fillRect(0, 0, width, height);
    brush.save();
    brush.beginPath();
    brush.rect(left, top, width - left, height - top);
    brush.clip();
    brush.imageSmoothingEnabled = cell < 1;
    brush.imageSmoothingQuality = "high";
    brush.drawImage(this.#pixels(cell < HATCHED), left - x, top - y, n * cell, n * cell);
    const rows = range(y, height - top, cell, n);
    const columns = range(x, width - left, cell, n);
    if (cell >= HATCHED) this.#hatch(brush, layout, x, y, rows, columns);
    if (cell >= NUMBERED) this.#numbers(brush, layout, x, y, rows, columns);
    if (cell >= 8) {
      brush.strokeStyle = ink.paper;
      brush.lineWidth = 1;
      brush.beginPath();
      for (let row = rows[0]; row <= rows[1]; row++) line(brush, left - x, top - y + row * cell + 0.5, left - x + n * cell, top - y + row * cell + 0.5);
      for (let column = columns[0]; column <= columns[1]; column++) line(brush, left - x + column * cell + 0.5, top - y, left - x + column * cell + 0.5, top - y + n * cell);
      brush.stroke();
    }
    this.#groups(brush, layout, x, y, ink.ink);
    this.#marks(brush, layout, x, y, ink);
    brush.restore();
    if (cell >= NAMED) this.#names(brush, layout, x, y, rows, columns, ink);
    if (layout.tree > 10) this.#tree(brush, layout, y, height, ink.soft);
  }

  #hatch(brush: CanvasRenderingContext2D, { cell, left, top }: Layout, x: number, y: number, rows: Range, columns: Range): void {
    const step = cell > 14 ? 6 : 4;
    for (const light of [true, false]) {
      brush.beginPath();
      let some = false;
      for (let row = rows[0]; row < rows[1]; row++) {
        for (let column = columns[0]; column < columns[1]; column++) {
          const [i, j] = [this.#streams[row], this.#streams[column]];
          if (row === column || !this.view.pairs.unclear(i, j) || isLight(this.#colour(i, j)) !== light) continue;
          brush.rect(left - x + column * cell, top - y + row * cell, cell, cell);
          some = true;
        }
      }
      if (!some) continue;
      brush.save();
      brush.clip();
      brush.beginPath();
      const [wide, high] = [(columns[1] - columns[0]) * cell, (rows[1] - rows[0]) * cell];
      const [startX, startY] = [left - x + columns[0] * cell, top - y + rows[0] * cell];
      for (let along = 0; along < wide + high; along += step) line(brush, startX + along, startY, startX + along - high, startY + high);
      brush.strokeStyle = light ? `rgb(0 0 0 / ${HATCH})` : `rgb(255 255 255 / ${HATCH})`;
      brush.lineWidth = 1.2;
      brush.stroke();
      brush.restore();
    }
  }

  #numbers(brush: CanvasRenderingContext2D, { cell, left, top }: Layout, x: number, y: number, rows: Range, columns: Range): void {
    const { data, pairs, shade } = this.view;
    brush.font = `${cell > 1.5 * LARGEST ? 14 : 11}px system-ui, sans-serif`;
    brush.textAlign = "center";
    brush.textBaseline = "middle";
    for (let row = rows[0]; row < rows[1]; row++) {
      for (let column = columns[0]; column < columns[1]; column++) {
        if (row === column) continue;
        const [i, j] = [this.#streams[row], this.#streams[column]];
        const one = pairs.at(i, j);
        const colour = this.#colour(i, j);
        const numbers = shade === "estimate" ? one : { ...one, value: shade === "low" ? one.low : one.error };
        // a number that does not fit its cell would hide digits of others
        const text = shortened(numbers, data.largest, data.factor).find((text) => brush.measureText(text).width + 4 <= cell - 2);
        if (text === undefined) continue;
        const [atX, atY] = [left - x + (column + 0.5) * cell, top - y + (row + 0.5) * cell];
        if (pairs.unclear(i, j)) {
          const wide = brush.measureText(text).width + 4;
          brush.fillStyle = rgb(colour);
          brush.fillRect(atX - wide / 2, atY - 8, wide, 16);
        }
        brush.fillStyle = isLight(colour) ? "#000" : "#fff";
        brush.fillText(text, atX, atY + 0.5);
      }
    }
  }

  #groups(brush: CanvasRenderingContext2D, { cell, left, top }: Layout, x: number, y: number, ink: string): void {
    if (this.view.window !== null && !this.view.single) return;
    brush.strokeStyle = ink;
    brush.lineWidth = 2;
    for (const group of this.view.data.groups) {
      const places = group.map((stream) => this.#place.get(stream) ?? -1).sort((a, b) => a - b);
      const [first, last] = [places[0], places[places.length - 1]];
      if (first < 0 || last - first !== places.length - 1) continue; // not side by side in this order
      brush.strokeRect(left - x + first * cell, top - y + first * cell, places.length * cell, places.length * cell);
    }
  }

  #marks(brush: CanvasRenderingContext2D, { cell, left, top }: Layout, x: number, y: number, ink: Ink): void {
    const n = this.#streams.length;
    const thick = Math.max(cell, 2);
    const band = (place: number, fill: string): void => {
      brush.fillStyle = fill;
      brush.fillRect(left - x, top - y + place * cell, n * cell, thick);
      brush.fillRect(left - x + place * cell, top - y, thick, n * cell);
    };
    this.#streams.forEach((stream, place) => {
      if (this.view.isFound(stream)) band(place, "rgb(255 255 255 / .35)");
      else if (this.view.single && this.view.window !== null && this.view.inWindow(stream)) band(place, "rgb(255 255 255 / .35)");
    });
    const frame = (row: number, column: number, colour: string, width: number): void => {
      brush.strokeStyle = colour;
      brush.lineWidth = width;
      brush.strokeRect(left - x + column * cell - 1, top - y + row * cell - 1, thick + 2, thick + 2);
    };
    const { selection } = this.view;
    if (selection !== null) {
      const places = selection.map((stream) => this.#place.get(stream));
      if (selection.length === 1 && places[0] !== undefined) {
        for (const [colour, width] of [[ink.paper, 5], [ink.accent, 2.5]] as const) {
          brush.strokeStyle = colour;
          brush.lineWidth = width;
          brush.strokeRect(left - x, top - y + places[0] * cell - 1, n * cell, thick + 2);
        }
      } else if (places[0] !== undefined && places[1] !== undefined) {
        for (const [row, column] of [[places[0], places[1]], [places[1], places[0]]]) {
          frame(row, column, ink.paper, 5);
          frame(row, column, ink.accent, 2.5);
        }
      }
    }
    const shown = this.#pointed ?? (this.#focused ? this.#cursor : null);
    if (shown !== null) {
      frame(shown[0], shown[1], ink.paper, 4);
      frame(shown[0], shown[1], ink.ink, 2);
    }
  }

  #names(brush: CanvasRenderingContext2D, { cell, left, top, tree }: Layout, x: number, y: number, rows: Range, columns: Range, ink: Ink): void {
    const width = left + this.#streams.length * cell;
    const shown = this.#pointed ?? (this.#focused ? this.#cursor : null);
    const style = (stream: number, at: boolean): void => {
      const bold = at || this.view.isSelected(stream) || this.view.isFound(stream);
      brush.font = `${bold ? "bold " : ""}${lettersOf(Math.min(LETTERS, cell))}`;
      brush.fillStyle = this.view.isSelected(stream) ? ink.accent : ink.ink;
    };
    brush.textBaseline = "middle";
    brush.save();
    brush.beginPath();
    brush.rect(0, top, left, this.#streams.length * cell);
    brush.clip();
    brush.textAlign = "right";
    for (let row = rows[0]; row < rows[1]; row++) {
      style(this.#streams[row], shown !== null && shown[0] === row);
      brush.fillText(this.#name(this.#streams[row]), left - 5, top - y + (row + 0.5) * cell, left - tree - 6);
    }
    brush.restore();
    brush.save();
    brush.beginPath();
    brush.rect(left, 0, width - left, top);
    brush.clip();
    brush.textAlign = "left";
    for (let column = columns[0]; column < columns[1]; column++) {
      style(this.#streams[column], shown !== null && shown[1] === column);
      brush.save();
      brush.translate(left - x + (column + 0.5) * cell, top - 5);
      brush.rotate(-Math.PI / 2);
      brush.fillText(this.#name(this.#streams[column]), 0, 0, top - 8);
      brush.restore();
    }
    brush.restore();
  }

  #tree(brush: CanvasRenderingContext2D, { cell, top, tree }: Layout, y: number, height: number, ink: string): void {
    const { data } = this.view;
    const n = data.names.length;
    const most = Math.max(...data.tree.map((row) => row[2])) || 1;
    const middles = new Float64Array(2 * n - 1);
    const heights = new Float64Array(2 * n - 1);
    data.similar.forEach((stream, place) => (middles[stream] = place + 0.5));
    brush.save();
    brush.beginPath();
    brush.rect(0, top, tree, height - top);
    brush.clip();
    brush.strokeStyle = ink;
    brush.lineWidth = n > 200 ? 0.5 : 1;
    brush.beginPath();
    const across = (size: number): number => tree - 4 - (tree - 8) * (size / most);
    data.tree.forEach(([first, second, size], row) => {
      middles[n + row] = (middles[first] + middles[second]) / 2;
      heights[n + row] = size;
      const [a, b] = [top - y + middles[first] * cell, top - y + middles[second] * cell];
      line(brush, across(heights[first]), a, across(size), a);
      line(brush, across(heights[second]), b, across(size), b);
      line(brush, across(size), a, across(size), b);
    });
    brush.stroke();
    brush.restore();
  }

  // --- what is under the pointer, or the keyboard's cell ---------------------------------------------------------

  #say(): void {
    const shown = this.#pointed ?? (this.#focused ? this.#cursor : null);
    const { data, pairs, selection } = this.view;
    const pair = shown === null ? selection : ([this.#streams[shown[0]], this.#streams[shown[1]]] as const);
    if (pair === null || pair.length < 2 || pair[0] === pair[1]) {
      const name = pair === null ? "" : data.names[pair[0]];
      this.#readout.replaceChildren(name);
      return;
    }
    const [i, j] = pair as readonly [number, number];
    const [value, error, interval] = cells(pairs.at(i, j));
    const hatched = pairs.unclear(i, j) ? `; ${sentences.UNCLEAR}` : "";
    this.#readout.replaceChildren(
      element("strong", {}, `${data.names[i]} – ${data.names[j]}`), `: ${value} ± ${error}, 95\u00a0% interval ${interval}${hatched}`,
    );
  }

  #cellAt(event: MouseEvent): Cell | null {
    const box = this.#canvas.getBoundingClientRect();
    const { cell, left, top } = this.#layout;
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (y < top) return null;
    const row = Math.floor((y - top + this.#box.scrollTop) / cell);
    const column = x < left ? row : Math.floor((x - left + this.#box.scrollLeft) / cell);
    const n = this.#streams.length;
    return row >= 0 && row < n && column >= 0 && column < n ? [row, column] : null;
  }

  #reveal([row, column]: Cell): void {
    const { cell, left, top } = this.#layout;
    const box = this.#box;
    const [x, y] = [column * cell, row * cell];
    if (x < box.scrollLeft) box.scrollLeft = x;
    else if (x + cell > box.scrollLeft + box.clientWidth - left) box.scrollLeft = x + cell - box.clientWidth + left;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + cell > box.scrollTop + box.clientHeight - top) box.scrollTop = y + cell - box.clientHeight + top;
  }

  #select([row, column]: Cell): void {
    const [i, j] = [this.#streams[row], this.#streams[column]];
    this.view.change({ selection: i === j ? [i] : [i, j] });
  }

  #listen(): void {
    const box = this.#box;
    box.addEventListener("scroll", () => this.#paint());
    box.addEventListener("pointermove", (event) => {
      const found = this.#cellAt(event);
      if (found?.[0] === this.#pointed?.[0] && found?.[1] === this.#pointed?.[1]) return;
      this.#pointed = found;
      this.#paint();
    });
    box.addEventListener("pointerleave", () => {
      this.#pointed = null;
      this.#paint();
    });
    box.addEventListener("click", (event) => {
      const found = this.#cellAt(event);
      if (found === null) return;
      this.#cursor = found;
      this.#select(found);
    });
    box.addEventListener("focus", () => {
      this.#focused = true;
      this.#cursor ??= [0, Math.min(1, this.#streams.length - 1)];
      this.#paint();
    });
    box.addEventListener("blur", () => {
      this.#focused = false;
      this.#paint();
    });
    box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const last = this.#streams.length - 1;
      const [row, column] = this.#cursor ?? [0, Math.min(1, last)];
      const step = event.shiftKey ? 10 : 1;
      const moved: Record<string, Cell> = {
        ArrowUp: [Math.max(row - step, 0), column],
        ArrowDown: [Math.min(row + step, last), column],
        ArrowLeft: [row, Math.max(column - step, 0)],
        ArrowRight: [row, Math.min(column + step, last)],
        Home: [row, 0],
        End: [row, last],
        PageUp: [0, column],
        PageDown: [last, column],
      };
      const next = moved[event.key];
      if (next !== undefined) {
        [this.#cursor, this.#pointed] = [next, null];
        this.#reveal(next);
        this.#paint();
      } else if (event.key === "Enter" || event.key === " ") this.#select([row, column]);
      else if (event.key === "s" || event.key === "S") this.#select([row, row]);
      else if (event.key === "Escape") this.view.change({ selection: null });
      else if (event.key === "+" || event.key === "=") this.zoom(1.5);
      else if (event.key === "-") this.zoom(1 / 1.5);
      else return;
      event.preventDefault();
    });
  }

  /** Put the whole map beside the part that is in view, for paper alone. */
  onPaper(): void {
    this.#paper.replaceChildren(this.picture(PAPER, DAY));
  }

  /** Return the whole map with names as a picture of about the given width, in the page's colours or in others. */
  picture(width: number, ink: Ink = inkOf(this.#box)): HTMLCanvasElement {
    const n = this.#streams.length;
    const wide = Math.max(this.#nameWidth(), 40);
    const tree = this.#layout.tree > 10 ? 90 : 4;
    const names = (width - tree - wide) / n >= NAMED ? Math.min(wide, 180) : 4;
    const cell = Math.max(Math.min((width - tree - names) / n, largestCell(n)), 1);
    const layout = { cell, left: tree + names, top: names === 4 ? 4 : Math.min(names, 140), tree, width, height: 0 };
    const height = Math.ceil(layout.top + n * cell + 4);
    const found = element("canvas", { width: String(2 * Math.ceil(layout.left + n * cell + 2)), height: String(2 * height) });
    const brush = found.getContext("2d")!;
    brush.scale(2, 2);
    this.paintOn(brush, layout, 0, 0, found.width / 2, height, ink);
    return found;
  }
}

export interface Ink {
  readonly ink: string;
  readonly soft: string;
  readonly paper: string;
  readonly accent: string;
}

/** Return the page's colours, light or dark. */
export function inkOf(one: Element): Ink {
  const style = getComputedStyle(one);
  const named = (name: string): string => style.getPropertyValue(name).trim();
  return { ink: named("--ink"), soft: named("--soft"), paper: named("--paper"), accent: named("--accent") };
}

/** By day, for paper. */
const DAY: Ink = { ink: "#1b1f24", soft: "#57606a", paper: "#ffffff", accent: "#0550ae" };

/** Return the width of the largest cells of n streams: a few of them fill some of the page, too. */
function largestCell(n: number): number {
  return Math.max(LARGEST, Math.min(WIDEST, Math.floor(ALONE / n)));
}

function lettersOf(size: number): string {
  return `${size}px system-ui, sans-serif`;
}

type Range = readonly [number, number];

/** Return the first cell that is visible and the one after the last. */
function range(start: number, length: number, cell: number, n: number): Range {
  return [Math.max(0, Math.floor(start / cell)), Math.min(n, Math.ceil((start + length) / cell))];
}

function line(brush: CanvasRenderingContext2D, x: number, y: number, toX: number, toY: number): void {
  brush.moveTo(x, y);
  brush.lineTo(toX, toY);
}
