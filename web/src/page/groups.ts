/** The tree of streams, an order with similar ones side by side, and the groups that stand out, as in Python's report. */

const WIDE = 1.2; // of the median width of intervals; a stream of wider ones may be left out

export type Merge = readonly [number, number, number];

/** Return the tree by average linkage of n·n squared distances, which may be negative; heights are not squared. */
export function treeOf(squares: Float64Array, n: number): Merge[] {
  const gaps = Float64Array.from(squares);
  const sizes = new Float64Array(n).fill(1);
  const live = new Uint8Array(n).fill(1);
  const merges: [number, number, number][] = [];
  const chain: number[] = [];
  for (let left = n; left > 1; left--) {
    if (chain.length === 0) chain.push(live.indexOf(1));
    for (;;) {
      const last = chain[chain.length - 1];
      let nearest = chain.length > 1 ? chain[chain.length - 2] : -1;
      let least = nearest < 0 ? Infinity : gaps[last * n + nearest];
      for (let other = 0; other < n; other++) {
        if (live[other] === 1 && other !== last && gaps[last * n + other] < least) [nearest, least] = [other, gaps[last * n + other]];
      }
      if (chain.length > 1 && nearest === chain[chain.length - 2]) break;
      chain.push(nearest);
    }
    const [first, second] = [chain.pop()!, chain.pop()!];
    merges.push([first, second, gaps[first * n + second]]);
    const whole = sizes[first] + sizes[second];
    for (let other = 0; other < n; other++) {
      if (live[other] === 0 || other === first || other === second) continue;
      const mean = (sizes[first] * gaps[first * n + other] + sizes[second] * gaps[second * n + other]) / whole;
      gaps[second * n + other] = gaps[other * n + second] = mean;
    }
    [sizes[second], live[first]] = [whole, 0];
  }
  // the chain finds them out of order: sort by height, and name groups by the row that makes them
  merges.sort((a, b) => a[2] - b[2]);
  const parent = Array.from({ length: n }, (_, place) => place);
  const root = (place: number): number => {
    while (parent[place] !== place) place = parent[place] = parent[parent[place]];
    return place;
  };
  const group = Array.from({ length: n }, (_, place) => place);
  return merges.map(([first, second, square], row) => {
    const [a, b] = [root(first), root(second)];
    const found = [Math.min(group[a], group[b]), Math.max(group[a], group[b]), Math.sqrt(Math.max(square, 0))] as const;
    parent[a] = b;
    group[b] = n + row;
    return found;
  });
}

/** Return an order of the tree in which the ends of groups that are joined are near. */
export function orderOf(tree: readonly Merge[], squares: Float64Array, n: number): number[] {
  const orders: number[][] = Array.from({ length: n }, (_, place) => [place]);
  for (const [first, second] of tree) {
    const [a, b] = [orders[first], orders[second]];
    const gap = (x: number, y: number): number => squares[x * n + y];
    const ways = [
      [gap(a[a.length - 1], b[0]), false, false], [gap(a[a.length - 1], b[b.length - 1]), false, true],
      [gap(a[0], b[0]), true, false], [gap(a[0], b[b.length - 1]), true, true],
    ] as const;
    const [, turnA, turnB] = ways.reduce((best, one) => (one[0] < best[0] ? one : best));
    orders.push([...(turnA ? a.slice().reverse() : a), ...(turnB ? b.slice().reverse() : b)]);
  }
  return n === 1 ? [0] : orders[orders.length - 1];
}

/** The nearest and the farthest that the streams of each pair may be, all of them at once: n·n. */
export interface Reach {
  readonly near: Float64Array;
  readonly far: Float64Array;
}

export interface Groups {
  readonly groups: number[][];
  readonly hidden: number[];
  readonly alike: boolean;
}

/** Return the largest branches that stand out: see `groups_in` in streamsketch/report/standing.py. */
export function groupsIn(tree: readonly Merge[], reach: Reach, toldApart: readonly boolean[]): Groups {
  const n = toldApart.length;
  const widths = toldApart.map((_, place) => median(range(n).map((other) => (other === place ? 0 : reach.far[place * n + other] - reach.near[place * n + other]))));
  const usual = median(widths);
  const wide = range(n).filter((place) => widths[place] > WIDE * usual).sort((a, b) => widths[b] - widths[a]);
  let best: number[][] = [];
  let compared: readonly boolean[] = toldApart;
  const trials = [...new Set(range(13).map((share) => Math.min(Math.floor((n * share) / 20), wide.length)))];
  for (const leftOut of trials) {
    const some = toldApart.slice();
    for (const place of wide.slice(0, leftOut)) some[place] = false;
    const found = branches(tree, reach, some);
    if (found.flat().length > best.flat().length) [best, compared] = [found, some];
  }
  const hidden = range(n).filter((place) => !compared[place] && !best.every((group) => isApart(reach, n, group, [place])));
  return { groups: best, hidden, alike: !toldApart.includes(true) };
}

function branches(tree: readonly Merge[], reach: Reach, compared: readonly boolean[]): number[][] {
  const n = compared.length;
  const members: number[][] = compared.map((isIn, place) => (isIn ? [place] : []));
  for (const [first, second] of tree) members.push([...members[first], ...members[second]].sort((a, b) => a - b));
  const everything = members[members.length - 1];
  const found: number[][] = [];
  const unseen = [members.length - 1];
  while (unseen.length > 0) {
    const one = unseen.pop()!;
    const group = members[one];
    if (group.length < 2) continue;
    const inside = new Set(group);
    const outside = everything.filter((place) => !inside.has(place));
    if (outside.length > 0 && isApart(reach, n, group, outside)) found.push(group);
    else if (one >= n) unseen.push(tree[one - n][1], tree[one - n][0]);
  }
  return found;
}

function isApart({ near, far }: Reach, n: number, group: readonly number[], others: readonly number[]): boolean {
  return group.every((place) => {
    let [most, least] = [-Infinity, Infinity];
    for (const other of group) if (other !== place) most = Math.max(most, far[place * n + other]);
    for (const other of others) least = Math.min(least, near[place * n + other]);
    return most < least;
  });
}

export function range(n: number): number[] {
  return Array.from({ length: n }, (_, place) => place);
}

export function median(values: readonly number[]): number {
  const sorted = values.slice().sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}
