#!/usr/bin/env python3
"""hvac against a Transit server: VAULT_ADDR, VAULT_TOKEN, VAULT_CACERT (hvac reads all three itself)."""
import base64
import os
import sys
import uuid

import hvac
from hvac import exceptions as ex

b64 = lambda s: base64.b64encode(s if isinstance(s, bytes) else s.encode()).decode()
unb64 = lambda s: base64.b64decode(s)


def raises(exc, fn, *args, contains=None, **kw):
    try:
        fn(*args, **kw)
    except exc as e:
        assert contains is None or contains in str(e), str(e)
        return e
    raise AssertionError(f"{exc.__name__} not raised")


def main():
    client = hvac.Client()  # env
    if os.environ.get("VAULT_TEST_STRICT_HTTP"):
        client = hvac.Client(strict_http=True)  # LIST as GET ?list=true
    assert client.is_authenticated()
    t = client.secrets.transit
    name, dname = f"py-{uuid.uuid4()}", f"py-derived.{uuid.uuid4()}"

    # health and seal status need no token
    assert client.sys.read_health_status().status_code == 200  # HEAD
    health = client.sys.read_health_status(method="GET")
    assert health["initialized"] is True and health["sealed"] is False and health["version"]
    assert client.sys.is_initialized() and not client.sys.is_sealed()
    assert client.seal_status["t"] >= 0
    assert "ha_enabled" in client.sys.read_leader_status()

    # keys: create, create again, list, read
    t.create_key(name)
    t.create_key(name)
    t.create_key(dname, derived=True, key_type="aes256-gcm96")
    keys = t.list_keys()["data"]["keys"]
    assert name in keys and dname in keys and keys == sorted(keys), keys
    key = t.read_key(name)["data"]
    assert key["type"] == "aes256-ctr-sha3" and key["latest_version"] == 1
    assert key["derived"] is False and key["deletion_allowed"] is False and key["exportable"] is False
    assert key["min_decryption_version"] == 1 and key["min_encryption_version"] == 0
    assert list(key["keys"]) == ["1"] and isinstance(key["keys"]["1"], int)
    dkey = t.read_key(dname)["data"]
    assert dkey["derived"] is True and dkey["kdf"] == "kmac256" and dkey["type"] == "aes256-gcm96" and dkey["convergent_encryption"] is False
    raises(ex.InvalidPath, t.read_key, "no-such-key")

    # encrypt and decrypt
    env = t.encrypt_data(name, plaintext=b64("hello"))
    assert {"request_id", "lease_id", "renewable", "lease_duration", "data", "wrap_info", "warnings", "auth"} <= set(env)
    ct = env["data"]["ciphertext"]
    assert ct.startswith("vault:v1:") and env["data"]["key_version"] == 1
    assert unb64(t.decrypt_data(name, ciphertext=ct)["data"]["plaintext"]) == b"hello"
    empty = t.encrypt_data(name, plaintext="")["data"]["ciphertext"]
    assert t.decrypt_data(name, ciphertext=empty)["data"]["plaintext"] == ""
    ad = t.encrypt_data(name, plaintext=b64("x"), associated_data=b64("aad"))["data"]["ciphertext"]
    assert t.decrypt_data(name, ciphertext=ad, associated_data=b64("aad"))["data"]["plaintext"] == b64("x")
    raises(ex.InvalidRequest, t.decrypt_data, name, ciphertext=ad, contains="message authentication failed")
    raises(ex.InvalidRequest, t.decrypt_data, name, ciphertext="garbage", contains="invalid ciphertext: no prefix")
    raises(ex.InvalidRequest, t.decrypt_data, name, ciphertext="vault:v9:" + b64("y" * 40), contains="version is too new")
    raises(ex.InvalidRequest, t.decrypt_data, "no-such-key", ciphertext=ct, contains="encryption key not found")
    raises(ex.InvalidRequest, t.encrypt_data, name, plaintext="%%%", contains="illegal base64 data")
    raises(ex.InvalidRequest, t.encrypt_data, dname, plaintext=b64("x"), contains="missing 'context' for key derivation")

    # batch with context; one item fails -> 400 whose body has data.batch_results and no errors
    ctx = b64("tenant-1")
    batch = t.encrypt_data(dname, batch_input=[
        {"plaintext": b64(f"item {i}"), "context": ctx, "reference": f"r{i}"} for i in range(3)])
    results = batch["data"]["batch_results"]
    assert [r["reference"] for r in results] == ["r0", "r1", "r2"]
    assert all(r["key_version"] == 1 and "error" not in r for r in results)
    items = [{"ciphertext": r["ciphertext"], "context": ctx, "reference": r["reference"]} for r in results]
    plain = t.decrypt_data(dname, batch_input=items)["data"]["batch_results"]
    assert [unb64(r["plaintext"]) for r in plain] == [b"item 0", b"item 1", b"item 2"]
    items[1]["ciphertext"] = "vault:v1:AAAA"
    e = raises(ex.InvalidRequest, t.decrypt_data, dname, batch_input=items)
    assert not e.errors and e.json["data"]["batch_results"][1]["error"] == "invalid ciphertext length", e.text
    assert unb64(e.json["data"]["batch_results"][2]["plaintext"]) == b"item 2"
    # unlike Vault, an item without context fails alone
    e = raises(ex.InvalidRequest, t.encrypt_data, dname, batch_input=[{"plaintext": "", "context": ctx}, {"plaintext": ""}])
    assert "missing 'context'" in e.json["data"]["batch_results"][1]["error"], e.text

    # rotate, rewrap
    t.rotate_key(name)
    assert t.read_key(name)["data"]["latest_version"] == 2
    re = t.rewrap_data(name, ciphertext=ct)["data"]
    assert re["ciphertext"].startswith("vault:v2:") and re["key_version"] == 2
    rb = t.rewrap_data(name, ciphertext=None, batch_input=[{"ciphertext": ct}, {"ciphertext": "bad"}])  # 200 even so
    assert rb["data"]["batch_results"][1]["error"] == "invalid ciphertext: no prefix"
    assert t.encrypt_data(name, plaintext=b64("x"), key_version=1)["data"]["ciphertext"].startswith("vault:v1:")

    # config, trim
    raises(ex.InvalidRequest, t.update_key_configuration, name, min_decryption_version=9,
           contains="cannot set min decryption version of 9, latest key version is 2")
    raises(ex.InvalidRequest, t.trim_key, name, min_version=2,
           contains="minimum available version cannot be set when minimum encryption version is not set")
    raises(ex.InvalidRequest, t.update_key_configuration, "no-such-key", deletion_allowed=True,
           contains="no existing key named no-such-key could be found")
    client.write_data(f"transit/keys/{name}/config", data={"min_decryption_version": 2, "min_encryption_version": 2})
    raises(ex.InvalidRequest, t.decrypt_data, name, ciphertext=ct, contains="disallowed by policy (too old)")
    t.trim_key(name, min_version=2)
    key = t.read_key(name)["data"]
    assert key["min_available_version"] == 2 and list(key["keys"]) == ["2"]

    # data keys
    dk = t.generate_data_key(name, key_type="plaintext", bits=128)["data"]
    assert len(unb64(dk["plaintext"])) == 16
    assert t.decrypt_data(name, ciphertext=dk["ciphertext"])["data"]["plaintext"] == dk["plaintext"]
    assert "plaintext" not in t.generate_data_key(dname, key_type="wrapped", context=ctx)["data"]

    # random
    assert len(unb64(t.generate_random_bytes()["data"]["random_bytes"])) == 32
    assert len(bytes.fromhex(t.generate_random_bytes(n_bytes=5, output_format="hex")["data"]["random_bytes"])) == 5
    raises(ex.InvalidRequest, t.generate_random_bytes, n_bytes=0, contains='"bytes" cannot be less than 1')

    # tokens
    me = client.auth.token.lookup_self()["data"]
    assert me["id"] == client.token and isinstance(me["policies"], list) and "ttl" in me and "accessor" in me
    assert client.auth.token.lookup(client.token)["data"]["accessor"] == me["accessor"]
    child = client.auth.token.create(ttl="1h", policies=["root"])["auth"]
    assert child["client_token"] and child["renewable"] is True and child["lease_duration"] == 3600
    sub = hvac.Client(token=child["client_token"])
    renewed = sub.auth.token.renew_self(increment="30m")["auth"]
    assert renewed["client_token"] == child["client_token"] and 1790 <= renewed["lease_duration"] <= 3600
    sub.auth.token.revoke_self()
    assert not sub.is_authenticated()
    raises(ex.Forbidden, hvac.Client(token="bad-token").secrets.transit.read_key, name, contains="permission denied")
    raises(ex.Forbidden, hvac.Client(token="").secrets.transit.read_key, name, contains="permission denied")

    # delete
    raises(ex.InvalidRequest, t.delete_key, name, contains="deletion is not allowed for this key")
    for k in (name, dname):
        t.update_key_configuration(k, deletion_allowed=True)
        assert t.delete_key(k).status_code == 204
    raises(ex.InvalidPath, t.read_key, name)
    print("ok")


if __name__ == "__main__":
    sys.exit(main())
