// Which level of the chain proposed each part of an answer: 0 is the model itself.

import {element} from "./markdown.js";

/** Notes that the next `length` characters of a message are from a level. */
export function addRun(message, level, length) {
  message.levels ??= [];
  const last = message.levels.at(-1);
  if (last?.[0] === level) last[1] += length;
  else message.levels.push([level, length]);
}

const MOST_COLOURS = 4; // classes level1 to level4 of the style sheet
const nameOf = level => level ? `drafted by level ${level}` : "the model's own";

function mark(level, text) {
  const made = element("span", level ? "level" + Math.min(level, MOST_COLOURS) : "", text);
  made.title = nameOf(level);
  return made;
}

/** Shows the text of a message as it is, with its drafted parts coloured. */
export function renderLevels(box, {content, levels}) {
  const spans = [], seen = new Set();
  let at = 0;
  for (const [level, length] of levels) {
    spans.push(mark(level, content.slice(at, at += length)));
    seen.add(level);
  }
  spans.push(content.slice(at)); // the end that no token alone completed
  const names = [...seen].sort().flatMap(level => [mark(level, nameOf(level)), " "]);
  box.replaceChildren(element("p", "legend", ...names), element("div", "levels", ...spans));
  box.shownBlocks = null;
}
