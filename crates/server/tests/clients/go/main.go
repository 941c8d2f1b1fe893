// Vault's and OpenBao's Go API clients against a Transit server: VAULT_ADDR, VAULT_TOKEN, VAULT_CACERT.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	vault "github.com/hashicorp/vault/api"
	bao "github.com/openbao/openbao/api/v2"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func unb64(v any) string {
	b, err := base64.StdEncoding.DecodeString(v.(string))
	check(err)
	return string(b)
}

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func want(ok bool, format string, args ...any) {
	if !ok {
		log.Output(2, fmt.Sprintf(format, args...))
		os.Exit(1)
	}
}

// fails asserts that err is the API's answer with that status and message.
func fails(err error, status int, msg string) {
	re, ok := err.(*vault.ResponseError)
	if !ok || re.StatusCode != status || (msg == "" && len(re.Errors) != 0) ||
		(msg != "" && !strings.Contains(strings.Join(re.Errors, ", "), msg)) {
		log.Output(2, fmt.Sprintf("want %d %q, got %v", status, msg, err))
		os.Exit(1)
	}
}

func num(v any) int64 {
	n, err := v.(json.Number).Int64()
	check(err)
	return n
}

type m = map[string]any

func items(s *vault.Secret) []m {
	var out []m
	for _, r := range s.Data["batch_results"].([]any) {
		out = append(out, r.(m))
	}
	return out
}

