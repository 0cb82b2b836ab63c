/** The heat map's colours: light for the nearest, dark for the farthest, as in the page without a script. */
import type { PageData } from "./data.ts";

export type Colour = readonly [number, number, number];

const VIRIDIS: readonly Colour[] = [
  [253, 231, 37], [159, 218, 58], [74, 193, 109], [31, 161, 135], [39, 127, 142], [54, 92, 141], [70, 50, 127],
];
/** Of the lines of a hatched cell. */
export const HATCH = 0.6;

/** Return where a value lies between the nearest, 0, and the farthest, 1. */
export function placeOn(scale: PageData["scale"], value: number): number {
  const { nearest, farthest, logarithmic } = scale;
  const inside = Math.min(Math.max(value, Math.min(nearest, farthest)), Math.max(nearest, farthest));
  if (logarithmic) return Math.log(inside / nearest) / Math.log(farthest / nearest);
  return (inside - nearest) / (farthest - nearest);
}

/** Return the value at a place of the scale. */
export function valueAt(scale: PageData["scale"], place: number): number {
  const { nearest, farthest, logarithmic } = scale;
  return logarithmic ? nearest * (farthest / nearest) ** place : nearest + (farthest - nearest) * place;
}

export function colourAt(place: number): Colour {
  const along = (place > 0 ? Math.min(place, 1) : 0) * (VIRIDIS.length - 1);
  const left = Math.min(Math.floor(along), VIRIDIS.length - 2);
  const [from, to, part] = [VIRIDIS[left], VIRIDIS[left + 1], along - left];
  return [0, 1, 2].map((channel) => Math.round(from[channel] + (to[channel] - from[channel]) * part)) as unknown as Colour;
}

/** Return a colour of errors: light for small, dark for large. */
export function greyAt(place: number): Colour {
  const inside = place > 0 ? Math.min(place, 1) : 0;
  return [Math.round(240 - 190 * inside), Math.round(243 - 180 * inside), Math.round(247 - 150 * inside)];
}

/** Return the relative luminance of a colour (WCAG 2). */
export function luminance(colour: Colour): number {
  const [red, green, blue] = colour.map((c) => (c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Whether black is more readable on a colour than white. */
export function isLight(colour: Colour): boolean {
  const bright = luminance(colour);
  return (bright + 0.05) / 0.05 >= 1.05 / (bright + 0.05);
}

export function rgb(colour: Colour): string {
  return `rgb(${colour.join(",")})`;
}

/** Return a colour mixed with what is readable on it. */
export function lined(colour: Colour, share: number): Colour {
  const ink = isLight(colour) ? 0 : 255;
  return colour.map((channel) => Math.round((1 - share) * channel + share * ink)) as unknown as Colour;
}
