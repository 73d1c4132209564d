// Reads attestations with the SDK of EAS and prints what they say.
//
//   node attestations.cjs NODE EAS REGISTRY UID...
'use strict';
const { EAS, SchemaEncoder, SchemaRegistry } = require('@ethereum-attestation-service/eas-sdk');
const { JsonRpcProvider } = require('ethers');

async function main([node, address, registryAddress, ...uids]) {
  const provider = new JsonRpcProvider(node);
  const eas = new EAS(address);
  eas.connect(provider);
  const registry = new SchemaRegistry(registryAddress);
  registry.connect(provider);
  const list = [];
  for (const uid of uids) {
    const a = await eas.getAttestation(uid);
    const { schema, resolver, revocable } = await registry.getSchema({ uid: a.schema });
    const fields = new SchemaEncoder(schema).decodeData(a.data);
    list.push({
      uid: a.uid,
      attester: a.attester,
      refUid: a.refUID,
      time: String(a.time),
      valid: await eas.isAttestationValid(uid),
      schemaUid: SchemaRegistry.getSchemaUID(schema, resolver, revocable),
      revocable: a.revocable || revocable,
      fields: Object.fromEntries(fields.map(({ name, value }) => [name, String(value.value)])),
    });
  }
  provider.destroy();
  console.log(JSON.stringify(list));
}

main(process.argv.slice(2)).catch((e) => {
  console.error(e);
  process.exitCode = 1;
});
