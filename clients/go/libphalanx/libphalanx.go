// Package libphalanx protects files and messages with AES and SHA-3, by the C library of Phalanx. It needs that library and
// its header, which pkg-config finds under the name phalanx: crates/capi/README.md says how to install them.
//
//	key, err := libphalanx.KeyNamed("work")
//	ways := libphalanx.NewWays(key)
//	_, err = libphalanx.Protect("run42.h5", "run42.h5.phx", ways, nil)
//	file, err := libphalanx.Open("run42.h5.phx", ways)
//	n, err := file.ReadAt(part, 1<<20)
//
// Keys, ways and files may be used by several goroutines at once, and closed meanwhile: Close waits for calls that use them.
// They are wiped when they are closed or collected. Texts in Go's memory cannot be wiped.
package libphalanx

/*
#cgo pkg-config: phalanx
#include <phalanx.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Code says what kind of failure an Error is. The numbers are the exit codes of the command.
type Code int

const (
	// Other is any other failure.
	Other Code = C.PHALANX_OTHER
	// Usage is a wrong argument.
	Usage Code = C.PHALANX_USAGE
	// NotAuthentic is no whole, authentic Phalanx file or message for the keys at hand.
	NotAuthentic Code = C.PHALANX_NOT_AUTHENTIC
	// IO is a failure of input or output.
	IO Code = C.PHALANX_IO
)

// Error is why a call failed.
type Error struct {
	Code Code
	// Text is one line.
	Text string
	// Failed has the places of the messages that are not authentic.
	Failed []int
}

func (e *Error) Error() string { return "phalanx: " + e.Text }

// IsNotAuthentic says whether an error is one of what is not authentic for the keys at hand.
func IsNotAuthentic(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == NotAuthentic
}

// ErrClosed is the error of a closed file or key.
var ErrClosed = errors.New("phalanx: closed")

func failure(e *C.phalanx_error) error {
	if e == nil {
		return nil
	}
	defer C.phalanx_error_free(e)
	return &Error{Code: Code(C.phalanx_error_code(e)), Text: C.GoString(C.phalanx_error_text(e))}
}

// cString copies a string for C, which must be freed. C would take a string with a zero byte for a shorter one.
func cString(name, text string) (*C.char, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, &Error{Code: Usage, Text: name + " has a zero byte"}
	}
	return C.CString(text), nil
}

func free(text *C.char) { C.free(unsafe.Pointer(text)) }

// Version is that of the library.
func Version() string { return C.GoString(C.phalanx_version()) }

// Key is a secret key of 32 bytes.
type Key struct {
	lock sync.RWMutex
	c    *C.phalanx_key
}

func keep(c *C.phalanx_key, e *C.phalanx_error) (*Key, error) {
	if err := failure(e); err != nil {
		return nil, err
	}
	key := &Key{c: c}
	runtime.SetFinalizer(key, (*Key).Close)
	return key, nil
}

// NewKey makes a random key.
func NewKey() (*Key, error) {
	var c *C.phalanx_key
	e := C.phalanx_key_random(&c)
	return keep(c, e)
}

// KeyFromBytes takes a key of 32 bytes.
func KeyFromBytes(bytes []byte) (*Key, error) {
	if len(bytes) != 32 {
		return nil, &Error{Code: Usage, Text: fmt.Sprintf("a key has 32 bytes, not %d", len(bytes))}
	}
	var c *C.phalanx_key
	e := C.phalanx_key_from_bytes(pointer(bytes), &c)
	return keep(c, e)
}

// KeyNamed finds a key in the keyring.
func KeyNamed(name string) (*Key, error) {
	text, err := cString("name", name)
	if err != nil {
		return nil, err
	}
	defer free(text)
	var c *C.phalanx_key
	e := C.phalanx_key_named(text, &c)
	return keep(c, e)
}

// KeyFromFile reads a file of exactly 32 bytes, which only its owner may read.
func KeyFromFile(path string) (*Key, error) {
	text, err := cString("path", path)
	if err != nil {
		return nil, err
	}
	defer free(text)
	var c *C.phalanx_key
	e := C.phalanx_key_from_file(text, &c)
	return keep(c, e)
}

// ID is the key's public name in files.
func (k *Key) ID() (id [16]byte, err error) {
	err = k.use(func(c *C.phalanx_key) error { return failure(C.phalanx_key_id(c, (*C.uint8_t)(&id[0]))) })
	return id, err
}

// use calls with the key, which is not closed meanwhile.
func (k *Key) use(call func(*C.phalanx_key) error) error {
	if k == nil {
		return ErrClosed
	}
	k.lock.RLock()
	defer k.lock.RUnlock()
	if k.c == nil {
		return ErrClosed
	}
	return call(k.c)
}

// Close wipes the key.
func (k *Key) Close() error {
	k.lock.Lock()
	defer k.lock.Unlock()
	C.phalanx_key_free(k.c)
	k.c = nil
	runtime.SetFinalizer(k, nil)
	return nil
}

// Ways are the ways into files: what new ones are protected for, and what is tried on protected ones. Where a function
// takes no ways, files open by the keys of the keyring.
type Ways struct {
	lock sync.RWMutex
	c    *C.phalanx_ways
	err  error
}

// NewWays has these keys. Adding a way that is wrong makes all calls with these ways fail.
func NewWays(keys ...*Key) *Ways {
	ways := &Ways{}
	ways.err = failure(C.phalanx_ways_new(&ways.c))
	runtime.SetFinalizer(ways, (*Ways).Close)
	for _, key := range keys {
		ways.Key(key)
	}
	return ways
}

// Close wipes the ways.
func (w *Ways) Close() error {
	w.lock.Lock()
	defer w.lock.Unlock()
	C.phalanx_ways_free(w.c)
	w.c, w.err = nil, ErrClosed
	runtime.SetFinalizer(w, nil)
	return nil
}

// add changes the ways, unless a change before has failed.
func (w *Ways) add(call func() error) *Ways {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.err == nil {
		w.err = call()
	}
	return w
}

func (w *Ways) text(name, text string, call func(*C.char) *C.phalanx_error) *Ways {
	return w.add(func() error {
		c, err := cString(name, text)
		if err != nil {
			return err
		}
		defer free(c)
		return failure(call(c))
	})
}

// Key adds a key.
func (w *Ways) Key(key *Key) *Ways {
	return w.add(func() error {
		return key.use(func(c *C.phalanx_key) error { return failure(C.phalanx_ways_add_key(w.c, c)) })
	})
}

// Password sets the password.
func (w *Ways) Password(password []byte) *Ways {
	return w.add(func() error {
		return failure(C.phalanx_ways_set_password(w.c, pointer(password), C.size_t(len(password))))
	})
}

// Recipient adds a public key of age or SSH, for new files.
func (w *Ways) Recipient(recipient string) *Ways {
	return w.text("recipient", recipient, func(c *C.char) *C.phalanx_error { return C.phalanx_ways_add_recipient(w.c, c) })
}

// IdentityFile adds a file of identities of age, or of a private key of SSH, to open files with.
func (w *Ways) IdentityFile(path string) *Ways {
	return w.text("path", path, func(c *C.char) *C.phalanx_error { return C.phalanx_ways_add_identity_file(w.c, c) })
}

// Service adds the URI of a key service.
func (w *Ways) Service(uri string) *Ways {
	return w.text("uri", uri, func(c *C.char) *C.phalanx_error { return C.phalanx_ways_add_service(w.c, c) })
}

// use calls with the ways, which are not changed or closed meanwhile. No ways are null.
func (w *Ways) use(call func(*C.phalanx_ways) error) error {
	if w == nil {
		return call(nil)
	}
	w.lock.RLock()
	defer w.lock.RUnlock()
	if w.err != nil {
		return w.err
	}
	return call(w.c)
}

// Options say how a file is processed. The zero value, and nil, are the defaults.
type Options struct {
	// Cipher of new files: aes-256 (the default), aes-192, aes-128, aes-256-turbo or aes-256-gcm.
	Cipher string
	// ChunkSize of new files in bytes: a power of two from 4096 to 16777216. The default is 1048576.
	ChunkSize uint64
	// Overwrite makes an output replace an existing file.
	Overwrite bool
	// NoSync does not wait for the disk. A power cut can then lose the output.
	NoSync bool
}

func (o *Options) c() (*C.phalanx_options, error) {
	if o == nil {
		return nil, nil
	}
	var options *C.phalanx_options
	if err := failure(C.phalanx_options_new(&options)); err != nil {
		return nil, err
	}
	err := errors.Join(
		failure(C.phalanx_options_set_overwrite(options, C.bool(o.Overwrite))),
		failure(C.phalanx_options_set_sync(options, C.bool(!o.NoSync))))
	if o.Cipher != "" {
		cipher, wrong := cString("cipher", o.Cipher)
		if wrong == nil {
			defer free(cipher)
			wrong = failure(C.phalanx_options_set_cipher(options, cipher))
		}
		err = errors.Join(err, wrong)
	}
	if o.ChunkSize != 0 {
		err = errors.Join(err, failure(C.phalanx_options_set_chunk_size(options, C.uint64_t(o.ChunkSize))))
	}
	if err != nil {
		C.phalanx_options_free(options)
		return nil, err
	}
	return options, nil
}

// Protect protects a file, and returns the content's length. The output appears when it is complete and on the disk.
func Protect(input, output string, ways *Ways, options *Options) (uint64, error) {
	return transfer(input, output, ways, options, func(in, out *C.char, w *C.phalanx_ways, o *C.phalanx_options, n *C.uint64_t) *C.phalanx_error {
		return C.phalanx_protect(in, out, w, o, n)
	})
}

// Unprotect opens a protected file, and returns the content's length. The output appears when all of it is authentic and on
// the disk.
func Unprotect(input, output string, ways *Ways, options *Options) (uint64, error) {
	return transfer(input, output, ways, options, func(in, out *C.char, w *C.phalanx_ways, o *C.phalanx_options, n *C.uint64_t) *C.phalanx_error {
		return C.phalanx_unprotect(in, out, w, o, n)
	})
}

func transfer(input, output string, ways *Ways, options *Options,
	call func(in, out *C.char, w *C.phalanx_ways, o *C.phalanx_options, n *C.uint64_t) *C.phalanx_error) (uint64, error) {
	o, err := options.c()
	if err != nil {
		return 0, err
	}
	defer C.phalanx_options_free(o)
	in, err := cString("input", input)
	if err != nil {
		return 0, err
	}
	defer free(in)
	out, err := cString("output", output)
	if err != nil {
		return 0, err
	}
	defer free(out)
	var length C.uint64_t
	err = ways.use(func(w *C.phalanx_ways) error { return failure(call(in, out, w, o, &length)) })
	return uint64(length), err
}

// Verify checks every chunk of a protected file, writes nothing, and returns the content's length.
func Verify(path string, ways *Ways) (uint64, error) {
	in, err := cString("path", path)
	if err != nil {
		return 0, err
	}
	defer free(in)
	var length C.uint64_t
	err = ways.use(func(w *C.phalanx_ways) error { return failure(C.phalanx_verify(in, w, &length)) })
	return uint64(length), err
}

// File is a protected file that is open for reading by range. It is an io.ReaderAt: io.NewSectionReader reads it in order.
type File struct {
	lock sync.RWMutex
	c    *C.phalanx_reader
	size int64
}

// Open opens a protected file, and authenticates its length.
func Open(path string, ways *Ways) (*File, error) {
	in, err := cString("path", path)
	if err != nil {
		return nil, err
	}
	defer free(in)
	file := &File{}
	err = ways.use(func(w *C.phalanx_ways) error { return failure(C.phalanx_open(in, w, &file.c)) })
	if err != nil {
		return nil, err
	}
	file.size = int64(C.phalanx_size(file.c))
	runtime.SetFinalizer(file, (*File).Close)
	return file, nil
}

// Size is the length of the content. It is authentic.
func (f *File) Size() int64 { return f.size }

// ReadAt reads authentic bytes of the content. It returns io.EOF where the content ends before them.
func (f *File) ReadAt(part []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, &Error{Code: Usage, Text: "a negative offset"}
	}
	f.lock.RLock()
	defer f.lock.RUnlock()
	if f.c == nil {
		return 0, ErrClosed
	}
	var read C.size_t
	if err := failure(C.phalanx_read_at(f.c, C.uint64_t(offset), pointer(part), C.size_t(len(part)), &read)); err != nil {
		return 0, err
	}
	if int(read) < len(part) {
		return int(read), io.EOF
	}
	return int(read), nil
}

// Close wipes what the file holds.
func (f *File) Close() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	C.phalanx_close(f.c)
	f.c = nil
	runtime.SetFinalizer(f, nil)
	return nil
}

// UserKeys are the keys of many users, derived from one root key.
type UserKeys struct {
	lock sync.RWMutex
	c    *C.phalanx_user_keys
}

// NewUserKeys derives the keys of users from a root. The label says what they are for.
func NewUserKeys(root *Key, label string) (*UserKeys, error) {
	keys, bytes := &UserKeys{}, []byte(label)
	err := root.use(func(c *C.phalanx_key) error {
		return failure(C.phalanx_user_keys_new(c, pointer(bytes), C.size_t(len(bytes)), &keys.c))
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(keys, (*UserKeys).Close)
	return keys, nil
}

// Close wipes the keys.
func (u *UserKeys) Close() error {
	u.lock.Lock()
	defer u.lock.Unlock()
	C.phalanx_user_keys_free(u.c)
	u.c = nil
	runtime.SetFinalizer(u, nil)
	return nil
}

// Message is a message of a call. It is bound to its associated data, which are not stored.
type Message struct {
	// User is whose key is taken, where there are keys of users.
	User []byte
	AD   []byte
	// Text is the text to seal, or the sealed message to open.
	Text []byte
}

// SealMany seals messages on all cores, all under one key. A cipher of "" is aes-256.
func (k *Key) SealMany(cipher string, messages []Message) ([][]byte, error) {
	return k.many(cipher, messages, true)
}

// OpenMany opens sealed messages. If some are not authentic, the error has their places, and their texts are nil.
func (k *Key) OpenMany(cipher string, messages []Message) ([][]byte, error) {
	return k.many(cipher, messages, false)
}

func (k *Key) many(cipher string, messages []Message, seal bool) (results [][]byte, err error) {
	err = k.use(func(c *C.phalanx_key) (err error) {
		results, err = many(cipher, c, nil, messages, seal)
		return err
	})
	return results, err
}

// SealMany seals messages on all cores, each under the key of its user. A cipher of "" is aes-256.
func (u *UserKeys) SealMany(cipher string, messages []Message) ([][]byte, error) {
	return u.many(cipher, messages, true)
}

// OpenMany opens sealed messages. If some are not authentic, the error has their places, and their texts are nil.
func (u *UserKeys) OpenMany(cipher string, messages []Message) ([][]byte, error) {
	return u.many(cipher, messages, false)
}

func (u *UserKeys) many(cipher string, messages []Message, seal bool) ([][]byte, error) {
	u.lock.RLock()
	defer u.lock.RUnlock()
	if u.c == nil {
		return nil, ErrClosed
	}
	return many(cipher, nil, u.c, messages, seal)
}

func many(cipher string, key *C.phalanx_key, users *C.phalanx_user_keys, messages []Message, seal bool) ([][]byte, error) {
	var name *C.char
	if cipher != "" {
		text, err := cString("cipher", cipher)
		if err != nil {
			return nil, err
		}
		name = text
		defer free(name)
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	user := column(&pins, messages, func(m *Message) []byte { return m.User })
	ad := column(&pins, messages, func(m *Message) []byte { return m.AD })
	text := column(&pins, messages, func(m *Message) []byte { return m.Text })
	overhead, length := int(C.phalanx_overhead(name)), 0
	for _, message := range messages {
		length += len(message.Text)
	}
	count, results := C.size_t(len(messages)), make([][]byte, len(messages))
	if seal {
		out := make([]byte, length+overhead*len(messages))
		e := C.phalanx_seal_many(name, key, users, count, user, ad, text, pointer(out), C.size_t(len(out)))
		if err := failure(e); err != nil {
			return nil, err
		}
		for i, at := 0, 0; i < len(messages); i++ {
			end := at + len(messages[i].Text) + overhead
			results[i], at = out[at:end:end], end
		}
		return results, nil
	}
	out, failed := make([]byte, length), make([]byte, len(messages))
	err := failure(C.phalanx_open_many(name, key, users, count, user, ad, text, pointer(out), C.size_t(len(out)), pointer(failed)))
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Code != NotAuthentic) {
		return nil, err
	}
	for i, at := 0, 0; i < len(messages); i++ {
		end := at + len(messages[i].Text)
		if failed[i] == 0 {
			results[i] = out[at+overhead : end : end]
		} else {
			e.Failed = append(e.Failed, i)
		}
		at = end
	}
	return results, err
}

// column copies values one after another, as the library takes them.
func column(pins *runtime.Pinner, messages []Message, value func(*Message) []byte) C.phalanx_column {
	offsets := make([]C.uint64_t, 1, len(messages)+1)
	length := 0
	for i := range messages {
		length += len(value(&messages[i]))
		offsets = append(offsets, C.uint64_t(length))
	}
	bytes := make([]byte, 0, length)
	for i := range messages {
		bytes = append(bytes, value(&messages[i])...)
	}
	pins.Pin(&offsets[0])
	column := C.phalanx_column{offsets: &offsets[0]}
	if length > 0 {
		pins.Pin(&bytes[0])
		column.bytes = pointer(bytes)
	}
	return column
}

// pointer leads to the first byte, if there is one.
func pointer(bytes []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(bytes)) }
