// One answer at a time: it grows in its message, which may be in a conversation that is not shown.

import {add, requestFor} from "./conversation.js";
import {addRun} from "./levels.js";
import {chat} from "./server.js";

const SAVE_MS = 2000;

/** Adds pieces of calls, which have an index, to whole ones. */
function addCalls(message, pieces) {
  message.calls ??= [];
  for (const {index, ...piece} of pieces) {
    const call = message.calls[index];
    if (!call) message.calls[index] = piece;
    else call.function.arguments += piece.function?.arguments ?? "";
  }
}

function addEvent(message, event) {
  for (const {delta, finish_reason: reason, level} of event.choices) {
    message.content += delta.content ?? "";
    if (delta.content && level !== undefined) addRun(message, level, delta.content.length);
    const thoughts = delta.reasoning_content;
    if (thoughts) message.reasoning = (message.reasoning ?? "") + thoughts;
    if (delta.tool_calls) addCalls(message, delta.tool_calls);
    if (reason === "length") message.isCut = true;
  }
}

/** `first`: when the first piece came. A single piece has no speed. */
function statsOf(usage, first, now, isCut) {
  const tokens = usage.completion_tokens, seconds = (now - first) / 1000;
  return {tokens, drafted: usage.completion_tokens_details?.accepted_prediction_tokens ?? 0, isCut,
          speed: tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : 0};
}

export class Answers {
  /** `watch`: began(running), grew(running), ended(running). */
  constructor(watch) {
    Object.assign(this, {watch, running: null});
  }

  stop() {
    this.running?.controller.abort();
  }

  /** Answers what ends with `parent`. */
  async begin(conversation, parent, model) {
    const running = {conversation, controller: new AbortController(), saved: performance.now()};
    const message = running.message = add(parent, {role: "assistant", model});
    this.running = running;
    this.watch.began(running);
    try {
      running.body = requestFor(conversation, parent, model);
      await this.read(running);
    } catch (error) {
      if (error.name !== "AbortError") message.error = error.message;
    }
    this.running = null;
    conversation.changed = Date.now();
    this.watch.ended(running);
  }

  async read({message, body, controller, ...running}) {
    let first = 0;
    for await (const event of chat(body, controller.signal)) {
      addEvent(message, event);
      const isPiece = event.choices.some(
        ({delta}) => delta.content || delta.reasoning_content || delta.tool_calls);
      if (isPiece) first ||= performance.now();
      if (event.usage)
        message.stats = statsOf(event.usage, first, performance.now(), message.isCut);
      const isDue = performance.now() - running.saved > SAVE_MS;
      if (isDue) running.saved = performance.now();
      this.watch.grew(this.running, isDue);
    }
  }
}
