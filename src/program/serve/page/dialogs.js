// The two dialogs: settings of a conversation, and the key.

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "max_tokens", "seed"];
const TEXTS = ["system", "thoughts", "tools"];

/** Shows a dialog. True: it was confirmed. */
function confirmed(dialog) {
  dialog.returnValue = "cancel"; // Esc leaves it
  dialog.querySelector(".cancel").onclick = () => dialog.close("cancel");
  dialog.showModal();
  return new Promise(resolve => {
    dialog.onclose = () => resolve(dialog.returnValue === "ok");
  });
}

function toolsFault(text) {
  if (!text.trim()) return "";
  try {
    return Array.isArray(JSON.parse(text)) ? "" : "Tools must be a JSON array.";
  } catch (error) {
    return `Tools are not JSON: ${error.message}`;
  }
}

/** The changed settings, or null. */
export async function askSettings(dialog, settings) {
  const form = dialog.querySelector("form"), fields = form.elements;
  const fault = form.querySelector(".error");
  for (const name of [...NUMBERS, ...TEXTS]) fields[name].value = settings[name] ?? "";
  fault.textContent = "";
  form.onsubmit = event => {
    fault.textContent = toolsFault(fields.tools.value);
    if (fault.textContent) event.preventDefault();
  };
  if (!await confirmed(dialog)) return null;
  const changed = {};
  for (const name of NUMBERS)
    if (fields[name].value !== "") changed[name] = Number(fields[name].value);
  for (const name of TEXTS) if (fields[name].value.trim()) changed[name] = fields[name].value;
  return changed;
}

/** A key, or null. `why`: what was wrong with the last one. */
export async function askKey(dialog, why) {
  const field = dialog.querySelector("input");
  field.value = "";
  dialog.querySelector("h2").textContent = why || "This server needs an API key";
  return await confirmed(dialog) && field.value ? field.value : null;
}
