// The requests of the page. All of them name its cluster, if the address does.

const cluster = new URLSearchParams(location.search).get("cluster");

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
    response = await fetch(api(path), {
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
