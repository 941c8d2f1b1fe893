// node-vault against a Transit server: VAULT_ADDR, VAULT_TOKEN, and VAULT_CACERT (or NODE_EXTRA_CA_CERTS).
'use strict';
const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const nodeVault = require('node-vault');

const ca = process.env.VAULT_CACERT ? fs.readFileSync(process.env.VAULT_CACERT) : undefined;
const options = ca ? { requestOptions: { ca } } : {};
const vault = nodeVault(options);
const b64 = (s) => Buffer.from(s).toString('base64');
const text = (s) => Buffer.from(s, 'base64').toString();
const fails = (promise, status, message) => assert.rejects(promise, (e) => {
  assert.equal(e.response && e.response.statusCode, status, e.message);
  if (message) assert.match(e.message, message);
  return true;
});

async function main() {
  const id = crypto.randomUUID();
  const name = `node-${id}`;
  const derived = `node-derived-${id}`;

  const health = await vault.health();
  assert.equal(health.initialized, true);
  assert.equal(health.sealed, false);
  assert.equal((await vault.status()).sealed, false);
  assert.equal((await vault.initialized()).initialized, true);

  // keys
  await vault.transitCreateKey({ name });
  await vault.write(`transit/keys/${derived}`, { derived: true });
  assert.ok((await vault.transitListKeys()).data.keys.includes(name)); // LIST
  assert.ok((await nodeVault({ ...options, noCustomHTTPVerbs: true }).list('transit/keys')).data.keys.includes(derived)); // GET ?list=1
  const key = (await vault.transitReadKey({ name })).data;
  assert.equal(key.type, 'aes256-ctr-sha3');
  assert.equal(key.latest_version, 1);
  assert.equal(typeof key.keys['1'], 'number');
  await fails(vault.read('transit/keys/no-such-key'), 404, /^Status 404$/);

  // encrypt, decrypt
  const enc = (await vault.encryptData({ name, plaintext: b64('hello') })).data;
  assert.match(enc.ciphertext, /^vault:v1:/);
  assert.equal(enc.key_version, 1);
  const dec = await vault.decryptData({ name, ciphertext: enc.ciphertext });
  assert.equal(text(dec.data.plaintext), 'hello');
  await fails(vault.decryptData({ name, ciphertext: 'garbage' }), 400, /^invalid ciphertext: no prefix$/);
  await fails(vault.write(`transit/encrypt/${derived}`, { plaintext: b64('x') }), 400, /^missing 'context' for key derivation/);

  // batch with context, one failing item
  const context = b64('tenant');
  const batch = await vault.write(`transit/encrypt/${derived}`, {
    batch_input: ['a', 'b', 'c'].map((s) => ({ plaintext: b64(s), context, reference: s })),
  });
  assert.deepEqual(batch.data.batch_results.map((r) => r.reference), ['a', 'b', 'c']);
  const input = batch.data.batch_results.map((r) => ({ ciphertext: r.ciphertext, context }));
  const plain = await vault.write(`transit/decrypt/${derived}`, { batch_input: input });
  assert.deepEqual(plain.data.batch_results.map((r) => text(r.plaintext)), ['a', 'b', 'c']);
  input[1].ciphertext = 'vault:v1:!!';
  await assert.rejects(vault.write(`transit/decrypt/${derived}`, { batch_input: input }), (e) => {
    assert.equal(e.response.statusCode, 400);
    const { data, errors } = e.response.body;
    assert.equal(errors, undefined);
    assert.equal(data.batch_results[1].error, 'invalid ciphertext: could not decode base64');
    assert.equal(text(data.batch_results[2].plaintext), 'c');
    return true;
  });
  const partial = await vault.write(`transit/decrypt/${derived}`, { batch_input: input, partial_failure_response_code: 200 });
  assert.equal(text(partial.data.batch_results[0].plaintext), 'a');

  // rotate, rewrap, config, trim
  await vault.write(`transit/keys/${name}/rotate`, {});
  const re = (await vault.rewrapData({ name, ciphertext: enc.ciphertext })).data;
  assert.match(re.ciphertext, /^vault:v2:/);
  await vault.write(`transit/keys/${name}/config`, { min_decryption_version: '2', min_encryption_version: '2', deletion_allowed: 'true' });
  await fails(vault.decryptData({ name, ciphertext: enc.ciphertext }), 400, /disallowed by policy \(too old\)$/);
  await vault.write(`transit/keys/${name}/trim`, { min_available_version: 2 });
  assert.deepEqual(Object.keys((await vault.transitReadKey({ name })).data.keys), ['2']);

  // data key, random
  const dk = (await vault.write(`transit/datakey/plaintext/${name}`, { bits: '512' })).data;
  assert.equal(Buffer.from(dk.plaintext, 'base64').length, 64);
  assert.equal((await vault.decryptData({ name, ciphertext: dk.ciphertext })).data.plaintext, dk.plaintext);
  assert.equal((await vault.write(`transit/datakey/wrapped/${name}`, {})).data.plaintext, undefined);
  assert.match((await vault.write('transit/random/16', { format: 'hex' })).data.random_bytes, /^[0-9a-f]{32}$/);

  // tokens
  const me = (await vault.tokenLookupSelf()).data;
  assert.equal(me.id, vault.token);
  const { auth } = await vault.write('auth/token/create', { ttl: '1h', renewable: true }); // tokenCreate() would switch vault's own token
  assert.equal(auth.lease_duration, 3600);
  const child = nodeVault({ ...options, token: auth.client_token });
  assert.equal((await child.tokenRenewSelf({ increment: '1h' })).auth.renewable, true);
  await child.tokenRevokeSelf();
  await fails(child.tokenLookupSelf(), 403, /permission denied/);

  // delete
  await fails(vault.transitDeleteKey({ name: derived }), 400, /deletion is not allowed for this key/);
  await vault.write(`transit/keys/${derived}/config`, { deletion_allowed: true });
  for (const k of [name, derived]) await vault.transitDeleteKey({ name: k });
  await fails(vault.transitReadKey({ name }), 404);
  console.log('ok');
}

main().catch((e) => { console.error(e); process.exit(1); });
