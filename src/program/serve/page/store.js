// Conversations in this browser's IndexedDB. Where there is none, they last as long as the page.

let database = null;
export const conversations = new Map();

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

const table = mode => database.transaction("conversations", mode).objectStore("conversations");

/** Reads all conversations. False: this browser keeps none. */
export async function open() {
  try {
    const opening = indexedDB.open("riffle", 1);
    opening.onupgradeneeded = () =>
      opening.result.createObjectStore("conversations", {keyPath: "id"});
    database = await done(opening);
    for (const one of await done(table("readonly").getAll())) conversations.set(one.id, one);
    return true;
  } catch {
    return false;
  }
}

export async function save(conversation) {
  if (!conversations.has(conversation.id)) return;
  if (database) await done(table("readwrite").put(conversation));
}

export async function remove(conversation) {
  conversations.delete(conversation.id);
  if (database) await done(table("readwrite").delete(conversation.id));
}

/** Settings that new conversations begin with. */
export function lastSettings() {
  try {
    return JSON.parse(localStorage.getItem("settings")) || {};
  } catch {
    return {};
  }
}

export function keepSettings(settings) {
  try {
    localStorage.setItem("settings", JSON.stringify(settings));
  } catch { /* they hold for this conversation alone */ }
}
