// Text files: those that are attached to the next message, and those that are saved.

const MOST_BYTES = 2 << 20;

/** {name, text}, or an error for what is no text. */
export async function readText(file, most = MOST_BYTES) {
  if (file.size > most) throw new Error(`${file.name} has more than ${most >> 20} MiB.`);
  try {
    const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
    if (text.includes("\0")) throw new Error();
    return {name: file.name, text};
  } catch {
    throw new Error(`${file.name} is not a text in UTF-8.`);
  }
}

/** The list of attached files in `list`. */
export class Attachments {
  constructor(list, tell) {
    Object.assign(this, {list, tell, files: []});
  }

  async add(files) {
    for (const file of files) {
      try {
        this.files.push(await readText(file));
      } catch (error) {
        this.tell(error.message);
      }
    }
    this.show();
  }

  take() {
    const files = this.files;
    this.files = [];
    this.show();
    return files;
  }

  show() {
    this.list.replaceChildren(...this.files.map(file => {
      const item = document.createElement("li"), remove = document.createElement("button");
      remove.type = "button";
      remove.textContent = "×";
      remove.setAttribute("aria-label", "Remove " + file.name);
      remove.onclick = () => {
        this.files = this.files.filter(other => other !== file);
        this.show();
      };
      item.append(file.name, remove);
      return item;
    }));
  }
}

export function download(name, type, text) {
  const link = document.createElement("a"), url = URL.createObjectURL(new Blob([text], {type}));
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

export function fileName(title) {
  const words = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return words.slice(0, 40) || "conversation";
}
