package libphalanx

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func key(t *testing.T) *Key {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func protected(t *testing.T, content []byte, ways *Ways) string {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	length, err := Protect(path, path+".phx", ways, &Options{Cipher: "aes-256-turbo", ChunkSize: 4096})
	if err != nil || length != uint64(len(content)) {
		t.Fatal(length, err)
	}
	return path + ".phx"
}

func TestFilesAreProtectedAndRead(t *testing.T) {
	content := make([]byte, 100_000)
	rand.Read(content)
	ways := NewWays(key(t))
	path := protected(t, content, ways)
	if length, err := Verify(path, ways); err != nil || length != 100_000 {
		t.Fatal(length, err)
	}
	if _, err := Unprotect(path, path+".again", ways, nil); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path + ".again"); err != nil || !bytes.Equal(again, content) {
		t.Fatal("other bytes", err)
	}
	file, err := Open(path, ways)
	if err != nil || file.Size() != 100_000 {
		t.Fatal(err)
	}
	// Many goroutines, and a collection meanwhile.
	var group sync.WaitGroup
	for at := int64(0); at < 100_000; at += 9_999 {
		group.Add(1)
		go func() {
			defer group.Done()
			part := make([]byte, 5_000)
			n, err := file.ReadAt(part, at)
			if !bytes.Equal(part[:n], content[at:at+int64(n)]) || (err != nil && err != io.EOF) {
				t.Error(at, n, err)
			}
		}()
	}
	runtime.GC()
	group.Wait()
	all, err := io.ReadAll(io.NewSectionReader(file, 0, file.Size()))
	if err != nil || !bytes.Equal(all, content) {
		t.Fatal("other bytes", err)
	}
	// Closed while others read, and twice.
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				if _, err := file.ReadAt(make([]byte, 5_000), 50_000); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		}()
	}
	file.Close()
	file.Close()
	group.Wait()
	if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestFailuresSayWhat(t *testing.T) {
	ways, others := NewWays(key(t)), NewWays(key(t))
	path := protected(t, []byte("content"), ways)
	if _, err := Verify(path, others); !IsNotAuthentic(err) {
		t.Fatal(err)
	}
	var e *Error
	if _, err := Verify("missing.phx", ways); !errors.As(err, &e) || e.Code != IO {
		t.Fatal(err)
	}
	if _, err := Protect(path, path+".twice", ways, nil); !errors.As(err, &e) || e.Code != IO {
		t.Fatal(err)
	}
	if _, err := Protect(path, path, ways, &Options{Cipher: "rot13"}); !errors.As(err, &e) || e.Code != Usage {
		t.Fatal(err)
	}
	if _, err := Verify(path, NewWays().Recipient("nobody")); !errors.As(err, &e) || e.Code != Usage {
		t.Fatal(err)
	}
	if _, err := KeyNamed("nobody"); !errors.As(err, &e) || e.Code != IO {
		t.Fatal(err)
	}
	if _, err := Protect(path, path+"\x00.phx", ways, nil); !errors.As(err, &e) || e.Code != Usage {
		t.Fatal(err)
	}
	if _, err := KeyFromBytes(make([]byte, 31)); !errors.As(err, &e) || e.Code != Usage {
		t.Fatal(err)
	}
}

func TestManyMessagesAreSealedAndOpened(t *testing.T) {
	users, err := NewUserKeys(key(t), "records")
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{User: []byte("ada"), AD: []byte("1"), Text: []byte("one")}, {User: []byte("bob")}, {User: []byte("eve"), Text: make([]byte, 5000)}}
	sealed, err := users.SealMany("", messages)
	if err != nil {
		t.Fatal(err)
	}
	toOpen := append([]Message(nil), messages...)
	for i := range toOpen {
		toOpen[i].Text = sealed[i]
	}
	opened, err := users.OpenMany("", toOpen)
	if err != nil {
		t.Fatal(err)
	}
	for i := range opened {
		if !bytes.Equal(opened[i], messages[i].Text) {
			t.Fatal(i, "other bytes")
		}
	}
	toOpen[1].User = []byte("mallory")
	opened, err = users.OpenMany("", toOpen)
	var e *Error
	if !errors.As(err, &e) || len(e.Failed) != 1 || e.Failed[0] != 1 || opened[1] != nil || string(opened[0]) != "one" {
		t.Fatal(opened, err)
	}
	one := key(t)
	if sealed, err = one.SealMany("aes-256-gcm", messages[:1]); err != nil || len(sealed[0]) != 3+28 {
		t.Fatal(err)
	}
	if none, err := one.SealMany("", nil); err != nil || len(none) != 0 {
		t.Fatal(none, err)
	}
}
