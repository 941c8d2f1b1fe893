// Package phalanx is a client of phalanx-server: records of many users in one request, over /v2. The format is that of
// docs/server-format.md. It needs nothing but the standard library, so this file can be copied into a project.
//
//	server, err := phalanx.Dial("unix:/run/phalanx/server.sock", nil)
//	sealed, err := server.Seal(ctx, []phalanx.Record{{Key: "orders", User: []byte("ada"), Text: []byte("one")}})
//	opened, err := server.Open(ctx, []phalanx.Record{{Key: "orders", User: []byte("ada"), Text: sealed[0].Bytes}})
package phalanx

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// A request is cut so that the server takes all of it before the first answer must be read.
	requestCost = 4 << 20
	// What a record counts as beside its bytes.
	overhead = 256
	// How often, and how long at most, a server that has too much to do is waited for.
	retries     = 5
	longestWait = 10 * time.Second
	// The most bytes of a reason that are read.
	mostReason = 64 << 10
)

// Record is a record of a request.
type Record struct {
	// Key is the name of the key.
	Key string
	// User is the user, or nothing if the key needs none.
	User []byte
	// AD is data to which the ciphertext is bound, and which is not in it.
	AD []byte
	// Text is the text to seal, or the ciphertext to open or to rewrap.
	Text []byte
}

// Result is what became of a record.
type Result struct {
	// Bytes is the ciphertext, or the text.
	Bytes []byte
	// Err is an *Error if the record was refused, and nil otherwise.
	Err error
}

// Error is a refusal of the server.
type Error struct {
	// Status is the status of HTTP that the refusal has: 403 without the right, 400 if a ciphertext is not authentic,
	// 0 if the server did not answer as it should.
	Status int
	// Reason is a line that says why.
	Reason string
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return "phalanx: " + e.Reason
	}
	return fmt.Sprintf("phalanx: %s (status %d)", e.Reason, e.Status)
}

// Options are how to reach a server. The zero value is right for a Unix socket of the server's own user.
type Options struct {
	// Token is the caller's token.
	Token string
	// TLS has the certificates to trust, and the client's own one. Without it, those of the system are trusted.
	TLS *tls.Config
	// Timeout is how long a request may take. It is a minute if it is 0.
	Timeout time.Duration
}

// Server is a client of a server. Any number of goroutines may use it at the same time.
type Server struct {
	client *http.Client
	base   string
	token  string
}

// Dial returns a client for an address: unix:/path, https://host:port, or http://localhost:port for this machine only. It
// does not connect yet.
func Dial(address string, options *Options) (*Server, error) {
	if options == nil {
		options = &Options{}
	}
	transport := &http.Transport{TLSClientConfig: options.TLS, DisableCompression: true, IdleConnTimeout: 20 * time.Second}
	base := strings.TrimSuffix(address, "/")
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		path = strings.TrimPrefix(path, "//")
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		base = "http://localhost"
	} else if err := check(base); err != nil {
		return nil, err
	}
	timeout := options.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	client := &http.Client{
		Transport: transport,
		Timeout:   timeout,
		// A token must not follow to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Server{client, base, options.Token}, nil
}

func check(address string) error {
	where, err := url.Parse(address)
	if err != nil || where.Host == "" || where.Path != "" || where.RawQuery != "" {
		return errors.New("phalanx: an address is unix:/path, https://host:port, or http://localhost:port")
	}
	host := where.Hostname()
	isHere := host == "localhost" || host == "127.0.0.1" || host == "::1"
	if where.Scheme != "https" && !(where.Scheme == "http" && isHere) {
		return errors.New("phalanx: texts leave this machine only by https://")
	}
	return nil
}

// Close closes the connections that are idle.
func (s *Server) Close() { s.client.CloseIdleConnections() }

// Seal seals texts. There is a result for each record, in the same order. The error is about the request as a whole, and
// those results that came before it are there all the same; a record's own refusal is in its result.
func (s *Server) Seal(ctx context.Context, records []Record) ([]Result, error) {
	return s.all(ctx, "/v2/seal", records)
}

// Open opens ciphertexts. Everything else is as in Seal.
func (s *Server) Open(ctx context.Context, records []Record) ([]Result, error) {
	return s.all(ctx, "/v2/open", records)
}

// Rewrap seals again what is sealed, under the newest version of its key. Everything else is as in Seal.
func (s *Server) Rewrap(ctx context.Context, records []Record) ([]Result, error) {
	return s.all(ctx, "/v2/rewrap", records)
}

// FirstError returns the first refusal of a record, with its place, or nil.
func FirstError(results []Result) error {
	for i, result := range results {
		if result.Err != nil {
			return fmt.Errorf("record %d: %w", i, result.Err)
		}
	}
	return nil
}

// Text returns the form of a ciphertext under /v1: vault:v1:…
func Text(ciphertext []byte) (string, error) {
	if len(ciphertext) < 5 {
		return "", errors.New("phalanx: a ciphertext is longer")
	}
	version := binary.LittleEndian.Uint32(ciphertext)
	return fmt.Sprintf("vault:v%d:%s", version, base64.StdEncoding.EncodeToString(ciphertext[4:])), nil
}