func main() {
	log.SetFlags(log.Lshortfile)
	c, err := vault.NewClient(nil) // reads VAULT_ADDR, VAULT_TOKEN, VAULT_CACERT
	check(err)
	l, ctx := c.Logical(), context.Background()
	id := fmt.Sprint(time.Now().UnixNano())
	name, derived := "go-"+id, "go-derived-"+id

	// unauthenticated status
	h, err := c.Sys().Health()
	check(err)
	want(h.Initialized && !h.Sealed && h.Version != "", "health %+v", h)
	st, err := c.Sys().SealStatus()
	check(err)
	want(st.Initialized && !st.Sealed, "seal-status %+v", st)
	_, err = c.Sys().Leader()
	check(err)

	// keys: Write is a PUT, with nil data its body is "null"; List is GET ?list=true
	_, err = l.Write("transit/keys/"+name, nil)
	check(err)
	_, err = l.Write("transit/keys/"+derived, m{"derived": "true"})
	check(err)
	list, err := l.List("transit/keys/")
	check(err)
	want(slices.Contains(list.Data["keys"].([]any), any(name)), "list %v", list.Data)
	key, err := l.Read("transit/keys/" + name)
	check(err)
	want(key.Data["type"] == "aes256-ctr-sha3" && num(key.Data["latest_version"]) == 1 && key.Data["derived"] == false, "key %v", key.Data)
	none, err := l.Read("transit/keys/no-such-key")
	want(none == nil && err == nil, "absent key: %v %v", none, err)

	// encrypt and decrypt
	enc, err := l.WriteWithContext(ctx, "transit/encrypt/"+name, m{"plaintext": b64("hello")})
	check(err)
	ct := enc.Data["ciphertext"].(string)
	want(strings.HasPrefix(ct, "vault:v1:") && num(enc.Data["key_version"]) == 1 && enc.RequestID != "", "encrypt %+v", enc)
	dec, err := l.Write("transit/decrypt/"+name, m{"ciphertext": ct})
	check(err)
	want(unb64(dec.Data["plaintext"]) == "hello", "decrypt %v", dec.Data)
	_, err = l.Write("transit/decrypt/"+name, m{"ciphertext": "vault:v1:" + b64("0123456789abcdef0123456789abcdef")})
	fails(err, 400, "cipher: message authentication failed")
	_, err = l.Write("transit/encrypt/"+name, m{})
	fails(err, 400, "missing plaintext to encrypt")
	_, err = l.Write("transit/encrypt/"+derived, m{"plaintext": b64("x")})
	fails(err, 400, "missing 'context' for key derivation")

	// batch with context; one failing item makes it 400 unless partial_failure_response_code says otherwise
	tenant := b64("tenant")
	var in []m
	for _, s := range []string{"a", "b", "c"} {
		in = append(in, m{"plaintext": b64(s), "context": tenant, "reference": s})
	}
	res, err := l.Write("transit/encrypt/"+derived, m{"batch_input": in})
	check(err)
	var back []m
	for i, r := range items(res) {
		want(r["reference"] == in[i]["reference"] && num(r["key_version"]) == 1, "batch item %v", r)
		back = append(back, m{"ciphertext": r["ciphertext"], "context": tenant})
	}
	back[1]["ciphertext"] = "nonsense"
	_, err = l.Write("transit/decrypt/"+derived, m{"batch_input": back})
	fails(err, 400, "")
	part, err := l.Write("transit/decrypt/"+derived, m{"batch_input": back, "partial_failure_response_code": 202})
	check(err)
	out := items(part)
	want(out[1]["error"] == "invalid ciphertext: no prefix" && out[1]["plaintext"] == "" && unb64(out[2]["plaintext"]) == "c", "partial %v", out)

	// rotate, rewrap, config, trim
	_, err = l.Write("transit/keys/"+name+"/rotate", nil)
	check(err)
	re, err := l.Write("transit/rewrap/"+name, m{"ciphertext": ct})
	check(err)
	want(strings.HasPrefix(re.Data["ciphertext"].(string), "vault:v2:"), "rewrap %v", re.Data)
	_, err = l.Write("transit/keys/"+name+"/config", m{"min_decryption_version": "2", "min_encryption_version": 2, "auto_rotate_period": "0"})
	check(err)
	_, err = l.Write("transit/decrypt/"+name, m{"ciphertext": ct})
	fails(err, 400, "ciphertext or signature version is disallowed by policy (too old)")
	_, err = l.Write("transit/keys/"+name+"/trim", m{"min_available_version": 2})
	check(err)
	key, err = l.Read("transit/keys/" + name)
	check(err)
	want(num(key.Data["min_available_version"]) == 2 && len(key.Data["keys"].(m)) == 1, "key %v", key.Data)

	// data key, random
	dk, err := l.Write("transit/datakey/plaintext/"+name, m{"bits": "256"})
	check(err)
	dec, err = l.Write("transit/decrypt/"+name, m{"ciphertext": dk.Data["ciphertext"]})
	check(err)
	want(len(unb64(dk.Data["plaintext"])) == 32 && dec.Data["plaintext"] == dk.Data["plaintext"], "data key")
	_, err = l.Write("transit/datakey/wrapped/"+name, m{"bits": 100})
	fails(err, 400, "invalid bit length")
	rnd, err := l.Write("transit/random/platform/24", nil)
	check(err)
	want(len(unb64(rnd.Data["random_bytes"])) == 24, "random %v", rnd.Data)

	// tokens
	me, err := c.Auth().Token().LookupSelf()
	check(err)
	tok, err := me.TokenID()
	check(err)
	want(tok == c.Token(), "lookup-self id %q", tok)
	child, err := c.Auth().Token().Create(&vault.TokenCreateRequest{TTL: "1h", Policies: []string{"root"}})
	check(err)
	cc, err := c.Clone()
	check(err)
	cc.SetToken(child.Auth.ClientToken)
	ren, err := cc.Auth().Token().RenewSelf(3600)
	check(err)
	want(ren.Auth != nil && ren.Auth.Renewable && ren.Auth.LeaseDuration > 3590, "renew-self %+v", ren.Auth)
	check(cc.Auth().Token().RevokeSelf(""))
	_, err = cc.Auth().Token().LookupSelf()
	fails(err, 403, "permission denied")

	// delete
	_, err = l.Delete("transit/keys/" + name)
	fails(err, 400, "deletion is not allowed for this key")
	for _, k := range []string{name, derived} {
		_, err = l.Write("transit/keys/"+k+"/config", m{"deletion_allowed": true})
		check(err)
		_, err = l.Delete("transit/keys/" + k)
		check(err)
	}

	openbao(name)
	fmt.Println("ok")
}

// openbao does the round trip once more with OpenBao's client, which reads BAO_* and then VAULT_* variables.
func openbao(name string) {
	c, err := bao.NewClient(bao.DefaultConfig())
	check(err)
	l := c.Logical()
	h, err := c.Sys().Health()
	check(err)
	want(!h.Sealed, "bao health")
	_, err = l.Write("transit/keys/"+name, nil)
	check(err)
	enc, err := l.Write("transit/encrypt/"+name, m{"plaintext": b64("bao")})
	check(err)
	dec, err := l.Write("transit/decrypt/"+name, m{"ciphertext": enc.Data["ciphertext"]})
	check(err)
	want(unb64(dec.Data["plaintext"]) == "bao", "bao decrypt")
	list, err := l.List("transit/keys")
	check(err)
	want(slices.Contains(list.Data["keys"].([]any), any(name)), "bao list")
	_, err = c.Auth().Token().LookupSelf()
	check(err)
	_, err = l.Write("transit/keys/"+name+"/config", m{"deletion_allowed": true})
	check(err)
	_, err = l.Delete("transit/keys/" + name)
	check(err)
}
