// Signs the text on standard input as a wallet would (EIP-191 personal_sign), with
// the library and the private key of the arguments, and prints the signature.
import { readFileSync } from 'node:fs';

const [library, key] = process.argv.slice(2);
const message = readFileSync(0, 'utf8');

const sign = {
  async viem() {
    const { privateKeyToAccount } = await import('viem/accounts');
    return privateKeyToAccount(key).signMessage({ message });
  },
  async ethers() {
    const { Wallet } = await import('ethers');
    return new Wallet(key).signMessage(message);
  },
}[library];
if (!sign) {
  throw new Error(`unknown library ${library}: want viem or ethers`);
}
console.log(await sign());
