// The list of conversations, newest first, which a search shortens.

import {matches} from "./conversation.js";
import {element} from "./markdown.js";

export function showList(list, conversations, current, words) {
  const found = [...conversations].filter(one => !words || matches(one, words));
  found.sort((a, b) => b.changed - a.changed);
  list.replaceChildren(...found.map(one => {
    const button = element("button", "", one.title || "Untitled");
    button.type = "button";
    button.dataset.id = one.id;
    if (one === current) button.setAttribute("aria-current", "true");
    return element("li", "", button);
  }));
  if (!found.length && words) list.append(element("li", "empty", "Nothing found"));
}
