// The page: what its buttons and keys do.

import {Answers} from "./answers.js";
import {add, asMarkdown, create, last} from "./conversation.js";
import {askKey, askSettings} from "./dialogs.js";
import {readExport} from "./exported.js";
import {Attachments, download, fileName, readText} from "./files.js";
import {showList} from "./list.js";
import {element} from "./markdown.js";
import {Messages} from "./messages.js";
import {modelNames, onKeyWanted} from "./server.js";
import * as store from "./store.js";

const byId = id => document.getElementById(id);
const box = byId("box"), status = byId("status"), TITLE_CHARACTERS = 60;
const EXPORT_BYTES = 64 << 20;
let current = create(store.lastSettings());

function tell(text, ...more) {
  status.replaceChildren(text, ...more);
}

const attachments = new Attachments(byId("files"), tell);

// ---- conversations ----

function refreshList() {
  showList(byId("list"), store.conversations.values(), current, byId("search").value.trim());
}

function show(conversation) {
  current = conversation;
  const name = conversation.title || "Riffle", models = byId("model");
  byId("title").textContent = name;
  document.title = conversation.title ? `${name} – Riffle` : "Riffle";
  history.replaceState(null, "", conversation.title ? "#" + conversation.id : location.pathname);
  if ([...models.options].some(option => option.value === conversation.model))
    models.value = conversation.model;
  messages.show(conversation);
  const {running} = answers;
  if (running) messages.update(running.message, true);
  refreshList();
  openSide(false);
}

function keep(conversation) {
  store.save(conversation).catch(
    error => tell(`The conversation could not be kept: ${error.message}`));
}

/** Keeps a conversation that has its first message, and names it after that. */
function touch(conversation, text) {
  conversation.changed = Date.now();
  conversation.title ||= text.trim().split("\n")[0].slice(0, TITLE_CHARACTERS) || "Files";
  store.conversations.set(conversation.id, conversation);
  keep(conversation);
}

function removeCurrent() {
  const removed = current;
  if (!store.conversations.has(removed.id)) return;
  if (answers.running?.conversation === removed) answers.stop();
  store.remove(removed).catch(error => tell(error.message));
  show(create(store.lastSettings()));
  const undo = element("button", "", "Undo");
  undo.type = "button";
  undo.onclick = () => {
    touch(removed, "");
    show(removed);
    tell("");
  };
  tell("Conversation deleted. ", undo);
}

// ---- answers ----

let isDrawing = false;

const answers = new Answers({
  began(running) {
    document.body.classList.add("busy");
    byId("send").hidden = true;
    byId("stop").hidden = false;
    tell("Answering…");
    show(running.conversation);
  },
  grew(running, isDue) {
    if (isDue) keep(running.conversation);
    if (isDrawing) return;
    isDrawing = true; // once a frame, however fast tokens come
    requestAnimationFrame(() => {
      isDrawing = false;
      if (answers.running === running) messages.update(running.message, true);
    });
  },
  ended({conversation, message, controller}) {
    document.body.classList.remove("busy");
    byId("send").hidden = false;
    byId("stop").hidden = true;
    if (!store.conversations.has(conversation.id)) return; // it was deleted
    messages.update(message, false);
    keep(conversation);
    refreshList();
    tell(controller.signal.aborted ? "Stopped" : message.error ? "No answer" : "Answered");
  },
});

function answer(parent) {
  current.model = byId("model").value || undefined;
  answers.begin(current, parent, current.model);
}

function say(parent, content, files) {
  if (answers.running) return;
  touch(current, content || files[0]?.name || "");
  answer(add(parent, {role: "user", content, ...(files?.length && {files})}));
}