// ParseText returns the form of a ciphertext under /v2, from vault:v1:…
func ParseText(text string) ([]byte, error) {
	rest, isVault := strings.CutPrefix(text, "vault:v")
	digits, encoded, hasTwo := strings.Cut(rest, ":")
	version, err := strconv.ParseUint(digits, 10, 32)
	if !isVault || !hasTwo || err != nil || version == 0 || encoded == "" {
		return nil, errors.New("phalanx: it does not begin with vault:v and a version")
	}
	message, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("phalanx: %w", err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(version)), message...), nil
}

func (s *Server) all(ctx context.Context, path string, records []Record) ([]Result, error) {
	results := make([]Result, 0, len(records))
	for len(records) > 0 {
		body, count, err := part(records)
		if err != nil {
			return results, err
		}
		answer, err := s.request(ctx, path, body)
		if err != nil {
			return results, err
		}
		own, err := split(answer, count)
		results = append(results, own...)
		if err != nil {
			return results, err
		}
		records = records[count:]
	}
	return results, nil
}

// part returns the first records as the body of a request, and how many they are.
func part(records []Record) ([]byte, int, error) {
	cost, count := 0, 0
	for _, record := range records {
		own := 12 + len(record.Key) + len(record.User) + len(record.AD) + len(record.Text) + overhead
		if count > 0 && cost+own > requestCost {
			break
		}
		cost, count = cost+own, count+1
	}
	body := make([]byte, 0, cost-count*overhead)
	for _, record := range records[:count] {
		if len(record.Key) > 0xffff || len(record.User) > 0xffff || cost > 0x7fffffff {
			return nil, 0, errors.New("phalanx: a part of a record is too long")
		}
		body = binary.LittleEndian.AppendUint16(body, uint16(len(record.Key)))
		body = binary.LittleEndian.AppendUint16(body, uint16(len(record.User)))
		body = binary.LittleEndian.AppendUint32(body, uint32(len(record.AD)))
		body = binary.LittleEndian.AppendUint32(body, uint32(len(record.Text)))
		body = append(body, record.Key...)
		body = append(body, record.User...)
		body = append(body, record.AD...)
		body = append(body, record.Text...)
	}
	return body, count, nil
}

// split returns the results of so many records.
func split(answer []byte, count int) ([]Result, error) {
	malformed := &Error{Reason: "the server's answer is malformed"}
	results := make([]Result, 0, count)
	for len(answer) > 0 {
		if len(answer) < 8 || answer[2] != 0 || answer[3] != 0 {
			return results, malformed
		}
		status := int(binary.LittleEndian.Uint16(answer))
		length := uint64(binary.LittleEndian.Uint32(answer[4:]))
		answer = answer[8:]
		if length > uint64(len(answer)) {
			return results, malformed
		}
		own := answer[:length:length]
		answer = answer[length:]
		if len(results) == count {
			// One more than there are records is about the stream.
			return results, &Error{status, "the server broke the answer off: " + string(own)}
		}
		if status == 0 {
			results = append(results, Result{Bytes: own})
		} else {
			results = append(results, Result{Err: &Error{status, string(own)}})
		}
	}
	if len(results) < count {
		reason := "the server broke the answer off"
		if last := len(results) - 1; last >= 0 && results[last].Err != nil {
			reason += ": " + results[last].Err.(*Error).Reason
		}
		return results, &Error{Reason: reason}
	}
	return results, nil
}

// request returns the body of the answer. While the server has too much to do, it is asked again, but not for ever.
func (s *Server) request(ctx context.Context, path string, body []byte) ([]byte, error) {
	for left := retries; ; left-- {
		answer, wait, err := s.once(ctx, path, body)
		if wait < 0 || left == 0 {
			return answer, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// once returns the answer, and how long to wait before the server may be asked again, or less than 0.
func (s *Server) once(ctx context.Context, path string, body []byte) ([]byte, time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, -1, err
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	// It changes nothing to seal or open twice, so a request may be sent again if an idle connection turns out to be closed.
	request.Header["Idempotency-Key"] = []string{}
	if s.token != "" {
		request.Header.Set("X-Vault-Token", s.token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, -1, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		answer, err := io.ReadAll(response.Body)
		return answer, -1, err
	}
	reason, _ := io.ReadAll(io.LimitReader(response.Body, mostReason))
	refusal := &Error{response.StatusCode, "the server refuses the request: " + errorOf(reason)}
	return nil, wait(response), refusal
}

func wait(response *http.Response) time.Duration {
	isBusy := response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable
	seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 32)
	if !isBusy || err != nil {
		return -1
	}
	return min(time.Duration(seconds)*time.Second, longestWait)
}

// errorOf returns what an error in JSON says.
func errorOf(body []byte) string {
	var value struct {
		Errors []string `json:"errors"`
	}
	if json.Unmarshal(body, &value) != nil || len(value.Errors) == 0 {
		return "no reason is given"
	}
	return strings.Join(value.Errors, "; ")
}
