// Puts a button behind ids, hashes, addresses, keys and commands that copies the whole of them,
// also where the page shows only the beginning.

const worth = /^(?:0x)?[0-9a-f]{32,}$|^[a-z]{3}_[0-9a-z_]{8,}$|^(?:build|erc8004):\S+$|^\S+\+[0-9a-f]{8}\+[0-9a-z+/=]+$/i;

/** valueOf is what is copied of an element, or "" for what nobody copies. */
function valueOf(code) {
  if (code.parentElement.tagName === "PRE") {
    return code.textContent;
  }
  const text = code.title || code.textContent.trim();
  return worth.test(text) ? text : "";
}

const spoken = document.createElement("p");
spoken.className = "skip";
spoken.setAttribute("role", "status");

function add(code) {
  const value = valueOf(code);
  if (value === "" || code.closest("a, summary, button, .quote, .hashes")) {
    return;
  }
  const command = code.parentElement.tagName === "PRE";
  const button = document.createElement("button");
  const what = document.createElement("span");
  const word = document.createElement("span");
  let timer;
  button.type = "button";
  button.className = "copy";
  word.textContent = "Copy";
  what.className = "skip";
  what.textContent = command ? " the command" : ` ${value.slice(0, 24)}`;
  button.append(word, what);
  const say = (text, sentence) => {
    word.textContent = text;
    spoken.textContent = sentence;
    clearTimeout(timer);
    timer = setTimeout(() => {
      word.textContent = "Copy";
      spoken.textContent = "";
    }, 3000);
  };
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(value).then(
      () => say("Copied", command ? "The command is copied." : `${value.slice(0, 24)} is copied.`),
      () => say("Not copied", "The browser does not let this page copy."),
    );
  });
  if (command) {
    code.parentElement.after(button);
  } else {
    code.after(" ", button);
  }
}

// Browsers have it only on pages that come by https or from the machine itself.
if (navigator.clipboard) {
  document.body.append(spoken);
  document.querySelectorAll("main :is(dd, td, pre) code").forEach(add); // none within a sentence
}
