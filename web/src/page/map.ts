/** The map of the page without a script, linked to the selection. */
import type { View } from "./view.ts";

const REACH = 14; // pixels from a point, within which a click selects it

/** Let the map follow the selection, the search and the window, and select streams by a click. */
export function linkMap(view: View, map: SVGSVGElement): void {
  const marks = [...map.querySelectorAll<SVGElement>("[data-stream]")].map((mark) => [mark, Number(mark.dataset.stream)] as const);
  const points = marks.filter(([mark]) => mark.classList.contains("point"));
  const nearest = (event: MouseEvent): number | null => {
    let [best, least] = [null as number | null, REACH];
    for (const [point, stream] of points) {
      const box = point.getBoundingClientRect();
      const gap = Math.hypot(event.clientX - (box.left + box.right) / 2, event.clientY - (box.top + box.bottom) / 2);
      if (gap < least) [best, least] = [stream, gap];
    }
    return best;
  };
  map.addEventListener("click", (event) => {
    const label = event.target instanceof SVGTextElement ? event.target.dataset.stream : undefined;
    const stream = label === undefined ? nearest(event) : Number(label);
    if (stream === null) return;
    const { selection } = view;
    const second = event.shiftKey && selection !== null && selection[0] !== stream;
    view.change({ selection: second ? [selection[0], stream] : [stream] });
  });
  map.addEventListener("pointermove", (event) => map.classList.toggle("pointing", nearest(event) !== null));
  const draw = (): void => {
    map.classList.toggle("has-selection", view.selection !== null || view.search !== "" || view.window !== null);
    for (const [mark, stream] of marks) {
      mark.classList.toggle("selected", view.isSelected(stream));
      mark.classList.toggle("found", view.isFound(stream));
      mark.classList.toggle("away", view.window !== null && !view.inWindow(stream));
    }
    for (const [mark, stream] of marks) if (view.isSelected(stream) && mark.classList.contains("point")) mark.parentNode?.append(mark);
  };
  view.onChange(draw);
  draw();
}
