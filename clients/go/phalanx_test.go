package phalanx

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// stream is a file of vectors/streams.
type stream struct {
	Action  string `json:"action"`
	Records []struct{ Key, User, AD, Text string }
	Request string `json:"request"`
	Answers []struct {
		Status int
		Bytes  string
	}
	Answer string `json:"answer"`
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func vectors(t *testing.T, folder string, least int) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "vectors", folder, "*.json"))
	if err != nil || len(files) < least {
		t.Fatalf("only %d files: %v", len(files), err)
	}
	return files
}

func read(t *testing.T, file string, value any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, value)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func TestStreamsAreThoseOfTheVectors(t *testing.T) {
	for _, file := range vectors(t, "streams", 9) {
		var vector stream
		read(t, file, &vector)
		records := make([]Record, 0)
		for _, own := range vector.Records {
			records = append(records, Record{
				string(unhex(t, own.Key)), unhex(t, own.User), unhex(t, own.AD), unhex(t, own.Text),
			})
		}
		body, count, err := part(records)
		if err != nil || count != len(records) || !bytes.HasPrefix(unhex(t, vector.Request), body) {
			t.Errorf("%s: %d, %v", file, count, err)
		}
		results, err := split(unhex(t, vector.Answer), len(records))
		if (err == nil) != (len(vector.Answers) == len(records)) || len(results) != len(records) {
			t.Errorf("%s: %d, %v", file, len(results), err)
		}
		for i, result := range results {
			expected := vector.Answers[i]
			var refusal *Error
			if expected.Status == 0 {
				if result.Err != nil || !bytes.Equal(result.Bytes, unhex(t, expected.Bytes)) {
					t.Errorf("%s: record %d: %v", file, i, result)
				}
			} else if !errors.As(result.Err, &refusal) || refusal.Status != expected.Status {
				t.Errorf("%s: record %d: %v", file, i, result)
			}
		}
		// An answer that is cut anywhere is seen.
		answer := unhex(t, vector.Answer)
		for length := range answer {
			if _, err := split(answer[:length], len(records)); err == nil && len(records) > 0 {
				whole := 0
				for _, own := range vector.Answers[:len(records)] {
					whole += 8 + len(own.Bytes)/2
				}
				if length != whole {
					t.Errorf("%s: cut to %d", file, length)
				}
			}
		}
	}
}

