/** Names of windows: `KEY 2024-05-01`, as Python reads them. */

const DATE = /^(\d{4})-(\d{2})(?:-(\d{2})(?:T(\d{2})[-:]?(\d{2})(?:[-:]?(\d{2})(\.\d{1,6})?)?Z)?)?$/;
const WEEK = /^(\d{4})-W(\d{2})$/;

/** Return the start that the name of a window says, in milliseconds since 1970; null for a name of anything else. */
export function windowTime(name: string): number | null {
  const week = WEEK.exec(name);
  if (week !== null) {
    const [year, number] = [Number(week[1]), Number(week[2])];
    const fourth = new Date(Date.UTC(year, 0, 4)); // is in week 1
    const monday = fourth.getTime() - ((fourth.getUTCDay() + 6) % 7) * 86_400_000 + (number - 1) * 604_800_000;
    const thursday = new Date(monday + 3 * 86_400_000);
    return number >= 1 && thursday.getUTCFullYear() === year ? monday : null;
  }
  const found = DATE.exec(name);
  if (found === null) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part) => (part === undefined ? 0 : Number(part)));
  const date = found[3] === undefined ? 1 : day;
  const time = Date.UTC(year, month - 1, date, hour, minute, second);
  const back = new Date(time);
  const isReal = year >= 100 && back.getUTCMonth() === month - 1 && back.getUTCDate() === date && hour < 24 && minute < 60 && second < 60;
  return isReal ? time + 1000 * Number(found[7] ?? 0) : null;
}

/** Return key and window of a stream's name, or null if it does not end in that of a window. */
export function keyAndWindow(name: string): [string, string] | null {
  const space = name.lastIndexOf(" ");
  const window = name.slice(space + 1);
  return windowTime(window) === null ? null : [name.slice(0, Math.max(space, 0)), window];
}
