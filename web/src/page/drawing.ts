/** The map of streams as a drawing: a point, an ellipse and a name for each, as in the page that Python writes. */
import { type Ellipse, ellipses, places, type Squares } from "./scaling.ts";

const [WIDTH, HEIGHT, MARGIN] = [720, 560, 40];
const [LETTER, LINE] = [7.2, 15];
const LABEL = 18;
const DISTANCES = [9, 24, 42, 60, 80, 105, 135];
const MOST_ELLIPSES = 300;
const MOST_NAMES = 150;

type Box = readonly [number, number, number, number];

function shape(tag: string, attributes: Readonly<Record<string, string | number>>, text = ""): SVGElement {
  const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, typeof value === "number" ? value.toFixed(1) : value);
  found.textContent = text;
  return found;
}

/** Return the map of n streams by their squared distances. */
export function drawMap(names: readonly string[], squares: Squares): SVGSVGElement {
  const n = names.length;
  const found = places(squares.value, n);
  const rounds: Ellipse[] = n <= MOST_ELLIPSES ? ellipses(squares, found) : [];
  const spread = Math.max(...[0, 1].map((axis) => Math.max(...found.map((one) => one[axis])) - Math.min(...found.map((one) => one[axis])))) || 1;
  const reach = rounds.map(([longest]) => Math.min(longest, spread));
  const ends = [0, 1].map((axis) => {
    const low = Math.min(...found.map((one, place) => one[axis] - (reach[place] ?? 0)));
    const high = Math.max(...found.map((one, place) => one[axis] + (reach[place] ?? 0)));
    return [low, Math.max(high, low + 1e-12)];
  });
  const scale = Math.min((WIDTH - 2 * MARGIN) / (ends[0][1] - ends[0][0]), (HEIGHT - 2 * MARGIN) / (ends[1][1] - ends[1][0]));
  const points = found.map(([x, y]) => [WIDTH / 2 + (x - (ends[0][0] + ends[0][1]) / 2) * scale, HEIGHT / 2 - (y - (ends[1][0] + ends[1][1]) / 2) * scale] as const);
  const map = shape("svg", { class: "map", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Map of the streams: similar streams have nearby points" }) as SVGSVGElement;
  rounds.forEach(([long, short, angle], place) => {
    const [x, y] = points[place];
    map.append(shape("ellipse", { class: "error", "data-stream": String(place), cx: x, cy: y, rx: Math.max(long * scale, 1), ry: Math.max(short * scale, 1), transform: `rotate(${(-angle).toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)})` }));
  });
  points.forEach(([x, y], place) => {
    const point = shape("circle", { class: "point", "data-stream": String(place), cx: x, cy: y, r: n > 200 ? 2.5 : 3.5 });
    point.append(shape("title", {}, names[place]));
    map.append(point);
  });
  const labels = shape("g", { class: "labels" });
  const taken: Box[] = points.map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]);
  points.slice(0, MOST_NAMES).forEach(([x, y], place) => {
    const name = names[place].length > LABEL ? `${names[place].slice(0, LABEL - 1)}…` : names[place];
    const box = freePlace(x, y, LETTER * name.length, taken);
    if (box === null) return;
    taken.push(box);
    if (Math.max(box[0] - x, x - box[2], box[1] - y, y - box[3]) > 15) {
      const [toX, toY] = [Math.min(Math.max(x, box[0]), box[2]), Math.min(Math.max(y, box[1]), box[3])];
      labels.append(shape("path", { class: "leader", "data-stream": String(place), d: `M${x.toFixed(1)} ${y.toFixed(1)}L${toX.toFixed(1)} ${toY.toFixed(1)}` }));
    }
    labels.append(shape("text", { "data-stream": String(place), x: box[0], y: box[3] - 4 }, name));
  });
  map.append(labels);
  return map;
}

/** Return the first place of a label that nothing else takes. */
function freePlace(x: number, y: number, width: number, taken: readonly Box[]): Box | null {
  for (const far of DISTANCES) {
    for (let angle = 0; angle < 360; angle += 30) {
      const middleX = x + Math.cos((angle * Math.PI) / 180) * (far + width / 2);
      const middleY = y - Math.sin((angle * Math.PI) / 180) * (far + LINE / 2);
      const box: Box = [middleX - width / 2, middleY - LINE / 2, middleX + width / 2, middleY + LINE / 2];
      if (box[0] < 0 || box[1] < 0 || box[2] > WIDTH || box[3] > HEIGHT) continue;
      if (taken.every((other) => box[2] <= other[0] + 1 || other[2] <= box[0] + 1 || box[3] <= other[1] + 1 || other[3] <= box[1] + 1)) return box;
    }
  }
  return null;
}
