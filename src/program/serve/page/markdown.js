// Markdown as nodes. marked splits the text, Prism colours code; no text is ever read as HTML, so
// nothing in an answer can run or load.
/* global marked, Prism */

marked.setOptions({mangle: false});

const LANGUAGES = {
  "c++": "cpp", hpp: "cpp", h: "c", "c#": "csharp", golang: "go", rs: "rust", jsx: "javascript",
  tsx: "typescript", jsonc: "json", console: "bash", zsh: "bash", patch: "diff"};
const ENTITIES = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", hellip: "…",
  mdash: "—", ndash: "–", times: "×", rarr: "→", larr: "←", deg: "°", euro: "€"};
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w+));/g;

/** marked gives texts as HTML. */
function decoded(text) {
  return text.replace(ENTITY, (all, decimal, hex, name) => {
    const code = decimal ? parseInt(decimal, 10) : hex ? parseInt(hex, 16) : 0;
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : ENTITIES[name] ?? all;
  });
}

export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** Pages that came without TLS from another machine have no clipboard of their own. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = element("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (!isCopied) throw new Error("the browser did not copy");
}

export function copyButton(text, label) {
  const button = element("button", "copy", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", label);
  button.onclick = async () => {
    try {
      await copy(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  return button;
}

function coloured(tokens) {
  return [tokens].flat().map(token => {
    if (typeof token === "string") return token;
    const kinds = ["token", token.type, token.alias ?? []].flat().join(" ");
    return element("span", kinds, ...coloured(token.content));
  });
}

export function codeBlock(text, language = "") {
  const name = language.trim().split(/\s/)[0].toLowerCase(), known = LANGUAGES[name] ?? name;
  const grammar = Object.hasOwn(Prism.languages, known) ? Prism.languages[known] : null;
  const isGrammar = grammar && typeof grammar !== "function";
  const parts = isGrammar ? coloured(Prism.tokenize(text, grammar)) : [text];
  const pre = element("pre", "", element("code", "", ...parts));
  pre.tabIndex = 0;
  const copying = copyButton(() => text, "Copy code");
  return element("div", "code", element("div", "bar", element("span", "", name), copying), pre);
}

function link(token) {
  const href = decoded(token.href);
  if (!/^(https?:|mailto:)/i.test(href)) return element("span", "", ...inlines(token.tokens));
  const shown = token.type === "image" ? [decoded(token.text) || href] : inlines(token.tokens);
  const made = element("a", "", ...shown);
  made.href = href;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

const inline = {
  text: token => token.tokens ? element("span", "", ...inlines(token.tokens)) : decoded(token.text),
  escape: token => decoded(token.text),
  codespan: token => element("code", "", decoded(token.text)),
  strong: token => element("strong", "", ...inlines(token.tokens)),
  em: token => element("em", "", ...inlines(token.tokens)),
  del: token => element("del", "", ...inlines(token.tokens)),
  br: () => element("br"),
  html: token => /^<br\s*\/?>$/i.test(token.raw) ? element("br") : token.raw,
  link, image: link, // a picture would tell its server who reads this
};

const inlines = (tokens = []) => tokens.map(token => inline[token.type]?.(token) ?? token.raw);

function list(token) {
  const made = element(token.ordered ? "ol" : "ul", "", ...token.items.map(item => {
    const row = element("li", "", ...blocks(item.tokens));
    if (item.task) row.prepend(item.checked ? "☑ " : "☐ ");
    return row;
  }));
  if (token.ordered && token.start > 1) made.start = token.start;
  return made;
}

function table(token) {
  const cells = (row, name) => element("tr", "", ...row.map((cell, i) => {
    const made = element(name, "", ...inlines(cell.tokens));
    if (token.align[i]) made.style.textAlign = token.align[i];
    return made;
  }));
  const whole = element("table", "", element("thead", "", cells(token.header, "th")),
                        element("tbody", "", ...token.rows.map(row => cells(row, "td"))));
  const box = element("div", "table", whole);
  box.tabIndex = 0;
  return box;
}

const block = {
  code: token => codeBlock(token.text, token.lang),
  heading: token => element("h" + Math.min(6, token.depth + 2), "", ...inlines(token.tokens)),
  paragraph: token => element("p", "", ...inlines(token.tokens)),
  text: token => inline.text(token),
  blockquote: token => element("blockquote", "", ...blocks(token.tokens)),
  hr: () => element("hr"),
  html: token => element("p", "", token.raw),
  list, table,
};

const isShown = token => token.type !== "space" && token.type !== "def";
const blockNode = token => block[token.type]?.(token) ?? element("p", "", token.raw);
const blocks = (tokens = []) => tokens.filter(isShown).map(blockNode);

/** Shows a text in `box`. Blocks that are there already stay, so a selection in them lasts. */
export function render(box, text) {
  const tokens = marked.lexer(text).filter(isShown), shown = box.shownBlocks ?? [];
  let same = 0;
  while (same < tokens.length && shown[same] === tokens[same].raw) same++;
  while (box.childNodes.length > same) box.lastChild.remove();
  box.append(...tokens.slice(same).map(token => element("div", "block", blockNode(token))));
  box.shownBlocks = tokens.map(token => token.raw);
}
