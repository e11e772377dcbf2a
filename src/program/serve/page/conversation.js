// A conversation is a tree of messages: an edit or another answer is a further child of the same
// parent, and `chosen` says which child is shown.
//
// message: {id, role, content, children, chosen} and, where it has them, files, reasoning, calls,
// callId, model, stats, error, levels (levels.js).

/** Pages without TLS from another machine have no randomUUID. */
const newId = () => Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-");

export function create(settings) {
  const root = {id: newId(), children: [], chosen: 0};
  return {id: newId(), title: "", changed: Date.now(), settings, root};
}

/** Adds a message below `parent`, and shows it. */
export function add(parent, message) {
  const whole = {id: newId(), content: "", ...message, children: [], chosen: 0};
  parent.chosen = parent.children.push(whole) - 1;
  return whole;
}

/** The messages that are shown, first to last, each with its parent. */
export function path(conversation) {
  const steps = [];
  for (let parent = conversation.root; parent.children.length;) {
    const message = parent.children[parent.chosen];
    steps.push({parent, message});
    parent = message;
  }
  return steps;
}

export const last = conversation => path(conversation).at(-1)?.message ?? conversation.root;

/** All messages, of all branches. */
export function* everyMessage(node) {
  for (const child of node.children) {
    yield child;
    yield* everyMessage(child);
  }
}

export function matches(conversation, words) {
  const wanted = words.toLowerCase();
  if (conversation.title.toLowerCase().includes(wanted)) return true;
  for (const message of everyMessage(conversation.root))
    if (message.content.toLowerCase().includes(wanted)) return true;
  return false;
}

/** A fence that is longer than all in the text. */
function fenced(text, language = "") {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map(run => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
}

/** What the model reads of a message: its text, and attached files. */
export function fullText(message) {
  const files = (message.files ?? []).map(file => `${file.name}:\n${fenced(file.text)}`);
  return [message.content, ...files].filter(Boolean).join("\n\n");
}

function forServer(message) {
  const all = {role: message.role, content: fullText(message)};
  if (message.reasoning) all.reasoning_content = message.reasoning;
  if (message.calls?.length) all.tool_calls = message.calls;
  if (message.callId) all.tool_call_id = message.callId;
  return all;
}

/** The body of the request for an answer to what is shown up to `until`. */
export function requestFor(conversation, until, model) {
  const {system, thoughts, tools, ...sampling} = conversation.settings, messages = [];
  if (system) messages.push({role: "system", content: system});
  for (const {message} of path(conversation)) {
    messages.push(forServer(message));
    if (message === until) break;
  }
  const body = {messages, ...sampling};
  if (model) body.model = model;
  if (thoughts) body.chat_template_kwargs = {enable_thinking: thoughts === "on"};
  if (tools) body.tools = JSON.parse(tools);
  return body;
}

const names = {user: "User", assistant: "Assistant", tool: "Tool", system: "System"};

/** What is shown, as Markdown. */
export function asMarkdown(conversation) {
  const parts = [`# ${conversation.title || "Conversation"}`];
  if (conversation.settings.system) parts.push("## System", conversation.settings.system);
  for (const {message} of path(conversation)) {
    parts.push(`## ${names[message.role]}`);
    if (message.reasoning) parts.push(message.reasoning.trim().replace(/^/gm, "> "));
    if (message.content || message.files) parts.push(fullText(message));
    for (const {function: call} of message.calls ?? [])
      parts.push(`Call of \`${call.name}\`:`, fenced(call.arguments, "json"));
  }
  return parts.join("\n\n") + "\n";
}