func TestTextsAreThoseOfTheVectors(t *testing.T) {
	for _, file := range vectors(t, "server", 64) {
		var vector struct{ Ciphertext, Text string }
		read(t, file, &vector)
		if vector.Text == "" {
			continue
		}
		text, err := Text(unhex(t, vector.Ciphertext))
		if err != nil || text != vector.Text {
			t.Errorf("%s: %s, %v", file, text, err)
		}
		ciphertext, err := ParseText(text)
		if err != nil || !bytes.Equal(ciphertext, unhex(t, vector.Ciphertext)) {
			t.Errorf("%s: %x, %v", file, ciphertext, err)
		}
	}
	for _, text := range []string{"", "vault:v1", "vault:v1:", "vault:v0:AA==", "vault:v-1:AA==", "vault:v+1:AA==", "vault:v4294967296:AA==", "v1:AA==", "vault:v1:A"} {
		if _, err := ParseText(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"https://host:8200", "https://host/", "http://127.0.0.1:1", "http://[::1]:1", "unix:/a/b", "unix:///a"} {
		if _, err := Dial(address, nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"", "host:8200", "http://host:1", "http://127.0.0.2.example.org", "https://host/path", "ftp://localhost"} {
		if _, err := Dial(address, nil); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
}

func TestABusyServerIsAskedAgainAndNotForEver(t *testing.T) {
	var asked atomic.Int32
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		w.Write([]byte(`{"errors":["too many bytes are in flight"]}`))
	}))
	defer busy.Close()
	server, err := Dial(busy.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.Seal(context.Background(), []Record{{Key: "a"}})
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Status != 429 || !strings.Contains(err.Error(), "in flight") {
		t.Error(err)
	}
	if asked.Load() != 1+retries {
		t.Error(asked.Load())
	}
}

// dial reaches the server that PHALANX_SERVER_ADDRESS names, which has the keys "orders" and "log".
func dial(t *testing.T) *Server {
	t.Helper()
	address := os.Getenv("PHALANX_SERVER_ADDRESS")
	if address == "" {
		if strings.Contains(","+os.Getenv("PHALANX_REQUIRE")+",", ",phalanx-server,") {
			t.Fatal("no phalanx-server, and PHALANX_REQUIRE names it")
		}
		t.Skip("skipped: no phalanx-server")
	}
	server, err := Dial(address, &Options{Token: os.Getenv("PHALANX_SERVER_TOKEN")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func TestRecordsComeBack(t *testing.T) {
	server, ctx := dial(t), context.Background()
	records := make([]Record, 20_000)
	for i := range records {
		key := []string{"orders", "log"}[i%2]
		records[i] = Record{key, []byte{byte(i), byte(i >> 8), 1}, []byte("v1"), bytes.Repeat([]byte{byte(i)}, i%700)}
	}
	sealed, err := server.Seal(ctx, records)
	if err != nil || FirstError(sealed) != nil || len(sealed) != len(records) {
		t.Fatal(len(sealed), err, FirstError(sealed))
	}
	reopen := func(sealed []Result) {
		again := make([]Record, len(records))
		for i, record := range records {
			again[i] = Record{record.Key, record.User, record.AD, sealed[i].Bytes}
		}
		opened, err := server.Open(ctx, again)
		if err != nil || FirstError(opened) != nil {
			t.Fatal(err, FirstError(opened))
		}
		for i, result := range opened {
			if !bytes.Equal(result.Bytes, records[i].Text) {
				t.Fatal(i)
			}
		}
	}
	reopen(sealed)
	again := make([]Record, len(records))
	for i, record := range records {
		again[i] = Record{record.Key, record.User, record.AD, sealed[i].Bytes}
	}
	rewrapped, err := server.Rewrap(ctx, again)
	if err != nil {
		t.Fatal(err)
	}
	reopen(rewrapped)
}

func TestRefusalsAreThoseOfTheirRecords(t *testing.T) {
	server, ctx := dial(t), context.Background()
	results, err := server.Seal(ctx, []Record{{Key: "orders", User: []byte("ada"), Text: []byte("x")}, {Key: "none", User: []byte("ada")}})
	var refusal *Error
	if err != nil || results[0].Err != nil || !errors.As(results[1].Err, &refusal) || refusal.Status != 404 {
		t.Fatal(results, err)
	}
	if err := FirstError(results); err == nil || !strings.HasPrefix(err.Error(), "record 1: ") {
		t.Error(err)
	}
	opened, err := server.Open(ctx, []Record{{Key: "orders", User: []byte("bob"), Text: results[0].Bytes}})
	if err != nil || !errors.As(opened[0].Err, &refusal) || refusal.Status != 400 {
		t.Error(opened, err)
	}
	one := Record{Key: "orders", User: []byte("ada"), Text: []byte("x")}
	long := Record{Key: "orders", User: []byte("ada"), Text: make([]byte, 1<<20+1)}
	results, err = server.Seal(ctx, []Record{one, long, one})
	if err == nil || len(results) != 2 || results[0].Err != nil || !errors.As(results[1].Err, &refusal) || refusal.Status != 413 {
		t.Error(results, err)
	}
	if results, err = server.Seal(ctx, nil); err != nil || len(results) != 0 {
		t.Error(results, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	server := dial(t)
	var group sync.WaitGroup
	for worker := range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range 20 {
				text := []byte{byte(worker), byte(i)}
				sealed, err := server.Seal(context.Background(), []Record{{Key: "orders", User: text, Text: text}})
				if err != nil || FirstError(sealed) != nil {
					t.Error(err, FirstError(sealed))
					return
				}
				opened, err := server.Open(context.Background(), []Record{{Key: "orders", User: text, Text: sealed[0].Bytes}})
				if err != nil || !bytes.Equal(opened[0].Bytes, text) {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
}

func TestACancelledRequestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := dial(t).Seal(ctx, []Record{{Key: "orders", User: []byte("ada")}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
