// Checks a slot in the browser of who reads its page, from what is served and nothing
// else, in two ways that share no code:
//
//   - This file computes hashes, proofs and the signature of the log itself, from the
//     bundle of the slot. It keeps to the published formats: RFC 8785 (canonical JSON),
//     RFC 9162 section 2.1.3.2 (inclusion), C2SP signed-note and tlog-checkpoint (the
//     signature), and the keccak tree of batches that is attested on a chain.
//   - The program karatum-verify, built for browsers, makes all of its checks. It is
//     loaded when somebody asks for it.
//
// Whatever cannot be checked here is said.

const HOLDS = "holds";
const FAILS = "FAILS";
const OPEN = "not checked";

const utf8 = new TextEncoder();

/** sha256 returns the SHA-256 of the concatenated parts. */
async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", join(parts)));
}

/** mac is HMAC-SHA-256 (RFC 2104). */
async function mac(key, data) {
  const k = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", k, data));
}

function join(parts) {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

/** unhex reads lower-case hex, with or without 0x. */
function unhex(text) {
  const digits = String(text).replace(/^0x/, "");
  if (!/^(?:[0-9a-f]{2})*$/.test(digits)) {
    throw new Error(`“${String(text).slice(0, 80)}” is not hex`);
  }
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

const unbase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

const same = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

/** u32 and u64 are integers, big-endian. */
function u32(n) {
  const b = new Uint8Array(4);
  new DataView(b.buffer).setUint32(0, n);
  return b;
}

function u64(n) {
  const b = new Uint8Array(8);
  new DataView(b.buffer).setBigUint64(0, BigInt(n));
  return b;
}

/** str is a string with its length before it. */
function str(text) {
  const bytes = utf8.encode(text);
  return join([u32(bytes.length), bytes]);
}

/** canonical writes a value that was parsed from JSON in the form of RFC 8785, which takes
 *  numbers and strings as JavaScript writes them, and sorts names by their UTF-16. */
export function canonical(value) {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(",")}]`;
  }
  if (value !== null && typeof value === "object") {
    const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}

const hashOf = (value) => sha256(utf8.encode(canonical(value)));

/** recordHash is the hash of a record behind the one with hash prev. */
const recordHash = (record, prev) => sha256(str("karatum/ledger/record/v1"), prev, utf8.encode(canonical(record)));

/** rootOf is where the path of a leaf leads to in a tree of size leaves (RFC 9162, section
 *  2.1.3.2), or null. Numbers go up to 2^53 here, so they are halved and not shifted. */
export async function rootOf(leaf, index, size, path) {
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(size) || index < 0 || index >= size) {
    return null;
  }
  const half = (n) => Math.floor(n / 2);
  let [at, last, hash] = [index, size - 1, leaf];
  for (const sibling of path) {
    if (last === 0) {
      return null;
    }
    if (at % 2 === 1 || at === last) {
      hash = await sha256([1], sibling, hash);
      while (at % 2 === 0 && at !== 0) {
        [at, last] = [half(at), half(last)];
      }
    } else {
      hash = await sha256([1], hash, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  return last === 0 ? hash : null;
}

/** keccak256 is Keccak-256 as Ethereum has it, which WebCrypto has not. */
export function keccak256(data) {
  const rate = 136;
  const padded = new Uint8Array((Math.floor(data.length / rate) + 1) * rate);
  padded.set(data);
  padded[data.length] ^= 0x01;
  padded[padded.length - 1] ^= 0x80;
  const blocks = new DataView(padded.buffer);
  const state = new BigUint64Array(25);
  for (let block = 0; block < padded.length; block += rate) {
    for (let lane = 0; lane < rate / 8; lane++) {
      state[lane] ^= blocks.getBigUint64(block + 8 * lane, true);
    }
    permute(state);
  }
  const out = new DataView(new ArrayBuffer(32));
  for (let lane = 0; lane < 4; lane++) {
    out.setBigUint64(8 * lane, state[lane], true);
  }
  return new Uint8Array(out.buffer);
}

const turn = (lane, by) => BigInt.asUintN(64, (lane << by) | (lane >> (64n - by)));

/** permute is Keccak-f[1600] (FIPS 202, section 3): lane x, y stands at x + 5y. */
function permute(a) {
  const column = new BigUint64Array(5);
  let register = 1; // which the constants of rounds come from
  for (let round = 0; round < 24; round++) {
    for (let x = 0; x < 5; x++) {
      column[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
    }
    for (let x = 0; x < 5; x++) {
      const mixed = column[(x + 4) % 5] ^ turn(column[(x + 1) % 5], 1n);
      for (let y = 0; y < 25; y += 5) {
        a[x + y] ^= mixed;
      }
    }
    let [x, y, lane] = [1, 0, a[1]];
    for (let t = 1; t <= 24; t++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const next = a[x + 5 * y];
      a[x + 5 * y] = turn(lane, BigInt(((t * (t + 1)) / 2) % 64));
      lane = next;
    }
    for (let row = 0; row < 25; row += 5) {
      const old = a.slice(row, row + 5);
      for (let i = 0; i < 5; i++) {
        a[row + i] = old[i] ^ (~old[(i + 1) % 5] & old[(i + 2) % 5]);
      }
    }
    for (let j = 0; j < 7; j++) {
      if (register & 1) {
        a[0] ^= 1n << BigInt(2 ** j - 1);
      }
      register = register & 0x80 ? ((register << 1) ^ 0x171) : register << 1;
    }
  }
}

/** word is an unsigned integer as the ABI of Ethereum has it. */
const word = (n) => join([new Uint8Array(24), u64(n)]);

/** batchRoot is where the path of a commit in a batch leads to, as batch says how many
 *  commits there are and what its leaves begin with; null for a path of another length. */
function batchRoot(batch, { commit, index, path }) {
  const height = Math.max(1, Math.ceil(Math.log2(batch.count)));
  if (index < 0 || index >= batch.count || path.length !== height) {
    return null;
  }
  const id = keccak256(join([word(batch.chain), unhex(batch.schema), word(batch.batch), unhex(batch.previousRoot)]));
  const tag = keccak256(utf8.encode("MysteryShopper.CommitLeaf.v1"));
  let hash = keccak256(keccak256(join([tag, id, word(index), word(batch.count), unhex(commit)])));
  for (const sibling of path) {
    const pair = [hex(hash), sibling].sort();
    hash = keccak256(join(pair.map(unhex)));
  }
  return hash;
}

/** openCheckpoint reads the checkpoint of a log with the given key, and leaves its
 *  signature to be checked. */
async function openCheckpoint(note, vkey) {
  const [, name, id, key] = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(vkey) ?? [];
  if (!name) {
    throw new Error("the key of the log cannot be read");
  }
  const typed = unbase64(key); // a byte that says Ed25519, and the key
  const named = (await sha256(utf8.encode(`${name}\n`), typed)).slice(0, 4);
  if (typed.length !== 33 || typed[0] !== 1 || hex(named) !== id) {
    throw new Error("the key of the log is not an Ed25519 key of that name");
  }
  const [, text, signer, signature] = /^((?:[^\n]+\n){3})\n— (\S+) ([A-Za-z0-9+/=]+)\n$/.exec(note) ?? [];
  if (!text) {
    throw new Error("the checkpoint is not three lines with one signature");
  }
  const [origin, size, root] = text.split("\n");
  const signed = unbase64(signature); // the id of the key, and the signature
  if (origin !== name || signer !== name || hex(signed.slice(0, 4)) !== id || !/^\d+$/.test(size)) {
    throw new Error("the checkpoint is not of the log that the key is of");
  }
  return { name, key: typed.slice(1), text, size: Number(size), root: unbase64(root), signature: signed.slice(4) };
}

/** ed25519 checks a signature; null means that this browser has no Ed25519. */
async function ed25519(key, signature, data) {
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
  } catch (error) {
    if (error?.name === "NotSupportedError") {
      return null;
    }
    throw error;
  }
  return crypto.subtle.verify("Ed25519", imported, signature, data);
}

class Failure extends Error {}

function must(condition, sentence) {
  if (!condition) {
    throw new Failure(sentence);
  }
}

/** checkBundle checks the bundle of a slot, the text of GET /v1/ledger/bundle?shop={shop}.
 *  It returns a list of {name, status, detail}. */
export async function checkBundle(text, shop) {
  const results = [];
  let bundle;
  let log;
  const proven = new Map(); // records that stand in the log, by stream

  /** check adds what a check comes to: the status and the sentence that make returns, or
   *  that it fails, and why, if it throws. */
  const check = async (name, make) => {
    try {
      const [status, detail] = await make();
      results.push({ name, status, detail });
    } catch (error) {
      results.push({ name, status: FAILS, detail: error instanceof Failure ? error.message : `it cannot be read: ${error.message}` });
    }
  };

  await check("Signature of the log", async () => {
    bundle = JSON.parse(text);
    must(`${canonical(bundle)}\n` === text, "the bundle is not written in its one form");
    log = await openCheckpoint(bundle.checkpoint, bundle.key);
    const good = await ed25519(log.key, log.signature, utf8.encode(log.text));
    if (good === null) {
      return [OPEN, "this browser has no Ed25519; all that follows is held against a checkpoint whose signature nobody looked at here"];
    }
    must(good, "the checkpoint is not signed by the key that comes with it");
    return [HOLDS, `${log.name} signed that its first ${log.size} records have the root ${hex(log.root)}`];
  });
  if (log === undefined) {
    return results;
  }

  await check("Records in the signed log", async () => {
    for (const { index, path, prevHash, record } of bundle.records) {
      const hash = await recordHash(record, unhex(prevHash));
      const root = await rootOf(await sha256([0], hash), index, log.size, path.map(unhex));
      must(root !== null && same(root, log.root), `record ${index} does not lead to the root that was signed`);
      const of = proven.get(record.stream) ?? [];
      of.push({ index, record, hash, prev: unhex(prevHash) });
      proven.set(record.stream, of);
    }
    return [HOLDS, `the hash of each of ${bundle.records.length} records was made from its bytes, and leads by its path to the root that was signed`];
  });

  const own = proven.get(`shop/${shop}`) ?? [];
  const committed = own.find(({ record }) => record.type === "shop.committed.v1");
  const revealed = own.find(({ record }) => record.type === "shop.revealed.v1");
  const event = revealed?.record.data;

  await check("Commitment", async () => {
    must(committed, "the log has no commitment of this slot");
    const { consent, day, slot, commit } = committed.record.data;
    if (event) {
      if (canonical(event.filled ?? {}) !== "{}" || !event.expected.value) {
        return [OPEN, "the task named a block or a price that was not known when it was committed to; the program makes it again as it was"];
      }
      const made = await sha256(
        str("karatum/mystery/commit/v1"), str(consent), u32(day), u32(slot), str(event.template), u32(event.templateVersion),
        str(event.endpoint), u32(event.identity), u64(event.sendAt), unhex(event.seed), await hashOf(event.ask), await hashOf(event.expected),
      );
      must(hex(made) === commit, `what is revealed gives the commitment ${hex(made)}, and the evening before it was ${commit}`);
      return [HOLDS, "question, right answer, moment, endpoint, identity and seed give the commitment that was made the evening before"];
    }
    const opened = (proven.get(`plan/${consent}`) ?? []).find(({ record }) => record.type === "plan.opened.v1" && record.data.day === day);
    const granted = [...proven.values()].flat().find(({ record }) => record.type === "consent.granted.v1" && record.data.consent === consent);
    if (!opened || !granted) {
      return [OPEN, "nothing of the slot is public yet but its commitment, which tells nothing"];
    }
    const { ownerNonce, signature } = granted.record.data;
    const entropy = unhex(ownerNonce ?? signature);
    const secret = await mac(unhex(opened.record.data.key), join([str("karatum/mystery/day/v1"), await sha256(entropy)]));
    const seed = await mac(secret, join([str("karatum/mystery/seed/v1"), str(consent), u64(86400 * day), u32(slot)]));
    const made = await sha256(str("karatum/mystery/pad/v1"), str(consent), u32(day), u32(slot), seed);
    must(hex(made) === commit, "the key of the day does not make a pad of this slot, and nothing was revealed");
    return [HOLDS, "the key of the day makes a pad of this slot, and that is what was committed to"];
  });

  if (event) {
    await check("Sealed records", async () => {
      let head = committed.hash;
      for (const record of event.records) {
        head = await recordHash(record, head);
      }
      must(same(head, revealed.prev), "the records that were sealed do not lead from the commitment to the reveal");
      return [HOLDS, `${event.records.length} records that were sealed lead from the commitment to the reveal, each by the hash of the one before`];
    });

    await check("Reply", async () => {
      const replied = event.records.find(({ type }) => type === "shop.replied.v1")?.data;
      const reply = bundle.replies.find((r) => r.shop === shop);
      if (!replied) {
        must(!reply, "there is a reply, and no record of one");
        return [OPEN, "no reply came"];
      }
      if (!reply) {
        return [OPEN, "the reply is not there any more; what commits to it is"];
      }
      const made = await sha256(
        str("karatum/mystery/reply/v1"), str(shop), u64(replied.receivedAtMs), u32(replied.status), u32(replied.latencyMs),
        unhex(reply.salt), await sha256(unbase64(reply.body)),
      );
      must(hex(made) === replied.hash, "the reply is not the one that was committed to when it came");
      return [HOLDS, "the bytes of the reply, with its moment and status, give the hash that was put on record when it came"];
    });
  }

  await check("Batch on the chain", async () => {
    must(committed, "the log has no commitment of this slot");
    const place = bundle.commits.find(({ commit }) => commit === committed.record.data.commit);
    if (!place) {
      return [OPEN, "no batch that the log has signed holds the commitment; where no chain is configured there are none"];
    }
    const steps = proven.get(`batch/${place.batch}`) ?? [];
    const sealed = steps.find(({ record }) => record.type === "batch.sealed.v1")?.record.data;
    must(sealed, `the log has no batch ${place.batch}`);
    const root = batchRoot(sealed, place);
    must(root !== null && hex(root) === sealed.root, `the path of the commitment does not lead to the root of batch ${place.batch}`);
    const attested = steps.findLast(({ record }) => record.type === "batch.attested.v1")?.record.data;
    return [HOLDS, attested
      ? `the path of the commitment leads to the root of batch ${place.batch}, which the log says is attested on chain ${sealed.chain} as ${attested.uid}`
      : `the path of the commitment leads to the root of batch ${place.batch}, which is not attested yet`];
  });
  return results;
}

/** fetchAnswers asks for what a slot is checked from, in the order that karatum-verify asks
 *  in: of what is asked for later, nothing may be missing in what came before. get returns
 *  the bytes of an answer, or null where there is none. */
export async function fetchAnswers(shop, get) {
  const [, of, date] = shop.split("_");
  const consent = `cns_${of}`;
  const day = Date.UTC(date.slice(0, 4), date.slice(4, 6) - 1, date.slice(6)) / 86400000;
  return {
    consent: await get(`/v1/mystery/consents/${consent}`),
    day: await get(`/v1/mystery/consents/${consent}/days/${day}`),
    shop: await get(`/v1/mystery/shops/${shop}`),
    stream: (await get(`/v1/ledger/streams/shop/${shop}`)) ?? utf8.encode('{"items":[]}'),
    bundle: await get(`/v1/ledger/bundle?shop=${shop}`),
    seals: (version) => get(`/v1/ledger/streams/seal/${consent}?limit=1&from=${version}`),
  };
}

/** startProgram runs the program, whose bytes are given, and returns its function. An
 *  error inside of the program ends it, and every promise that it made with it. */
export async function startProgram(Go, source) {
  const go = new Go();
  const { instance } = source instanceof Response
    ? await WebAssembly.instantiateStreaming(source, go.importObject)
    : await WebAssembly.instantiate(source, go.importObject);
  const ended = go.run(instance).then(() => {
    throw new Error("the program ended early");
  });
  ended.catch(() => {}); // whoever waits for an answer hears of it
  const check = globalThis.karatumVerifyShop;
  return async ({ consent, day, shop, stream, bundle, seals }) =>
    JSON.parse(await Promise.race([check(consent, day, shop, stream, bundle, seals), ended]));
}

// From here on it is about the page.

async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-cache" });
  if (answer.status === 404) {
    return null;
  }
  if (!answer.ok) {
    throw new Error(`${path} answers ${answer.status}${answer.status === 429 ? ": too much was asked for; try again in a minute" : ""}`);
  }
  return new Uint8Array(await answer.arrayBuffer());
}

const statuses = new Map([["pass", HOLDS], ["fail", FAILS], ["pending", "pending"], ["skipped", "skipped"]]);
const verdicts = new Map([
  ["ok", "All that can be checked holds."],
  ["pending", "What can be checked so far holds; the rest takes what is not published yet."],
  ["fail", "Something does not hold."],
]);

/** nameOf is what the table of the server calls a check. */
const nameOf = (id) => document.querySelector(`tr[data-check="${CSS.escape(id)}"] th`)?.textContent ?? id;

/** fill puts what came of checks into a table of the page. */
function fill(table, results) {
  table.tBodies[0].replaceChildren(...results.map(({ name, status, detail }) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    const result = document.createElement("td");
    const why = document.createElement("td");
    const mark = document.createElement("span");
    row.setAttribute("role", "row");
    head.setAttribute("role", "rowheader");
    head.scope = "row";
    head.textContent = name;
    mark.className = `status ${status === FAILS ? "fail" : status === HOLDS ? "pass" : "skipped"}`;
    mark.textContent = status;
    result.setAttribute("role", "cell");
    result.dataset.name = "Result";
    result.append(mark);
    const words = document.createElement("bdi");
    words.textContent = detail;
    why.className = "why";
    why.setAttribute("role", "cell");
    why.append(words);
    row.append(head, result, why);
    return row;
  }));
  table.closest("[hidden]")?.removeAttribute("hidden");
}

function ready(section) {
  const { shop, program, integrity, runtime } = section.dataset;
  const button = section.querySelector("button");
  const status = section.querySelector("[role=status]");
  const say = (text) => {
    status.textContent = text;
  };
  let verify; // once the program runs

  async function check() {
    button.disabled = true;
    try {
      say("Asking for the public answers.");
      const answers = await fetchAnswers(shop, get);
      say("Computing hashes and proofs.");
      const results = answers.bundle
        ? await checkBundle(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(answers.bundle), shop)
        : [{ name: "Records in the signed log", status: OPEN, detail: "the log has signed nothing about this slot yet" }];
      fill(section.querySelector("table.own"), results);
      let failed = results.some((r) => r.status === FAILS);
      if (!program) {
        section.dataset.verdict = failed ? "fail" : "partial";
        say(failed ? verdicts.get("fail") : "What this page computes itself holds, or is marked. All other checks take karatum-verify.");
        return;
      }
      if (!verify) {
        say("Loading the program.");
        await import(runtime);
        verify = await startProgram(globalThis.Go, await fetch(program, { integrity }));
      }
      say("The program is checking.");
      const report = await verify(answers);
      fill(section.querySelector("table.program"), report.checks.map((c) => ({ name: nameOf(c.id), status: statuses.get(c.status), detail: c.detail })));
      failed ||= report.verdict === "fail";
      section.dataset.verdict = failed ? "fail" : report.verdict;
      say(`${verdicts.get(section.dataset.verdict)} This was computed in your browser, from what the server says now.`);
    } catch (error) {
      verify = undefined;
      section.dataset.verdict = "none";
      say(`It could not be checked to the end: ${error.message}.`);
    } finally {
      button.disabled = false;
    }
  }

  if (!globalThis.crypto?.subtle) {
    button.remove();
    say("Browsers compute hashes only on pages that come by https or from the machine itself. The command below needs neither.");
  } else {
    button.addEventListener("click", check);
  }
  section.hidden = false;
}

const section = globalThis.document?.getElementById("in-browser");
if (section) {
  ready(section);
}
