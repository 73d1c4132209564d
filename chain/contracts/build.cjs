// Compiles the contracts of this folder and writes artifacts/<contract>.json, each
// with its ABI and its creation code. The same compiler and settings make the same
// bytes: metadata, in which a compiler leaves traces of its surroundings, is left
// out. With --check it writes nothing, and fails if an artifact is stale.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const solc = require('solc');

const compiler = '0.8.24';
if (!solc.version().startsWith(`${compiler}+`)) {
  throw new Error(`this takes solc ${compiler}, not ${solc.version()}; run npm ci`);
}
const sources = {};
for (const name of fs.readdirSync(__dirname).filter((n) => n.endsWith('.sol'))) {
  sources[name] = { content: fs.readFileSync(path.join(__dirname, name), 'utf8') };
}
const { errors = [], contracts } = JSON.parse(solc.compile(JSON.stringify({
  language: 'Solidity',
  sources,
  settings: {
    evmVersion: 'cancun',
    optimizer: { enabled: true, runs: 200 },
    metadata: { appendCBOR: false, bytecodeHash: 'none' },
    outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
  },
})));
for (const e of errors) console.error(e.formattedMessage);
if (errors.some((e) => e.severity === 'error')) process.exit(1);

for (const [name, { abi, evm }] of Object.values(contracts).flatMap(Object.entries)) {
  if (abi.length === 0) continue; // a library that others contain
  const file = path.join(__dirname, 'artifacts', `${name}.json`);
  const text = `${JSON.stringify({ contract: name, compiler: solc.version(), abi, bytecode: `0x${evm.bytecode.object}` }, null, 1)}\n`;
  if (!process.argv.includes('--check')) {
    fs.writeFileSync(file, text);
  } else if (fs.readFileSync(file, 'utf8') !== text) {
    console.error(`${file} is stale; run make contracts`);
    process.exitCode = 1;
  }
}
