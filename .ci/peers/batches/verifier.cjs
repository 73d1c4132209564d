// Compiles Verifier.sol and prints its creation code.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const solc = require('solc');

const main = 'Verifier.sol';
const input = {
  language: 'Solidity',
  sources: { [main]: { content: fs.readFileSync(path.join(__dirname, main), 'utf8') } },
  settings: { evmVersion: 'cancun', outputSelection: { '*': { '*': ['evm.bytecode.object'] } } },
};
const load = (name) => ({ contents: fs.readFileSync(require.resolve(name), 'utf8') });
const { errors = [], contracts } = JSON.parse(solc.compile(JSON.stringify(input), { import: load }));
for (const e of errors) console.error(e.formattedMessage);
if (errors.some((e) => e.severity === 'error')) process.exit(1);
console.log(contracts[main].Verifier.evm.bytecode.object);
