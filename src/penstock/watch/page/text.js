// Text and numbers for the page. Everything that comes from Kafka passes through `shown` and ends in a text node.

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const UNPRINTABLE_IN_LINES = /(?![\n\t])[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

function escaped(character) {
  const code = character.codePointAt(0);
  if (code === 10) return "\\n";
  if (code === 13) return "\\r";
  if (code === 9) return "\\t";
  if (code < 256) return "\\x" + code.toString(16).padStart(2, "0");
  if (code < 65536) return "\\u" + code.toString(16).padStart(4, "0");
  return "\\U" + code.toString(16).padStart(8, "0");
}

/** Text for one line: characters that are not printable are escaped, as on the command line. */
export function shown(text) {
  return text == null ? "" : String(text).replace(UNPRINTABLE, escaped);
}

/** The same for text whose line ends and tabs are kept. */
export function shownLines(text) {
  return text == null ? "" : String(text).replace(UNPRINTABLE_IN_LINES, escaped);
}

/** JSON over several lines; other text as it is. Only blanks are added, so that long numbers keep all digits. */
export function indented(text) {
  if (!/^\s*[{[]/.test(text)) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (/^\s/.test(token)) return "";
    if (token[0] === '"') return token;
    if (token === ",") return token + line();
    if (token === ":") return ": ";
    if (token === "{" || token === "[") {
      depth += 1;
      return token + line();
    }
    if (token === "}" || token === "]") {
      depth -= 1;
      return line() + token;
    }
    return token[0] + token.at(-1);
  });
}

/** An element with attributes and children. Strings become text nodes, never markup. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value != null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Set text only if it differs, so that the browser has nothing to lay out again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const NONE = "–";

export function count(value) {
  return value == null ? NONE : WHOLE.format(value);
}

export function rate(value) {
  if (value == null) return NONE;
  return (Math.abs(value) < 100 ? ONE : WHOLE).format(value);
}

export function signedRate(value) {
  return value == null ? NONE : (value > 0 ? "+" : "") + rate(value);
}

export function bytes(value) {
  if (value == null) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (Math.abs(value) >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${(at && value < 100 ? ONE : WHOLE).format(value)} ${units[at]}`;
}

export function duration(seconds) {
  if (seconds == null) return NONE;
  if (seconds < 60) return `${ONE.format(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} m`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function retention(row) {
  const parts = [];
  if (row.retention_seconds != null) {
    parts.push(row.retention_seconds < 0 ? "no time limit" : duration(row.retention_seconds).replace(/ 0 [hms]$/, ""));
  }
  if (row.retention_bytes != null && row.retention_bytes >= 0) parts.push(bytes(row.retention_bytes));
  if (row.cleanup_policy && row.cleanup_policy !== "delete") parts.push(shown(row.cleanup_policy));
  return parts.join(", ") || NONE;
}

/** A lag in seconds, with what makes it a bound. */
export function lateness(row) {
  if (row.seconds == null) return NONE;
  const sign = { "at most": "≤ ", "at least": "≥ ", estimated: "≈ " }[row.certainty] ?? "";
  return sign + duration(row.seconds);
}

export function clock(seconds) {
  return seconds == null ? NONE : new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
