// The messages that are shown, with what can be done to each.

import {codeBlock, copyButton, element, render} from "./markdown.js";
import {fullText, path} from "./conversation.js";
import {renderLevels} from "./levels.js";

function button(text, label, act, className = "change") {
  const made = element("button", className, text);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.onclick = act;
  return made;
}

function folded(className, summary, ...children) {
  return element("details", className, element("summary", "", summary), ...children);
}

/** An argument text, indented where it is JSON. */
function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function callNode({function: call}) {
  return folded("call", `Call of ${call.name}`, codeBlock(indented(call.arguments), "json"));
}

function statsText({model, stats}) {
  const parts = model ? [model] : [];
  if (stats) {
    parts.push(`${stats.tokens} tokens`);
    if (stats.speed) parts.push(`${stats.speed.toFixed(1)} tokens/s`);
    if (stats.drafted) parts.push(`${Math.round(100 * stats.drafted / stats.tokens)} % drafted`);
    if (stats.isCut) parts.push("cut by the limit");
  }
  return parts.join(" · ");
}

const INVITATION = "Ask something. Conversations are kept in this browser alone.";
const speakers = {user: "You", assistant: "Answer", tool: "Result of a tool"};

export class Messages {
  /** `acts`: choose, edit, regenerate, giveResults. */
  constructor(log, acts) {
    Object.assign(this, {log, acts, shown: new Map(), showsLevels: false});
  }

  show(conversation) {
    this.shown.clear();
    const steps = path(conversation);
    this.log.replaceChildren(...steps.map(step => this.article(step, step === steps.at(-1))));
    if (!steps.length)
      this.log.append(element("p", "empty", INVITATION));
    this.follow();
  }

  follow() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  article({parent, message}, isLast) {
    const [text, extras] = [element("div", "text"), element("div", "extras")];
    const foot = element("footer"), box = element("article", message.role, text, extras, foot);
    box.setAttribute("aria-label", speakers[message.role] ?? message.role);
    const parts = {box, text, extras, foot, parent, isLast};
    this.shown.set(message.id, parts);
    this.fill(message, parts, false);
    return box;
  }

  /** Shows what was added to a message. */
  update(message, isRunning) {
    const parts = this.shown.get(message.id), log = this.log;
    if (!parts) return;
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    this.fill(message, parts, isRunning);
    if (isAtEnd) this.follow();
  }

  fill(message, parts, isRunning) {
    parts.box.setAttribute("aria-busy", isRunning);
    if (message.reasoning) this.fillThoughts(message, parts, isRunning);
    if (this.showsLevels && message.levels) renderLevels(parts.text, message);
    else if (message.role === "assistant") render(parts.text, message.content);
    else parts.text.textContent = message.content;
    if (isRunning) return;
    const files = (message.files ?? []).map(
      file => folded("file", file.name, codeBlock(file.text)));
    parts.extras.replaceChildren(...files, ...(message.calls ?? []).map(callNode));
    if (message.calls?.length && parts.isLast) parts.extras.append(this.resultsForm(message));
    if (message.error) {
      const error = element("p", "error", message.error);
      error.setAttribute("role", "alert");
      parts.extras.append(error);
    }
    this.fillFoot(message, parts);
  }

  fillThoughts(message, parts, isRunning) {
    if (!parts.thoughts) {
      parts.thoughts = folded("thoughts", "", element("div"));
      parts.box.prepend(parts.thoughts);
    }
    const isThinking = isRunning && !message.content;
    parts.thoughts.firstChild.textContent = isThinking ? "Thinking…" : "Thoughts";
    parts.thoughts.lastChild.textContent = message.reasoning.trim();
  }

  fillFoot(message, {parent, foot, text, box}) {
    const n = parent.children.length, at = parent.children.indexOf(message);
    const items = [];
    if (n > 1) {
      const before = button("‹", "Earlier version", () => this.acts.choose(parent, at - 1));
      const after = button("›", "Later version", () => this.acts.choose(parent, at + 1));
      before.disabled = at === 0;
      after.disabled = at === n - 1;
      items.push(element("span", "versions", before, `${at + 1}/${n}`, after));
    }
    if (message.content) items.push(copyButton(() => fullText(message), "Copy message"));
    if (message.role === "user") {
      items.push(button("Edit", "Edit message", () => this.beginEdit(parent, message, text, box)));
    } else if (message.role === "assistant") {
      items.push(button("Regenerate", "", () => this.acts.regenerate(parent)),
                 element("small", "", statsText(message)));
    }
    foot.replaceChildren(...items);
  }

  beginEdit(parent, message, text, box) {
    const field = element("textarea"), form = element("form", "edit", field);
    const end = () => {
      form.remove();
      box.classList.remove("editing");
    };
    const send = element("button", "", "Send edited");
    form.append(element("div", "actions", button("Cancel", "", end, ""), send));
    field.value = message.content;
    field.rows = Math.min(12, message.content.split("\n").length + 1);
    field.setAttribute("aria-label", "Edited message");
    field.onkeydown = event => {
      if (event.key === "Escape") end();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    form.onsubmit = event => {
      event.preventDefault();
      this.acts.edit(parent, message, field.value);
    };
    box.classList.add("editing");
    text.after(form);
    field.focus();
  }

  /** Fields for what the called tools gave: the page itself runs none. */
  resultsForm(message) {
    const fields = message.calls.map(call => {
      const field = element("textarea");
      field.rows = 2;
      const label = element("label", "wide", `Result of ${call.function.name} `, field);
      return {call, field, label};
    });
    const form = element("form", "results", ...fields.map(one => one.label),
                         element("button", "change", "Send results"));
    form.onsubmit = event => {
      event.preventDefault();
      const results = fields.map(({call, field}) => ({callId: call.id, content: field.value}));
      this.acts.giveResults(message, results);
    };
    return form;
  }
}
