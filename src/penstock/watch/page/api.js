// The requests of the page. All of them name its cluster, if the address does, and have the token, if it had one.

const KEY = "penstock-token";
const parameters = new URLSearchParams(location.search);
const cluster = parameters.get("cluster");
const given = parameters.get("token");
const earlier = stored();
let token = earlier;

// The address has the token only until here. The storage is that of this host and port, unlike a cookie, which goes to
// all ports of the host.
if (given != null) {
  parameters.delete("token");
  const query = parameters.toString();
  history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
  if (/^[\w-]+$/.test(given)) use(given);
}

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is turned off
  }
}

function use(value) {
  token = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // it lasts until the page is closed
  }
}

/** `fetch` with the token. */
export async function ask(path, options = {}) {
  const sent = token;
  const headers = { ...options.headers, ...(sent == null ? {} : { Authorization: `Bearer ${sent}` }) };
  const response = await fetch(path, { ...options, headers });
  // Another site's link with a wrong token does not lock out the user.
  if (response.status === 403 && sent === given && earlier != null) use(earlier);
  return response;
}

export function api(path, values = {}) {
  const query = new URLSearchParams(values);
  if (cluster != null) query.set("cluster", cluster);
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** The address of a cluster's page. Views of one topic or group do not exist there. */
export function clusterAddress(name, hash = "#/") {
  const isOfOne = /^#\/(topic|group|query)\//.test(hash);
  return `/?${new URLSearchParams({ cluster: name })}${isOfOne ? "#/" : hash}`;
}

/** The JSON that answers a POST; an Error has the server's text. */
export async function post(path, body) {
  let text, response;
  try {
    response = await ask(api(path), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    text = await response.text();
  } catch {
    throw new Error("The connection to penstock watch is broken.");
  }
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  const answer = isJson ? JSON.parse(text) : { error: text };
  if (!response.ok || answer.error != null) throw new Error(answer.error);
  return answer;
}
