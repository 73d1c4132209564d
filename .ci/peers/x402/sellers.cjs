// Starts two sellers with a facilitator each, one of x402 version 1 and one of version
// 2, on the chain of the node whose URL is the first argument, selling to the account
// that is the second. It prints their URLs as a line of JSON, and ends when standard
// input does. Each sells its resource for a thousandth of a dollar and gives the
// reference back that it was asked with.
'use strict';
const express = require('express');
const { createWalletClient, http, publicActions } = require('viem');
const { privateKeyToAccount } = require('viem/accounts');
const { baseSepolia } = require('viem/chains');

const [rpc, payTo] = process.argv.slice(2);
// The second account of the well-known test mnemonic: it redeems, and pays for that.
const account = privateKeyToAccount('0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d');
const chain = createWalletClient({ account, chain: baseSepolia, transport: http(rpc) }).extend(publicActions);

const listen = (app) => new Promise((done, failed) => {
  const server = app.listen(0, '127.0.0.1', () => done(`http://127.0.0.1:${server.address().port}`));
  server.on('error', failed);
});

// A facilitator answers with what its library says, and with its errors as they are.
async function facilitator({ verify, settle, supported }) {
  const app = express();
  app.use(express.json());
  const answer = (f) => (req, res) => f(req.body.paymentPayload, req.body.paymentRequirements)
    .then((said) => res.json(said), (e) => res.status(400).json({ error: String(e) }));
  app.post('/verify', answer(verify));
  app.post('/settle', answer(settle));
  app.get('/supported', (_, res) => res.json(supported));
  return listen(app);
}

async function seller(middleware) {
  const app = express();
  app.use(middleware);
  app.get('/paid', (req, res) => res.json({ content: 'worth it', reference: req.query.reference }));
  return `${await listen(app)}/paid`;
}

async function version1() {
  const { verify, settle } = require('x402/facilitator');
  const { paymentMiddleware } = require('x402-express');
  const url = await facilitator({
    verify: (p, r) => verify(chain, p, r),
    settle: (p, r) => settle(chain, p, r),
    supported: { kinds: [{ x402Version: 1, scheme: 'exact', network: 'base-sepolia' }] },
  });
  return seller(paymentMiddleware(payTo, { 'GET /paid': { price: '$0.001', network: 'base-sepolia' } }, { url }));
}

async function version2() {
  const { x402Facilitator } = require('@x402/core/facilitator');
  const { HTTPFacilitatorClient } = require('@x402/core/server');
  const { toFacilitatorEvmSigner } = require('@x402/evm');
  const facilitatorScheme = require('@x402/evm/exact/facilitator').ExactEvmScheme;
  const serverScheme = require('@x402/evm/exact/server').ExactEvmScheme;
  const { paymentMiddleware, x402ResourceServer } = require('@x402/express');
  const network = 'eip155:84532';
  const signer = toFacilitatorEvmSigner({
    address: account.address,
    getCode: (a) => chain.getCode(a),
    readContract: (a) => chain.readContract({ ...a, args: a.args ?? [] }),
    verifyTypedData: (a) => chain.verifyTypedData(a),
    writeContract: (a) => chain.writeContract({ ...a, args: a.args ?? [] }),
    sendTransaction: (a) => chain.sendTransaction(a),
    waitForTransactionReceipt: (a) => chain.waitForTransactionReceipt(a),
  });
  const library = new x402Facilitator();
  library.register(network, new facilitatorScheme(signer));
  const url = await facilitator({
    verify: (p, r) => library.verify(p, r),
    settle: (p, r) => library.settle(p, r),
    supported: library.getSupported(),
  });
  const server = new x402ResourceServer(new HTTPFacilitatorClient({ url })).register(network, new serverScheme());
  return seller(paymentMiddleware({ 'GET /paid': { accepts: [{ scheme: 'exact', price: '$0.001', network, payTo }] } }, server));
}

process.stdin.on('end', () => process.exit(0)).resume();
version1()
  .then(async (v1) => console.log(JSON.stringify({ v1, v2: await version2() })))
  .catch((e) => {
    console.error(e);
    process.exit(1);
  });
