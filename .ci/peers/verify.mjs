// Checks slots as the page of a slot does, in Node: with the script of the page and the
// program that it loads. Arguments are the script, what runs the program, the program
// and the URL of a service; standard input has the id of a slot on each line, and
// standard output gets a line of JSON for each: what the script computed, and the report
// of the program.
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';

const [script, runtime, program, base] = process.argv.slice(2);
const { checkBundle, fetchAnswers, startProgram } = await import(script);
await import(runtime);
const verify = await startProgram(globalThis.Go, await readFile(program));

const get = async (path) => {
  const answer = await fetch(base + path, { headers: { Accept: 'application/json' } });
  if (answer.status === 404) {
    return null;
  }
  if (!answer.ok) {
    throw new Error(`${path} answers ${answer.status}`);
  }
  return new Uint8Array(await answer.arrayBuffer());
};

for await (const shop of createInterface({ input: process.stdin })) {
  const answers = await fetchAnswers(shop, get);
  const own = answers.bundle ? await checkBundle(new TextDecoder().decode(answers.bundle), shop) : [];
  console.log(JSON.stringify({ own, report: await verify(answers) }));
}
process.exit(0); // the program waits for more
