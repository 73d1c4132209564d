// Signs a request as of RFC 9421 with a library of others. The request is on standard
// input as JSON, with the private key as PKCS #8 in PEM; its headers, signed, are printed.
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { httpbis } from 'http-message-signatures';

const { method, url, headers, body, key, keyid, nonce, created } = JSON.parse(readFileSync(0, 'utf8'));
const privateKey = createPrivateKey(key);
const request = {
  method, url,
  headers: { ...headers, 'Content-Digest': `sha-256=:${createHash('sha256').update(body).digest('base64')}:` },
};
const signed = await httpbis.signMessage({
  key: { id: keyid, alg: 'ed25519', sign: async (data) => sign(null, data, privateKey) },
  name: 'peer',
  fields: ['@method', '@authority', '@path', 'content-digest', 'content-type', 'idempotency-key'],
  params: ['created', 'expires', 'nonce', 'keyid', 'alg', 'tag'],
  paramValues: { created: new Date(created * 1000), expires: new Date((created + 60) * 1000), nonce, tag: 'karatum-producer' },
}, request);
console.log(JSON.stringify(signed.headers));
