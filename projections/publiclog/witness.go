package publiclog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
)

// A Witness keeps, for others, the size of this log that it saw last, and cosigns only
// what continues it: a log that shows two histories needs witnesses that lie with it.
// It is asked by the protocol of C2SP tlog-witness.
type Witness struct {
	Key    note.Verifier // of its cosignatures
	URL    string        // its submission prefix
	Client *http.Client  // nil: [http.DefaultClient]
}

const (
	witnessTimeout = 5 * time.Second
	witnessAnswer  = 16 << 10 // far more than a line for each of its keys
)

func (w Witness) id() string { return fmt.Sprintf("%s+%08x", w.Key.Name(), w.Key.KeyHash()) }

// A sizeError is the answer of a witness that knows another size of the log than it
// was told.
type sizeError struct{ size uint64 }

func (e *sizeError) Error() string { return fmt.Sprintf("it has seen %d leaves", e.size) }

// addCheckpoint asks the witness for its cosignature on a checkpoint, given the proof
// that it continues the tree of old leaves.
func (w Witness) addCheckpoint(ctx context.Context, old uint64, proof []domain.Hash, signed []byte) ([]byte, error) {
	body := fmt.Appendf(nil, "old %d\n", old)
	for _, h := range proof {
		body = append(base64.StdEncoding.AppendEncode(body, h[:]), '\n')
	}
	body = append(append(body, '\n'), signed...)
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(w.URL, "/")+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	client := http.DefaultClient
	if w.Client != nil {
		client = w.Client
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, domain.ErrUnavailable)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, witnessAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, domain.ErrUnavailable)
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return answer, nil
	case resp.StatusCode == http.StatusConflict && resp.Header.Get("Content-Type") == "text/x.tlog.size":
		size, err := strconv.ParseUint(strings.TrimSpace(string(answer)), 10, 64)
		if err != nil || size > checkpoint.MaxSize {
			return nil, fmt.Errorf("it answers %d with a size that is none: %w", resp.StatusCode, domain.ErrUnavailable)
		}
		return nil, &sizeError{size}
	}
	return nil, fmt.Errorf("it answers %s: %w", resp.Status, domain.ErrUnavailable)
}

// ParseWitnesses reads a list of witnesses and how many of them must cosign a
// checkpoint before it is published. Each line is the vkey of a witness and its URL,
// and one may say how many: "quorum 2". Without it none must. Empty lines and those
// that begin with # mean nothing. It returns [domain.ErrInvalid] and names the line of
// a mistake.
func ParseWitnesses(r io.Reader) (list []Witness, quorum int, err error) {
	lines := bufio.NewScanner(r)
	seen := make(map[string]bool)
	quorum = -1
	for n := 1; lines.Scan(); n++ {
		wrong := func(why string) ([]Witness, int, error) {
			return nil, 0, fmt.Errorf("line %d of the witnesses: %s: %w", n, why, domain.ErrInvalid)
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return wrong("it must be a key and a URL, or quorum and a number")
		}
		if fields[0] == "quorum" {
			k, err := strconv.ParseUint(fields[1], 10, 8)
			if err != nil || quorum >= 0 {
				return wrong("one quorum, a number of witnesses")
			}
			quorum = int(k)
			continue
		}
		key, err := checkpoint.NewWitness(fields[0])
		if err != nil {
			return wrong(domain.Sentence(err))
		}
		u, err := url.Parse(fields[1])
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return wrong("its URL must be an absolute http(s) URL")
		}
		w := Witness{Key: key, URL: fields[1]}
		if seen[w.id()] {
			return wrong("this witness is listed before") // it would count twice
		}
		seen[w.id()] = true
		list = append(list, w)
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("read the witnesses: %w", err)
	}
	if quorum > len(list) {
		return nil, 0, fmt.Errorf("%d witnesses must cosign, and %d are listed: %w", quorum, len(list), domain.ErrInvalid)
	}
	return list, max(quorum, 0), nil
}
