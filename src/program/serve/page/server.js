// Asks the server. A key is asked for when the server answers 401, and kept for this tab.

let askForKey = async () => null;

/** Sets what shows the question for a key: it returns a text, or null. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

async function failure(reply) {
  let message;
  try {
    message = (await reply.json()).error.message;
  } catch {
    message = `the server answered with status ${reply.status}`;
  }
  return new Error(message);
}

async function request(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem("key"), headers = {...options.headers};
    if (key) headers.Authorization = "Bearer " + key;
    const reply = await fetch(path, {...options, headers});
    if (reply.ok) return reply;
    const error = await failure(reply);
    if (reply.status !== 401) throw error;
    if (sessionStorage.getItem("key") !== key) continue; // given meanwhile, for another request
    const given = await askForKey(key ? "That key is wrong." : "");
    if (!given) throw error;
    sessionStorage.setItem("key", given);
  }
}

export async function modelNames() {
  return (await (await request("v1/models")).json()).data.map(model => model.id);
}

/** Objects of the events that a body streams. */
async function* events(body) {
  const decoder = new TextDecoder(), reader = body.getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const parts = (rest + decoder.decode(value, {stream: true})).split("\n\n");
    rest = parts.pop();
    for (const part of parts)
      if (part.startsWith("data: {")) yield JSON.parse(part.slice(6));
  }
}

/** Events of the answer to a chat's request. Ends with an error if the stream breaks off. */
export async function* chat(body, signal) {
  const reply = await request("v1/chat/completions", {
    method: "POST", signal, headers: {"Content-Type": "application/json"},
    body: JSON.stringify({...body, stream: true, stream_options: {
      include_usage: true, include_levels: true}})});
  let isWhole = false;
  for await (const event of events(reply.body)) {
    if (event.error) throw new Error(event.error.message);
    isWhole ||= event.choices.some(choice => choice.finish_reason);
    yield event;
  }
  if (!isWhole) throw new Error("the connection broke off before the answer ended");
}
