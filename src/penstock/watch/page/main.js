// Shows the view of the address, the state of the connection, and reacts to keys.

import { clusterAddress } from "/api.js";
import { queriesView, QueryView } from "/queries.js";
import { Stream } from "/stream.js";
import { clock, h, setText, shown } from "/text.js";
import { clustersView, groupsView, GroupView, Overview, topicsView, TopicView } from "/views.js";

const main = document.getElementById("main");
const status = document.getElementById("status");
const cluster = document.getElementById("cluster");
const clusters = document.getElementById("clusters");
const age = document.getElementById("age");
const keys = document.getElementById("keys");
const themeButton = document.getElementById("theme");
let view = null;
let title = "";
let pending = "";
let hadCluster = true;

function makeView() {
  const [, kind = "", encoded = ""] = location.hash.split("/");
  let name = "";
  try {
    name = decodeURIComponent(encoded);
  } catch {
    // not an address of this page
  }
  if (kind === "clusters") return [clustersView(), "clusters", "Clusters"];
  if (kind === "query" && name) return [new QueryView(name), "queries", "Query"];
  if (kind === "queries" || !stream.hasCluster) return [queriesView(), "queries", "Queries"];
  if (kind === "topics") return [topicsView(), "topics", "Topics"];
  if (kind === "groups") return [groupsView(), "groups", "Groups"];
  if (kind === "topic" && name) return [new TopicView(name), "topics", name];
  if (kind === "group" && name) return [new GroupView(name), "groups", name];
  return [new Overview(), "overview", "Cluster"];
}

function route() {
  for (const table of view?.tables ?? []) table.close();
  const [made, section, name] = makeView();
  view = made;
  title = name;
  main.replaceChildren(view.element);
  showTitle();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  updateView();
  view.tables[0].grid.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** With the name of the cluster, which tells tabs of several clusters apart. */
function showTitle() {
  const name = shown(stream.head?.name);
  clusters.hidden = stream.clusters.size < 2;
  cluster.hidden = !clusters.hidden;
  const names = [...stream.clusters.keys()];
  if (names.join("\n") !== [...clusters.options].map((option) => option.value).join("\n")) {
    clusters.replaceChildren(...names.map((each) => h("option", { value: each }, shown(each))));
  }
  if (stream.head) clusters.value = stream.head.name;
  document.title = `${shown(title)} – ${name || "penstock watch"}`;
  setText(cluster, name);
}

function updateView() {
  if (stream.head || view?.isOfQueries) view?.update(stream);
}

function changed() {
  if (stream.hasCluster !== hadCluster) {
    hadCluster = stream.hasCluster;
    route(); // to the views that there are
  } else updateView();
  for (const link of document.querySelectorAll("nav a")) {
    const view = link.dataset.view;
    if (view === "clusters") link.hidden = stream.clusters.size < 2;
    else link.hidden = view === "queries" ? stream.hasCluster && !stream.queries.size : !stream.hasCluster;
  }
  showTitle();
  showStatus();
}

/** What is wrong. Written only when it differs: screen readers read it aloud. */
function showStatus() {
  const texts = [];
  if (stream.refusal) {
    texts.push(`No data: ${shown(stream.refusal)}.`);
  } else if (!stream.isConnected && !stream.hasCluster) {
    texts.push("No connection to the driver: it has ended, or closed its page. Values are old.");
  } else if (!stream.isConnected) {
    texts.push("No connection to penstock watch. The page tries again until it is back; values are old.");
  } else if (!stream.hasCluster) {
    // a driver's own page: there is no cluster to say anything about
  } else if (!stream.head) texts.push("Waiting for the first answer of the brokers…");
  else if (!stream.head.is_reachable) {
    const since = stream.head.answered_at == null ? "" : ` since ${clock(stream.head.answered_at)}`;
    texts.push(`Brokers do not answer${since}. Values are from then; the page goes on as soon as they answer.`);
  }
  if (stream.isConnected && stream.head?.problems.length) {
    const problems = stream.head.problems;
    texts.push(...problems.slice(0, 3).map(shown));
    if (problems.length > 3) texts.push(`and ${problems.length - 3} more problems`);
  }
  const text = texts.join("\n");
  if (status.dataset.text !== text) {
    status.dataset.text = text;
    status.className = text ? "shown" : "";
    status.replaceChildren(...texts.map((each) => h("p", {}, each)));
  }
}

function showAge() {
  const answered = stream.head?.answered_at;
  if (answered == null) return setText(age, "");
  const seconds = Math.max(0, Math.round(Date.now() / 1000 - answered));
  age.dataset.old = String(seconds > 30 || !stream.isConnected);
  return setText(age, seconds < 2 ? "now" : `${seconds} s ago`);
}

// --- theme -----------------------------------------------------------------------------------------------------------

const THEMES = ["auto", "light", "dark"];

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(themeButton, `Theme: ${theme}`);
}

function storedTheme() {
  try {
    const stored = localStorage.getItem("penstock-theme");
    return THEMES.includes(stored) ? stored : "auto";
  } catch {
    return "auto"; // storage is turned off
  }
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
  showTheme(theme);
  try {
    localStorage.setItem("penstock-theme", theme);
  } catch {
    // it lasts until the page is closed
  }
}

// --- keys ------------------------------------------------------------------------------------------------------------

const PLACES = { c: "#/clusters", o: "#/", t: "#/topics", g: "#/groups", q: "#/queries" };

function escape(target) {
  if (target.matches?.("input")) {
    if (target.value) {
      target.value = "";
      target.dispatchEvent(new Event("input"));
    } else view.tables[0].grid.focus();
    return;
  }
  const [, kind] = location.hash.split("/");
  if (kind === "topic" || kind === "group") location.hash = `#/${kind}s`;
  else if (kind === "query") location.hash = "#/queries";
  else if (kind) location.hash = "#/";
}

// Until then the focus that a view gives to its table draws no ring: a reader who uses no keys does not need it.
addEventListener("keydown", () => (document.documentElement.dataset.keys = ""), { capture: true, once: true });

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (event.key === "Escape") {
    escape(event.target);
    event.preventDefault();
    return;
  }
  if (event.target.matches?.("input, textarea, select")) return;
  if (pending === "g") {
    pending = "";
    if (PLACES[event.key]) {
      location.hash = PLACES[event.key];
      event.preventDefault();
    }
  } else if (event.key === "g") pending = "g";
  else if (event.key === "/") {
    main.querySelector("[data-slash]")?.focus();
    event.preventDefault();
  } else if (event.key === "?") keys.showModal();
  else if (event.key === "d") nextTheme();
});

document.getElementById("help").addEventListener("click", () => keys.showModal());
themeButton.addEventListener("click", nextTheme);
clusters.addEventListener("change", () => location.assign(clusterAddress(clusters.value, location.hash || "#/")));
showTheme(storedTheme());
const stream = new Stream(changed);
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", changed); // a hidden page fetches no details
route();
setTimeout(showStatus, 1000); // not while the first connection is made
setInterval(showAge, 1000);
