// Says while the form of an opt-in is filled in what is wrong with it. The rules are those
// of the server, which is asked a moment after the last change; what the form itself
// knows, such as a field that is empty, the browser says. Nothing is kept from being sent.

const form = document.querySelector("form[data-check]");
const hint = form.querySelector("[role=status]");
const pause = 600; // milliseconds
let timer;
let asking; // what is being asked, to be given up when it is out of date

function say(text, wrong) {
  hint.classList.toggle("alarmed", wrong);
  if (hint.textContent !== text) {
    hint.textContent = text;
  }
}

/** nameOf is what the page calls a field. */
const nameOf = (field) => field.getAttribute("aria-label") ?? field.labels?.[0]?.textContent.trim() ?? field.name;

async function check() {
  asking?.abort();
  const faulty = [...form.elements].find((field) => field.willValidate && !field.validity.valid && field.dataset.touched);
  if (faulty) {
    say(`${nameOf(faulty)}: ${faulty.validationMessage}`, true);
    return;
  }
  if (!form.matches(":valid")) {
    say("", false); // there is more to be filled in
    return;
  }
  const own = new AbortController();
  asking = own;
  try {
    const answer = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)), signal: own.signal });
    const { ok, detail } = await answer.json();
    say(ok ? "This keeps all rules." : detail, !ok);
  } catch {
    if (!own.signal.aborted) {
      say("", false); // it is said when the form is sent
    }
  }
}

form.addEventListener("input", ({ target }) => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    target.dataset.touched = "yes";
    check();
  }, pause);
});
form.addEventListener("submit", () => {
  clearTimeout(timer);
  asking?.abort();
});