const messages = new Messages(byId("log"), {
  choose(parent, index) {
    parent.chosen = index;
    keep(current);
    show(current);
  },
  edit(parent, message, text) {
    say(parent, text.trim(), message.files ?? []);
    box.focus();
  },
  regenerate(parent) {
    if (!answers.running) answer(parent);
  },
  giveResults(message, results) {
    if (answers.running) return;
    answer(results.reduce((parent, result) => add(parent, {role: "tool", ...result}), message));
  },
});

// ---- buttons and keys ----

function fitBox() {
  box.style.height = "auto";
  box.style.height = Math.min(box.scrollHeight + 2, innerHeight / 3) + "px";
}

byId("composer").onsubmit = event => {
  event.preventDefault();
  const text = box.value.trim();
  if (!text && !attachments.files.length) return;
  if (answers.running) {
    tell("An answer is under way; Esc stops it");
    return;
  }
  say(last(current), text, attachments.take());
  box.value = "";
  fitBox();
  box.focus();
};
box.oninput = fitBox;
box.onkeydown = event => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("composer").requestSubmit();
};
byId("stop").onclick = () => answers.stop();

function openSide(isOpen) {
  document.body.classList.toggle("side-open", isOpen);
  byId("toggle").setAttribute("aria-expanded", isOpen);
}

byId("toggle").onclick = () => openSide(!document.body.classList.contains("side-open"));
document.addEventListener("keydown", event => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (byId("menu").open) byId("menu").open = false;
  else if (document.body.classList.contains("side-open")) openSide(false);
  else answers.stop();
});
document.addEventListener("click", event => {
  if (event.target === document.querySelector("main")) openSide(false); // its shade
  if (!byId("menu").contains(event.target) || event.target.closest("#menu button"))
    byId("menu").open = false;
});

byId("new").onclick = () => {
  show(create(store.lastSettings()));
  tell("");
  box.focus();
};
byId("list").onclick = event => {
  const found = store.conversations.get(event.target.dataset.id);
  if (found) show(found);
};
byId("search").oninput = refreshList;
byId("delete").onclick = removeCurrent;
byId("export-json").onclick = () =>
  download(fileName(current.title) + ".json", "application/json", JSON.stringify(current, null, 2));
byId("export-markdown").onclick = () =>
  download(fileName(current.title) + ".md", "text/markdown", asMarkdown(current));
byId("import").onclick = () => byId("exported").click();
byId("exported").onchange = async () => {
  const [file] = byId("exported").files;
  byId("exported").value = "";
  try {
    const conversation = readExport((await readText(file, EXPORT_BYTES)).text);
    touch(conversation, "");
    show(conversation);
    tell("Imported");
  } catch (error) {
    tell(`${file.name} could not be imported: ${error.message}`);
  }
};
byId("levels").onclick = () => {
  messages.showsLevels = !messages.showsLevels;
  byId("levels").setAttribute("aria-pressed", messages.showsLevels);
  show(current);
};
byId("open-settings").onclick = async () => {
  const conversation = current;
  const changed = await askSettings(byId("settings"), conversation.settings);
  if (!changed) return;
  conversation.settings = changed;
  store.keepSettings(changed);
  keep(conversation);
  tell("Settings saved");
};

// ---- files ----

byId("file").onchange = async () => {
  await attachments.add([...byId("file").files]);
  byId("file").value = "";
  box.focus();
};
document.addEventListener("dragover", event => event.preventDefault());
document.addEventListener("drop", event => {
  event.preventDefault();
  attachments.add([...event.dataTransfer.files]);
});

// ---- start ----

async function listModels() {
  try {
    const names = await modelNames(), models = byId("model");
    models.replaceChildren(...names.map(name => new Option(name, name)));
    if (names.includes(current.model)) models.value = current.model;
    models.hidden = names.length < 2;
  } catch (error) {
    tell(`The models could not be listed: ${error.message}`);
  }
}

onKeyWanted(why => askKey(byId("key"), why));
byId("unsaved").hidden = await store.open();
show(store.conversations.get(location.hash.slice(1)) ?? current);
await listModels();
