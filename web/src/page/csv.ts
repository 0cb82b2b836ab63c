/** The estimates as CSV, for a spreadsheet or a data frame. */
import type { View } from "./view.ts";

const FORMULA = /^[=+\-@\t\r]/;

/** Return a CSV cell; text that a spreadsheet would run as a formula gets an apostrophe before it. */
export function cellOf(text: string): string {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Return the pairs that are drawn, in their order, as parts of a file. */
export function csvOf(view: View): string[] {
  const { data, pairs } = view;
  const streams = view.streams();
  const names = streams.map((stream) => cellOf(data.names[stream]));
  const ends = view.data.together ? "low_95_together,high_95_together" : "low_95,high_95";
  const parts = [`first,second,${data.quantity.replaceAll(" ", "_")},standard_error,${ends}\n`];
  for (let row = 0; row < streams.length; row++) {
    let text = "";
    for (let column = row + 1; column < streams.length; column++) {
      const { value, error, low, high } = pairs.at(streams[row], streams[column]);
      text += `${names[row]},${names[column]},${value},${error},${low},${high}\n`;
    }
    parts.push(text);
  }
  return parts;
}
