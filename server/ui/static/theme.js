// Runs before the page is drawn, so that it does not flash in the other colours.
"use strict";
try {
	const theme = localStorage.getItem("tenet-theme");
	if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is not allowed */ }
document.documentElement.classList.add("scripts");
