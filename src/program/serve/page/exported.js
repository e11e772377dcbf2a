// Reads a conversation again that was exported as JSON. Nothing in the file is trusted.

import {add, create} from "./conversation.js";

const isObject = value => value !== null && typeof value === "object" && !Array.isArray(value);
const isText = value => typeof value === "string";
const isNumber = value => typeof value === "number";
const all = check => value => Array.isArray(value) && value.every(check);

const isFile = value => isObject(value) && isText(value.name) && isText(value.text);
const isCall = value => isObject(value) && isObject(value.function) &&
  isText(value.function.name) && isText(value.function.arguments);
const isRun = value => all(isNumber)(value) && value.length === 2;
const isSetting = value => isText(value) || isNumber(value);

const checks = {
  role: value => ["user", "assistant", "tool"].includes(value),
  content: isText, reasoning: isText, callId: isText, model: isText, error: isText,
  files: all(isFile), calls: all(isCall), levels: all(isRun),
  stats: value => isObject(value) && isNumber(value.tokens) && isNumber(value.speed),
};

function take(parent, given) {
  if (!all(isObject)(given.children)) throw new Error("the children of a message are no list");
  for (const child of given.children) {
    if (child.role === undefined) throw new Error("a message has no role");
    const message = {};
    for (const [name, check] of Object.entries(checks)) {
      if (child[name] === undefined) continue;
      if (!check(child[name])) throw new Error(`${name} of a message is not what it should be`);
      message[name] = child[name];
    }
    take(add(parent, message), child);
  }
  if (given.children[given.chosen]) parent.chosen = given.chosen;
}

/** A new conversation with what a text says. Throws an error that ends a sentence. */
export function readExport(text) {
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new Error(`it is not JSON: ${error.message}`);
  }
  if (!isObject(given) || !isObject(given.root)) throw new Error("it has no messages");
  const settings = isObject(given.settings) ? given.settings : {};
  if (!Object.values(settings).every(isSetting)) throw new Error("a setting is no text or number");
  const conversation = create(settings);
  conversation.title = isText(given.title) ? given.title : "";
  if (isText(given.model)) conversation.model = given.model;
  take(conversation.root, given.root);
  if (!conversation.root.children.length) throw new Error("it has no messages");
  return conversation;
}
