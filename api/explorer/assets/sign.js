// Has a wallet in the browser sign the message of the page and fills the signature into
// the form, which does all the rest, as it does for a signature that was pasted.
//
// Wallets are found by EIP-6963 and asked by EIP-1193. What they say of themselves is
// text of others: it becomes text and never markup, and an icon only as an image from a
// data URI. No wallet is asked for a chain, for the message belongs to none.

const form = document.querySelector("form[data-message]");
const place = document.getElementById("wallets");
const status = document.getElementById("wallet-status");
const known = new Set();

function say(text) {
  status.textContent = text;
}

// Wallets put the code of an error inside others.
function codeOf(error) {
  const codes = [error?.code, error?.data?.originalError?.code, error?.cause?.code];
  return codes.find((code) => reasons.has(code));
}

const cannot = "This wallet cannot sign messages. Sign in another way and paste the signature below.";
const gone = "The wallet is disconnected. Connect it and try again.";
const declined = "You declined in the wallet. Nothing was sent.";
const reasons = new Map([
  [4001, declined],
  ["ACTION_REJECTED", declined],
  [4100, "The wallet does not let this site use the account. Allow it in the wallet and try again."],
  [4200, cannot],
  [-32601, cannot],
  [4900, gone],
  [4901, gone],
  [-32002, "A request is open in the wallet already. Answer it there."],
]);

const same = (a, b) => String(a).toLowerCase() === String(b).toLowerCase();

async function ask(wallet, button) {
  const { owner, message } = form.dataset;
  let other = "";
  const changed = (accounts) => {
    other = (accounts ?? []).some((account) => same(account, owner)) ? "" : (accounts?.[0] ?? "none");
  };
  button.disabled = true;
  say("Answer in the wallet.");
  try {
    changed(await wallet.request({ method: "eth_requestAccounts" }));
    if (other !== "") {
      say(`The wallet offers another account: ${other}. Choose ${owner} in it and try again.`);
      return;
    }
    wallet.on?.("accountsChanged", changed);
    // The bytes come first, in hex: a text that begins with 0x would be taken for hex.
    const signature = await wallet.request({ method: "personal_sign", params: [message, owner] });
    if (other !== "") {
      say(`The account was changed while you signed. Choose ${owner} again and try again.`);
      return;
    }
    if (!/^0x[0-9a-f]+$/i.test(signature)) {
      say(cannot);
      return;
    }
    form.elements.signature.value = signature;
    say(form.checkValidity() ? "Signed. It is being sent." : "Signed. Fill in what is missing below, and send it.");
    form.requestSubmit();
  } catch (error) {
    say(reasons.get(codeOf(error)) ?? "The wallet gave no signature. Try again, or paste one below.");
  } finally {
    wallet.removeListener?.("accountsChanged", changed);
    button.disabled = false;
  }
}

function add(info, wallet) {
  if (typeof info?.uuid !== "string" || typeof wallet?.request !== "function" || known.has(info.uuid)) {
    return;
  }
  known.add(info.uuid);
  const button = document.createElement("button");
  button.type = "button";
  if (/^data:image\/(?:png|webp|jpeg|gif|svg\+xml)[;,]/.test(info.icon)) {
    const icon = document.createElement("img");
    icon.src = info.icon;
    icon.alt = "";
    icon.width = icon.height = 20;
    button.append(icon, " ");
  }
  const name = document.createElement("bdi");
  name.textContent = String(info.name).slice(0, 40);
  button.append("Sign with ", name);
  button.addEventListener("click", () => ask(wallet, button));
  place.append(button);
  place.hidden = false;
}

// Some wallets announce themselves late, so this goes on listening.
window.addEventListener("eip6963:announceProvider", ({ detail }) => add(detail?.info, detail?.provider));
window.dispatchEvent(new Event("eip6963:requestProvider"));

// Older ones announce nothing.
setTimeout(() => {
  if (known.size === 0 && window.ethereum) {
    add({ uuid: "ethereum", name: "the wallet in this browser" }, window.ethereum);
  }
}, 300);
