// The pages work without any of this. With it they follow what happens, draw curves that can be read off, and explain
// epsilon while it is typed. Nothing here works out a number that the server has not.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// --- Put a new page in the place of this one, changing only what differs: focus, scrolling and transitions stay. ---

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh.cloneNode(true));
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || (old === document.activeElement && "value" in old)) return;
  if (old.dataset?.keep !== undefined) { // ours to change, but for the data that it names
    for (const name of old.dataset.keep.split(" ").filter(Boolean)) old.dataset[name] = fresh.dataset[name];
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((child, i) => (i < before.length ? morph(before[i], child) : old.append(child.cloneNode(true))));
  before.slice(after.length).forEach((child) => child.remove());
}

const FOLLOWS = { "Ldpbandits-Follows": "yes" };
let isRefreshing = false;
let isStale = false;

async function refresh() {
  if (isRefreshing) return void (isStale = true);
  isRefreshing = true;
  try {
    do {
      isStale = false;
      const reply = await fetch(location.href.replace(/#.*$/, ""), { headers: FOLLOWS });
      if (reply.redirected || reply.status === 404) return void location.reload(); // signed out, or deleted
      if (!reply.ok) return; // a proxy without a server, for a moment
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      morph($("#main"), $("#main", page));
      await plot();
    } while (isStale);
  } catch {
    // No network for a moment: the stream says when there is one again.
  } finally {
    isRefreshing = false;
  }
}

// --- Follow: one stream a page, only while somebody looks at it. ---

let stream = null;
let patience = 2000;

function follow() {
  const { events } = $("#main").dataset;
  if (!events || stream || document.hidden) return;
  stream = new EventSource(events);
  stream.onopen = () => { patience = 2000; showLive(true); };
  stream.onmessage = refresh;
  stream.onerror = () => {
    showLive(false);
    if (stream?.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    stop();
    setTimeout(() => refresh().then(follow), patience);
    patience = Math.min(patience * 2, 60000);
  };
}

function stop() {
  stream?.close();
  stream = null;
  showLive(false);
}

function showLive(is) {
  all(".live").forEach((sign) => { sign.hidden = !is; });
}

document.addEventListener("visibilitychange", () => (document.hidden ? stop() : (refresh(), follow())));
addEventListener("pagehide", stop);

// --- The curves. ---

let chart = null;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faint = (value, share) => value + Math.round(255 * share).toString(16).padStart(2, "0");
const grouped = new Intl.NumberFormat("en");

async function plot() {
  const place = $("[data-history]");
  if (!place || typeof uPlot === "undefined") return;
  const reply = await fetch(place.dataset.history, { headers: FOLLOWS });
  if (reply.ok) draw(place, await reply.json());
}

function draw(place, { responses, arms }) {
  const shown = arms.filter((arm) => arm.mean.some((mean) => mean !== null));
  if (responses.length < 2 || !shown.length) return;
  const key = JSON.stringify(shown.map((arm) => arm.arm));
  const isNew = chart?.key !== key || !place.contains(chart.plot.root);
  const { best, low, high, digits, focus } = place.dataset;
  const inFocus = focus ? new Set(focus.split(" ").map(Number)) : null; // of many arms, those that are not grey
  const now = { arms: shown, responses, inFocus, best: Number(best || -1), low: Number(low), high: Number(high), digits: Number(digits) };
  if (isNew) {
    chart?.plot.destroy();
    place.replaceChildren();
    place.hidden = false;
    chart = { key, place, picked: null, ...now };
    chart.plot = new uPlot(options(place, shown), null, place);
    place.append(...readings(shown));
  }
  Object.assign(chart, now);
  const known = (arm, values) => values.map((value, i) => (arm.mean[i] === null ? null : value));
  chart.plot.setData([responses, ...shown.flatMap((arm) => [known(arm, arm.high), known(arm, arm.low), arm.mean])]);
  read(chart.plot);
}

// An arm out of focus is grey unless it is picked: many curves in colour hide each other.
const isRest = (arm) => chart.inFocus && !chart.inFocus.has(arm) && chart.picked !== arm;

// The interval of the arm that is ahead is filled, or of the one that was picked: all at once would hide each other.
function options(place, arms) {
  const isPicked = (arm) => (chart.picked ?? chart.best) === arm;
  const series = arms.flatMap(({ arm }) => {
    const own = () => colour(isRest(arm) ? "--strong-line" : `--arm-${arm % 8}`);
    const edge = { stroke: () => faint(own(), isRest(arm) ? 0 : isPicked(arm) ? 0.7 : 0.35), width: 1, points: { show: false } };
    const mean = { stroke: () => (chart.picked === null || isPicked(arm) ? own() : faint(own(), 0.4)), width: 2, points: { show: false } };
    return [edge, edge, arm < 8 ? mean : { ...mean, dash: [6, 3] }];
  });
  const bands = arms.map(({ arm }, i) => ({
    series: [3 * i + 1, 3 * i + 2], fill: () => faint(colour(`--arm-${arm % 8}`), isPicked(arm) ? 0.15 : 0),
  }));
  const axis = { stroke: () => colour("--soft"), font: `12px ${getComputedStyle(document.body).fontFamily}`, ticks: { show: false } };
  return {
    width: place.clientWidth, height: 300, legend: { show: false }, series: [{}, ...series], bands,
    padding: [10, 18, 0, 0],
    scales: { x: { time: false }, y: { range: () => [chart.low, chart.high] } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, ticks) => ticks.map((tick) => grouped.format(tick)), space: 80, size: 30 },
      { ...axis, grid: { stroke: () => colour("--line"), width: 1 }, size: 46 },
    ],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    hooks: { setCursor: [read] },
  };
}

// Shows the values of the curves below the pointer, or else their last ones, as text; a click picks an arm.
function readings(arms) {
  const make = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const list = make("ul", { className: "readings" }, ...arms.map(({ arm, name }) => {
    const button = make("button", { type: "button" },
      make("span", {}), make("span", {}, name), make("span", {}));
    button.addEventListener("click", () => pick(chart.picked === arm ? null : arm));
    return make("li", {}, button);
  }));
  return [make("p", { className: "reading" }), list];
}

function pick(arm) {
  chart.picked = arm;
  chart.plot.redraw(false);
  read(chart.plot);
}

function read({ cursor }) {
  const line = $(".reading", chart.place);
  if (!line) return;
  const at = cursor.idx ?? chart.responses.length - 1;
  line.textContent = `After ${grouped.format(chart.responses[at])} responses`;
  all(".readings button", chart.place).forEach((button, i) => {
    const { arm, mean, low, high } = chart.arms[i];
    button.firstChild.className = `swatch ${isRest(arm) ? "rest" : `arm-${arm % 8}`}${arm < 8 ? "" : " again"}`;
    button.setAttribute("aria-pressed", String(chart.picked === arm));
    const written = [mean[at], low[at], high[at]].map((number) => number?.toFixed(chart.digits));
    button.lastChild.textContent = mean[at] === null ? "–" : `${written[0]} in [${written[1]}, ${written[2]}]`;
  });
}

addEventListener("resize", () => chart?.plot.setSize({ width: chart.place.clientWidth, height: 300 }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart?.plot.redraw());

// --- Forms. ---

const EXPLAINED = ["epsilon", "mechanism", "expect_baseline", "expect_gain", "transform", "low", "high", "theta"];

function explain() {
  const words = $("[data-words]");
  if (!words) return;
  const form = words.closest("form");
  let waiting = null;
  let asked = 0;
  const ask = async () => {
    const number = ++asked;
    const about = new URLSearchParams(EXPLAINED.map((name) => [name, form.elements[name].value]));
    about.set("arms", form.elements.arms.value.replace(/^\s+|\s+$/g, "").replace(/[^\n]+/g, "-")); // how many there are
    const reply = await fetch(`${words.dataset.words}?${about}`);
    if (!reply.ok || number !== asked) return; // something else was typed meanwhile
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = words.cloneNode();
    fresh.append(...page.body.childNodes);
    morph(words, fresh);
  };
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(ask, 60); };
  const slide = $("[data-slide]");
  const follow = () => {
    const epsilon = Number(form.elements.epsilon.value);
    if (epsilon > 0) slide.value = String(Math.log10(epsilon));
  };
  slide.addEventListener("input", () => {
    form.elements.epsilon.value = String(Number((10 ** Number(slide.value)).toPrecision(2)));
    soon();
  });
  form.elements.epsilon.addEventListener("input", follow);
  for (const name of [...EXPLAINED, "arms"]) {
    for (const field of form.querySelectorAll(`[name="${name}"]`)) field.addEventListener("input", soon);
  }
  follow();
}

document.documentElement.classList.add("scripted");
all("[data-submit]").forEach((form) => form.requestSubmit());
document.addEventListener("click", ({ target }) => target.closest("[data-print]") && print());
// The page has named the action that was done: reloading does not name it again.
if (location.search.startsWith("?done=")) history.replaceState(null, "", location.pathname);
explain();
plot();
follow();
addEventListener("pageshow", follow); // back from the browser's own memory
