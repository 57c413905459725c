// What pages do with scripts: live updates, dialogs, the command palette, keys, charts. Without scripts every page can be read.
"use strict";
(() => {
	const body = document.body;
	const prefix = body.dataset.prefix;
	const $ = (selector, from = document) => from.querySelector(selector);
	const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
	const announce = (text) => { $("#announcer").textContent = text; };

	// Times: how long ago, beside the exact value.
	const spans = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
	function ago(seconds) {
		const abs = Math.abs(seconds);
		const [size, unit] = spans.find(([size]) => abs >= size) ?? [1, "s"];
		const text = `${Math.floor(abs / size)} ${unit}`;
		return seconds >= 0 ? `${text} ago` : `in ${text}`;
	}
	function times(from = document) {
		const now = Date.now();
		for (const t of $$("time[datetime]", from)) {
			t.dataset.exact ??= t.textContent;
			const text = `${t.dataset.exact} · ${ago((now - Date.parse(t.dateTime)) / 1000)}`;
			if (t.textContent !== text) t.textContent = text;
		}
	}

	// Charts. uPlot is loaded with the first of them.
	let plotting;
	function script() {
		return plotting ??= new Promise((done, fail) => {
			const style = document.createElement("link");
			style.rel = "stylesheet"; style.href = body.dataset.chartStyle; style.nonce = body.dataset.nonce;
			const code = document.createElement("script");
			code.src = body.dataset.chartScript; code.nonce = body.dataset.nonce;
			code.onload = () => done(window.uPlot); code.onerror = fail;
			document.head.append(style, code);
		});
	}
	const units = {
		number: (v) => Intl.NumberFormat("en", { notation: "compact" }).format(v),
		rate: (v) => `${Intl.NumberFormat("en", { notation: "compact" }).format(v)}/s`,
		seconds: (v) => v >= 60 ? `${+(v / 60).toFixed(1)} min` : v >= 1 || v === 0 ? `${+v.toFixed(1)} s` : `${+(v * 1000).toFixed(1)} ms`,
		times: (v) => `${+v.toFixed(2)}×`,
	};
	function clocks(list) {
		const step = list.length > 1 ? list[1] - list[0] : 60;
		const form = step >= 86400 ? { day: "numeric", month: "short" } : step % 60 === 0 ? { hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", second: "2-digit" };
		const write = (v) => new Date(v * 1000).toLocaleString("en-GB", { ...form, timeZone: "UTC" });
		return list.map(write).map((text, i, all) => text === all[i - 1] ? "" : text);
	}
	function color(name) { // light-dark() is resolved by giving it to an element
		const probe = document.createElement("i");
		probe.style.color = `var(${name})`;
		body.append(probe);
		const value = getComputedStyle(probe).color;
		probe.remove();
		return value;
	}
	async function charts(from = document) {
		const list = $$("[data-chart]", from);
		if (!list.length) return;
		const Plot = await script();
		for (const figure of list) {
			const place = $(".plot", figure);
			const chart = JSON.parse(figure.dataset.chart);
			const data = [chart.x.map((x) => x + (chart.start ?? 0)), ...chart.series.map((s) => s.values)];
			const width = Math.max(120, place.clientWidth);
			if (place.plot && place.shape === chart.series.map((s) => s.name).join() && place.contains(place.plot.root)) {
				place.plot.setData(data);
				continue;
			}
			place.textContent = "";
			const write = units[chart.unit] ?? units.number;
			const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, font: "11px system-ui" };
			place.plot = new Plot({
				width, height: 170, legend: { show: false }, cursor: { drag: { x: false, y: false } }, scales: { x: { range: (_, low, high) => [Math.min(low, high - 60), high] }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, chart.unit === "seconds" ? 1e-3 : 1) * 1.08] } },
				tzDate: (seconds) => Plot.tzDate(new Date(seconds * 1000), "UTC"),
				axes: [{ ...axis, space: 64, ...(!chart.elapsed && { label: "UTC", size: 34, labelSize: 16, labelFont: axis.font }), incrs: [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800], values: (_, list) => chart.elapsed ? list.map(units.seconds) : clocks(list) }, { ...axis, size: 58, values: (_, list) => list.map(write) }],
				series: [{}, ...chart.series.map((s) => ({ label: s.name, stroke: color(`--line-${s.color}`), width: 1.8, points: { show: (u, i) => u.data[i].filter((v) => v !== null).length < 3, size: 6 }, spanGaps: true }))],
			}, data, place);
			place.shape = chart.series.map((s) => s.name).join();
		}
	}
	new ResizeObserver(() => { for (const p of $$(".plot")) if (p.plot) p.plot.setSize({ width: Math.max(120, p.clientWidth), height: 170 }); }).observe($("main"));

	// Live updates: the server sends the content whenever it has changed. What the person is typing in stays.
	function dress(from = document) { times(from); charts(from); chosen(); }
	let source, again;
	let announced = 0;
	function follow() {
		source?.close();
		clearTimeout(again);
		if (document.hidden) return; // a browser opens few connections to a server: a tab that nobody sees leaves its own to others
		let failures = 0;
		source = new EventSource(body.dataset.live);
		source.addEventListener("content", (event) => {
			failures = 0;
			$("#stale").hidden = true;
			const next = document.createElement("div");
			next.innerHTML = event.data;
			Idiomorph.morph($("#content"), next.childNodes, {
				morphStyle: "innerHTML", ignoreActiveValue: true,
				callbacks: {
					beforeNodeMorphed: (old, node) => !(old.dataset?.keep !== undefined || old.tagName === "TIME" && old.dateTime === node.dateTime),
					beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS") && !(name === "value" && node === document.activeElement) && name !== "data-exact",
				},
			});
			htmx.process($("#content"));
			dress($("#content"));
			if (Date.now() - announced > 15000) { announced = Date.now(); announce("The page was updated."); }
		});
		source.onopen = () => { failures = 0; $("#stale").hidden = true; };
		source.onerror = () => {
			const refused = source.readyState === EventSource.CLOSED; // browsers do not ask again by themselves
			if (++failures > 1 || refused) $("#stale").hidden = false;
			if (refused) again = setTimeout(follow, 5000);
		};
	}

	// Dialogs. What an action would do is shown in one, if scripts run.
	let opener;
	document.addEventListener("htmx:beforeRequest", (event) => { opener = event.detail.elt; });
	document.addEventListener("htmx:afterSwap", (event) => {
		if (event.detail.target.id !== "dialog-body") return;
		const dialog = $("#dialog");
		if (!dialog.open) dialog.showModal();
		(($("#dialog-body input:not([type=hidden]), #dialog-body select, #dialog-body textarea")) ?? $("#dialog-body button"))?.focus();
		dress(dialog);
	});
	for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
		document.addEventListener(name, () => announce("The server did not answer. Try again."));
	}
	$("#dialog").addEventListener("close", () => { $("#dialog-body").textContent = ""; if (opener?.isConnected) opener.focus(); });

	// A form that makes a change is sent once, also by a double click: the answer to a second request would hide that to the first.
	let sent;
	document.addEventListener("submit", (event) => {
		const form = event.target;
		if (form.method !== "post" || event.defaultPrevented) return;
		if (form === sent) event.preventDefault();
		sent = form;
		setTimeout(() => { if (sent === form) sent = null; }, 5000); // the page may stay, after Esc or a new tab
	});
	window.addEventListener("pageshow", () => { sent = null; }); // a page that a browser kept

	// The command palette lists the pages of the navigation, and searches jobs.
	const palette = $("#palette");
	function choices(text) {
		const words = text.toLowerCase().split(/\s+/).filter(Boolean);
		const list = $$("nav.side a").map((a) => ({ text: a.textContent, href: a.href }))
			.concat($$("#content a.button[hx-get]").map((a) => ({ text: a.textContent + (a.closest("tr")?.querySelector("th") ? `: ${a.closest("tr").querySelector("th").textContent.trim()}` : ""), act: a })));
		const help = $("[data-open=shortcuts]");
		if (help) list.push({ text: "Keyboard shortcuts", act: help });
		const found = list.filter((c) => words.every((w) => c.text.toLowerCase().includes(w))).slice(0, 30);
		if (text.trim()) found.push({ text: `Search jobs: ${text.trim()}`, href: `${prefix}jobs?filter=${encodeURIComponent(text.trim())}` });
		return found;
	}
	function showChoices(selected = 0) {
		const list = $("#palette-list");
		palette.choices = choices($("input", palette).value);
		list.replaceChildren(...palette.choices.map((c, i) => {
			const item = document.createElement("li");
			item.id = `choice-${i}`; item.role = "option"; item.textContent = c.text; item.ariaSelected = String(i === selected);
			item.addEventListener("click", () => choose(i));
			return item;
		}));
		palette.selected = selected;
		$("input", palette).setAttribute("aria-activedescendant", palette.choices.length ? `choice-${selected}` : "");
		list.children[selected]?.scrollIntoView({ block: "nearest" });
	}
	function choose(i) {
		const c = palette.choices[i];
		if (!c) return;
		palette.close();
		if (c.act) c.act.click(); else location.href = c.href;
	}
	function openPalette() { $("input", palette).value = ""; showChoices(); palette.showModal(); }
	$("input", palette).addEventListener("input", () => showChoices());
	palette.addEventListener("keydown", (event) => {
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (step) { event.preventDefault(); const n = palette.choices.length; if (n) showChoices((palette.selected + step + n) % n); }
		if (event.key === "Enter") { event.preventDefault(); choose(palette.selected); }
	});

	// Suggestions while typing: an input with data-combo names its list, which the server fills.
	function combo(input) {
		const list = $(`#${input.dataset.combo}`);
		const characters = (text) => [...text].length;
		let selected = -1;
		const options = () => $$("[role=option]", list);
		function show(on) {
			list.hidden = !on || !options().length;
			input.setAttribute("aria-expanded", String(!list.hidden));
			select(-1);
		}
		function select(i) {
			selected = i;
			options().forEach((o, n) => { o.ariaSelected = String(n === i); });
			input.setAttribute("aria-activedescendant", options()[i]?.id ?? "");
			options()[i]?.scrollIntoView({ block: "nearest" });
		}
		function take(option) {
			input.value = option.dataset.text;
			const caret = [...input.value].slice(0, +option.dataset.caret).join("").length;
			input.setSelectionRange(caret, caret);
			show(false);
			htmx.trigger(input, "suggest");
		}
		input.addEventListener("htmx:configRequest", (event) => { event.detail.parameters.at = String(characters(input.value.slice(0, input.selectionStart))); });
		list.addEventListener("htmx:afterSwap", () => show(document.activeElement === input));
		list.addEventListener("mousedown", (event) => { event.preventDefault(); const option = event.target.closest("[role=option]"); if (option) take(option); });
		input.addEventListener("blur", () => show(false));
		input.addEventListener("keydown", (event) => {
			const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
			const n = options().length;
			if (step && list.hidden) { event.preventDefault(); htmx.trigger(input, "suggest"); return; }
			if (step) { event.preventDefault(); select((selected + step + n + (selected < 0 && step < 0 ? 1 : 0)) % n); }
			if (list.hidden) return;
			if ((event.key === "Enter" || event.key === "Tab") && selected >= 0) { event.preventDefault(); take(options()[selected]); }
			if (event.key === "Escape") { event.preventDefault(); show(false); }
		});
	}
	$$("[data-combo]").forEach(combo);

	// The rows that a person has selected.
	function chosen() {
		const boxes = $$("#chosen input[name=id]");
		const n = boxes.filter((b) => b.checked).length;
		const text = $("#chosen-count");
		if (text) text.textContent = n ? `${n} selected:` : "All that match:";
		const all = $("#choose-all");
		if (all) { all.checked = n > 0 && n === boxes.length; all.indeterminate = n > 0 && n < boxes.length; }
	}
	document.addEventListener("change", (event) => {
		if (event.target.id === "choose-all") for (const b of $$("#chosen input[name=id]")) b.checked = event.target.checked;
		if (event.target.closest("#chosen")) chosen();
	});

	// Keys.
	function theme() {
		const root = document.documentElement;
		const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
		root.dataset.theme = dark ? "light" : "dark";
		try { localStorage.setItem("tenet-theme", root.dataset.theme); } catch { /* storage is not allowed */ }
		for (const p of $$(".plot")) { p.plot?.destroy(); p.plot = undefined; }
		charts();
	}
	// Keys of a single character can be turned off, for people whose speech input or hands press them by accident (WCAG 2.1.4).
	const setting = $("#single-keys");
	let single = true; // where storage is not allowed, until the page is left
	function readSetting() {
		try { single = localStorage.getItem("tenet-single-keys") !== "off"; } catch { /* storage is not allowed */ }
		setting.checked = single;
		if (single) $("#search")?.setAttribute("aria-keyshortcuts", "/"); else $("#search")?.removeAttribute("aria-keyshortcuts");
	}
	setting.addEventListener("change", () => {
		single = setting.checked;
		try { localStorage.setItem("tenet-single-keys", single ? "on" : "off"); } catch { /* storage is not allowed */ }
		readSetting();
	});
	$("#shortcuts").addEventListener("close", (event) => { // the browser may leave the focus on the checkbox, which takes keys
		if (event.target.contains(document.activeElement)) document.activeElement.blur();
	});
	addEventListener("storage", readSetting); // another tab has changed it
	readSetting();
	const places = { o: "", q: "queues", j: "jobs", d: "dlq", p: "policies", a: "audit" };
	let going = 0;
	function row(step) {
		const links = $$("table[data-rows] tbody th a, table[data-rows] tbody td:first-child a");
		const at = links.indexOf(document.activeElement);
		links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + step))]?.focus();
	}
	document.addEventListener("keydown", (event) => {
		if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); if (!palette.open) openPalette(); return; }
		if (event.key === " " && event.target.matches("a[role=button]")) { event.preventDefault(); event.target.click(); return; }
		if (!single || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]") || event.target.closest("input, select, textarea, [contenteditable]")) return;
		if (Date.now() - going < 1500 && places[event.key] !== undefined) { event.preventDefault(); location.href = prefix + places[event.key]; return; }
		const keys = { "/": () => ($("#filter") ?? $("#search"))?.focus(), x: () => document.activeElement.closest("tr")?.querySelector("input[name=id]")?.click(), "?": () => $("#shortcuts").showModal(), g: () => { going = Date.now(); }, j: () => row(1), k: () => row(-1), t: theme };
		if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
	});
	// The command line below a form says what the form says, as field.words has it.
	document.addEventListener("input", (event) => {
		const form = event.target.closest("form[data-command]"), shown = form && $(".command", form);
		if (!shown) return;
		const quoted = (word) => /^[\w=/:.,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
		const counts = (field) => $(field.closest("[data-if]")?.dataset.if ?? "*", form).checked !== false; // not if it belongs to a choice that is not made
		const words = $$("[data-flag]", form).filter(counts).map((field) => {
			const says = field.dataset, inputs = $$("input, select, textarea", field).filter((input) => !/checkbox|radio/.test(input.type) || input.checked);
			let value = inputs.map((input) => input.value.trim()).join(",");
			if (says.several !== undefined) value = value.split(/[\s,]+/).filter(Boolean).join(",");
			return value === "" || value === says.usual ? says.unset : says.flag.replace("VALUE", () => quoted(value));
		});
		const line = [form.dataset.command, ...words, form.dataset.last].filter(Boolean).join(" ");
		$("code", shown).textContent = $("[data-copy]", shown).dataset.copy = line;
	});
	document.addEventListener("click", (event) => {
		const on = (selector) => event.target.closest(selector);
		if (on("[data-theme-toggle]")) theme();
		const open = on("[data-open]")?.dataset.open; // the ID of a dialog
		if (open === "palette") openPalette(); else if (open) $(`#${open}`).showModal();
		const copy = on("[data-copy]");
		if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => announce("Copied."), () => announce("Copying is not allowed here."));
		const line = on("[data-line]");
		if (line) {
			event.preventDefault();
			const text = $("#text"), lines = text.value.split("\n"), n = Number(line.dataset.line);
			const from = lines.slice(0, n - 1).join("\n").length + (n > 1 ? 1 : 0);
			text.focus(); text.setSelectionRange(from, from + (lines[n - 1] ?? "").length);
			text.scrollTop = (n - 4) * text.scrollHeight / lines.length;
		}
		if (on("[data-close]") && on("dialog")) { event.preventDefault(); on("dialog").close(); }
	});

	if (matchMedia("(max-width: 60rem)").matches) $("details.menu")?.removeAttribute("open");
	dress();
	setInterval(() => { if (!document.hidden) times(); }, 1000);
	if (body.dataset.live) {
		document.addEventListener("visibilitychange", follow);
		follow();
	}
})();
