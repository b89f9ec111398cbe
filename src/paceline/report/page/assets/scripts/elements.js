// Finds elements of the page and makes new ones. Texts go in as text, never as markup.

export const find = (id) => document.getElementById(id);

export function makeElement(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) {
    element.textContent = text;
  }
  if (className) {
    element.className = className;
  }
  return element;
}
