/** Elements without markup: names and texts of files are text and never read as HTML. */

/** Return an element with attributes and children; text stays text. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

/** Return a button that calls a function. */
export function button(text: string, attributes: Readonly<Record<string, string>>, pressed: () => void): HTMLButtonElement {
  const found = element("button", { type: "button", ...attributes }, text);
  found.addEventListener("click", pressed);
  return found;
}

/** Return a control with its label. */
export function labelled(text: string, control: HTMLElement): HTMLLabelElement {
  return element("label", { class: "control" }, `${text} `, control);
}

/** Offer content as a file. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
