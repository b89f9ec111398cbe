// Light or dark: as the system has it, until the reader chooses.

import { find } from "./elements.js";

const THEMES = ["auto", "light", "dark"];
const STORED_AS = "paceline-theme";

// A page that is opened from disk may have no storage.
function storedTheme() {
  try {
    return localStorage.getItem(STORED_AS);
  } catch {
    return null;
  }
}

function storeTheme(theme) {
  try {
    localStorage.setItem(STORED_AS, theme);
  } catch {
    // the choice lasts until the page is closed
  }
}

function showTheme(theme) {
  if (theme === "auto") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  const button = find("theme");
  button.querySelector("span").textContent = theme;
  button.setAttribute("aria-label", "colours: " + (theme === "auto" ? "same as the system" : theme));
}

// Shows the stored theme; `onChange` is called whenever colours have changed.
export function startTheme(onChange) {
  let theme = THEMES.includes(storedTheme()) ? storedTheme() : "auto";
  showTheme(theme);
  find("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    showTheme(theme);
    storeTheme(theme);
    onChange();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onChange);
}
