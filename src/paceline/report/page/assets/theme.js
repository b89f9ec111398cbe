// Light or dark.

const find = (id) => document.getElementById(id);

// Colours: as the system has them, until somebody chooses.
const themes = ["auto", "light", "dark"];
const themeButton = find("theme");
const onTheme = [];
const remembered = () => { try { return localStorage.getItem("paceline-theme"); } catch { return null; } };
function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.querySelector("span").textContent = theme;
  themeButton.setAttribute("aria-label", "colours: " + (theme === "auto" ? "as the system has them" : theme));
  try { localStorage.setItem("paceline-theme", theme); } catch { /* a page from disk may have no memory */ }
  for (const tell of onTheme) tell();
}
let theme = themes.includes(remembered()) ? remembered() : "auto";
themeButton.addEventListener("click", () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; showTheme(theme); });
showTheme(theme);
