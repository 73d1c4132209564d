package verify

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/shop"
)

// This file is the format of a bundle: public records with the proofs that they stand
// in the log, and the bytes beside the log that they commit to, so that slots and days
// can be checked with nothing else at hand. It is one JSON object in the form of
// RFC 8785, and a line feed:
//
//	checkpoint  of the log, with the signature of the log alone (C2SP tlog-checkpoint)
//	commits     {batch, commit, index, path}, by batch and index: path is that of a commit
//	            of a slot, or of the root of a seal, to the root of the batch
//	documents   JSON values whose SHA-256 a consent names: its terms, its pool of
//	            identities
//	format      "karatum/ledger/bundle/v1"
//	key         the vkey of the log (C2SP signed-note)
//	records     {index, path, prevHash, record}, by index: path is that of RFC 6962
//	            to the root of the checkpoint, record is canonical
//	replies     {body, salt, shop}, one at most for each slot that is revealed and got
//	            one; body is base64
//	sessions    {salt, session, shop}, one at most for each slot that is revealed and has
//	            one on record
//
// There is no other byte in it. So a bundle in which a single one was changed is not
// the bundle any more that it was: what is changed is hashed, part of a proof or
// signed, or makes the whole another JSON than the one it is read as.

// bundleFormat names the format and its version.
const bundleFormat = "karatum/ledger/bundle/v1"

// A bundle is what a bundle holds, as it stands there.
type bundle struct {
	Checkpoint string            `json:"checkpoint"`
	Commits    []Rolled          `json:"commits"`
	Documents  []json.RawMessage `json:"documents"`
	Format     string            `json:"format"`
	Key        string            `json:"key"`
	Records    []Proven          `json:"records"`
	Replies    []Reply           `json:"replies"`
	Sessions   []Conversation    `json:"sessions"`
}

// A Proven is a record of the public log with its proof.
type Proven struct {
	Index  uint64        `json:"index"`
	Path   []domain.Hash `json:"path"`
	Prev   domain.Hash   `json:"prevHash"`
	Record ledger.Record `json:"record"`
}

// canonical returns the canonical form of p. It is that of its record with little around it,
// and most of a bundle, so it is not encoded as anything else is.
func (p *Proven) canonical() ([]byte, error) {
	const exact = 1 << 53 // up to which whole numbers are written as such
	if p.Path == nil || p.Index > exact {
		return domain.Canonical(p)
	}
	const hashed = 2*len(domain.Hash{}) + len(`"",`)
	dst := make([]byte, 0, 1<<10+len(p.Path)*hashed+len(p.Record.Data))
	dst = strconv.AppendUint(append(dst, provenIndex...), p.Index, 10)
	dst = append(dst, provenPath...)
	for i := range p.Path {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(hex.AppendEncode(append(dst, '"'), p.Path[i][:]), '"')
	}
	dst = hex.AppendEncode(append(dst, provenPrev...), p.Prev[:])
	dst = p.Record.AppendCanonical(append(dst, provenRecord...))
	return append(dst, '}'), nil
}

// What stands between the parts of a record with its proof.
const (
	provenIndex  = `{"index":`
	provenPath   = `,"path":[`
	provenPrev   = `],"prevHash":"`
	provenRecord = `","record":`
)

// cut reads what data begins with and returns what stands behind it, if that is as canonical
// writes it. What is wrong with it otherwise, if anything is, it cannot say.
func (p *Proven) cut(data []byte) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(data, []byte(provenIndex))
	digits := len(rest) - len(bytes.TrimLeft(rest, "0123456789"))
	index, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	if !ok || err != nil {
		return nil, false
	}
	p.Index, p.Path = index, []domain.Hash{}
	if rest, ok = bytes.CutPrefix(rest[digits:], []byte(provenPath)); !ok {
		return nil, false
	}
	for len(rest) > 0 && rest[0] != ']' {
		var hash domain.Hash
		if rest, ok = cutHash(bytes.TrimPrefix(rest, []byte(",")), `"`, &hash); !ok || len(rest) == 0 || rest[0] != '"' {
			return nil, false
		}
		p.Path, rest = append(p.Path, hash), rest[1:]
	}
	if rest, ok = cutHash(rest, provenPrev, &p.Prev); !ok {
		return nil, false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(provenRecord)); !ok {
		return nil, false
	}
	if rest, ok = p.Record.CutCanonical(rest); !ok {
		return nil, false
	}
	return bytes.CutPrefix(rest, []byte("}"))
}

// cutHash reads the hash that stands behind some text.
func cutHash(data []byte, behind string, hash *domain.Hash) (rest []byte, ok bool) {
	const digits = 2 * len(domain.Hash{})
	if rest, ok = bytes.CutPrefix(data, []byte(behind)); !ok || len(rest) < digits {
		return nil, false
	}
	return rest[digits:], hash.UnmarshalText(rest[:digits]) == nil
}

// A Reply is what a slot's replied record commits to.
type Reply struct {
	Body []byte      `json:"body"`
	Salt domain.Hash `json:"salt"`
	Shop string      `json:"shop"`
}

// A Conversation is what the session records of a slot commit to.
type Conversation struct {
	Salt    domain.Hash  `json:"salt"`
	Session shop.Session `json:"session"`
	Shop    string       `json:"shop"`
}

// A BundleWriter writes a bundle piece by piece: first all records by index, then the
// replies, then the sessions.
type BundleWriter struct {
	w      io.Writer
	err    error
	list   int  // the one that is being written
	listed bool // something stands in it
}

// lists are those of a bundle that are written piece by piece.
var lists = []string{"records", "replies", "sessions"}

// NewBundleWriter begins a bundle as of a signed checkpoint of the log with the given
// vkey. Commits, in any order, stand in batches whose records are to follow. It returns
// [domain.ErrInvalid] if the log has not signed it.
func NewBundleWriter(w io.Writer, signed []byte, vkey string, documents [][]byte, commits []Rolled) (*BundleWriter, error) {
	log, err := checkpoint.NewLog(vkey)
	if err != nil {
		return nil, err
	}
	bare, err := checkpoint.Bare(signed, log)
	if err != nil {
		return nil, err
	}
	head := bundle{
		Checkpoint: string(bare), Commits: slices.SortedFunc(slices.Values(commits), inOrder), Documents: []json.RawMessage{},
		Format: bundleFormat, Key: vkey,
	}
	if head.Commits == nil {
		head.Commits = []Rolled{}
	}
	for _, d := range documents {
		head.Documents = append(head.Documents, d)
	}
	return head.writer(w)
}

// writer begins to write b. All but its lists that are written piece by piece is written.
func (b *bundle) writer(w io.Writer) (*BundleWriter, error) {
	head := *b
	head.Records, head.Replies, head.Sessions = []Proven{}, nil, nil
	text, err := domain.Canonical(head)
	if err != nil {
		return nil, err
	}
	begin, _, _ := bytes.Cut(text, []byte(`],"replies":`)) // records are behind what is not a list
	out := &BundleWriter{w: w}
	out.write(begin)
	return out, out.err
}

// inOrder compares the places of commits.
func inOrder(a, b Rolled) int {
	return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Index, b.Index))
}

// Record writes the next record.
func (b *BundleWriter) Record(p Proven) error {
	text, err := p.canonical()
	return b.item(0, text, err)
}

// Reply writes the next reply.
func (b *BundleWriter) Reply(r Reply) error {
	text, err := domain.Canonical(r)
	return b.item(1, text, err)
}

// Conversation writes the next session.
func (b *BundleWriter) Conversation(c Conversation) error {
	text, err := domain.Canonical(c)
	return b.item(2, text, err)
}

// Close ends the bundle.
func (b *BundleWriter) Close() error {
	b.turn(len(lists) - 1)
	b.write([]byte("]}\n"))
	return b.err
}

// turn goes on to a list.
func (b *BundleWriter) turn(list int) {
	for b.list < list {
		b.list++
		b.listed = false
		b.write([]byte(`],"` + lists[b.list] + `":[`))
	}
}

func (b *BundleWriter) item(list int, text []byte, err error) error {
	if err != nil {
		return err
	}
	b.turn(list)
	if b.listed {
		b.write([]byte(","))
	}
	b.listed = true
	b.write(text)
	return b.err
}

func (b *BundleWriter) write(p []byte) {
	if b.err == nil {
		_, b.err = b.w.Write(p)
	}
}

// OpenBundle reads a bundle and checks that everything in it stands in the log, or is
// committed to by what does. Anything else is an [ErrFailed]: whoever made it, it is
// no bundle of the log that it names. Whether that is the log one means, its key says.
func OpenBundle(data []byte) (*Excerpt, error) {
	x, err := openBundle(data)
	if err != nil {
		return nil, fmt.Errorf("the bundle does not hold: %w: %w", err, ErrFailed)
	}
	return x, nil
}

func openBundle(data []byte) (*Excerpt, error) {
	var b bundle
	if err := b.read(data); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	if b.Format != bundleFormat {
		return nil, bad("its format is %.40q, and this program reads %s", b.Format, bundleFormat)
	}
	c, err := b.open()
	if err != nil {
		return nil, err
	}
	x := newExcerpt(c, b.Key)
	for i := range b.Records {
		p := &b.Records[i]
		if i > 0 && p.Index <= b.Records[i-1].Index {
			return nil, bad("record %d stands behind record %d", p.Index, b.Records[i-1].Index)
		}
		p.Record.Hash = p.Record.ChainHash(p.Prev)
		if err := merkle.VerifyPath(p.Record.Hash, p.Index, c.Size, p.Path, c.Root); err != nil {
			return nil, fmt.Errorf("record %d is not in the log: %w", p.Index, err)
		}
		if err := x.add(p); err != nil {
			return nil, fmt.Errorf("record %d: %w", p.Index, err)
		}
	}
	for i := range b.Commits {
		c := &b.Commits[i]
		if i > 0 && inOrder(b.Commits[i-1], *c) >= 0 {
			return nil, bad("the commits are not in the order of their places")
		}
		if err := x.addCommit(c); err != nil {
			return nil, err
		}
	}
	for i := range b.Replies {
		if err := x.addReply(&b.Replies[i]); err != nil {
			return nil, err
		}
	}
	for i := range b.Sessions {
		if err := x.addSession(&b.Sessions[i]); err != nil {
			return nil, err
		}
	}
	for i, d := range b.Documents {
		if err := x.addDocument(d); err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
	}
	return x, b.written(data)
}

// read reads a bundle. Its records, if they are written as they should be, are read by
// themselves, and the rest as any JSON is; that all of it has its one form is seen by
// writing it again.
func (b *bundle) read(data []byte) error {
	const begin = `"records":[`
	if at := bytes.Index(data, []byte(begin)); at >= 0 {
		at += len(begin)
		if list, rest, ok := cutProven(data[at:]); ok && domain.Unmarshal(slices.Concat(data[:at], rest), b) == nil && len(b.Records) == 0 {
			b.Records = list
			return nil
		}
	}
	*b = bundle{}
	return domain.Unmarshal(data, b)
}

// cutProven reads records up to the end of their list, and returns that and what is behind.
func cutProven(data []byte) (list []Proven, rest []byte, ok bool) {
	list, rest = []Proven{}, data
	for len(rest) > 0 && rest[0] != ']' {
		var p Proven
		if rest, ok = p.cut(rest); !ok {
			return nil, nil, false
		}
		list = append(list, p)
		if len(rest) > 1 && rest[0] == ',' {
			rest = rest[1:]
		}
	}
	return list, rest, true
}

// open returns the checkpoint, which has the signature of the log and no other.
func (b *bundle) open() (c checkpoint.Checkpoint, err error) {
	log, err := checkpoint.NewLog(b.Key)
	if err != nil {
		return c, err
	}
	if c, _, err = (checkpoint.Policy{Log: log}).Open([]byte(b.Checkpoint)); err != nil {
		return c, err
	}
	if bare, err := checkpoint.Bare([]byte(b.Checkpoint), log); err != nil || string(bare) != b.Checkpoint {
		return c, bad("the checkpoint has signatures besides that of the log")
	}
	return c, nil
}

// written returns nil if data is the canonical form of b.
func (b *bundle) written(data []byte) error {
	c := &comparison{rest: data}
	again, err := b.writer(c)
	for i := 0; err == nil && i < len(b.Records); i++ {
		err = again.Record(b.Records[i])
	}
	for i := 0; err == nil && i < len(b.Replies); i++ {
		err = again.Reply(b.Replies[i])
	}
	for i := 0; err == nil && i < len(b.Sessions); i++ {
		err = again.Conversation(b.Sessions[i])
	}
	if err == nil {
		err = again.Close()
	}
	switch {
	case errors.Is(err, errDiffers) || err == nil && len(c.rest) > 0 || b.Commits == nil || b.Documents == nil || b.Records == nil || b.Replies == nil || b.Sessions == nil:
		return bad("it is not written in its one form, RFC 8785 and a line feed")
	case err != nil:
		return fmt.Errorf("it cannot be written again: %w", err)
	}
	return nil
}

// A comparison is written to what should be rest, and fails where it is not.
type comparison struct{ rest []byte }

var errDiffers = errors.New("other bytes")

// Write implements [io.Writer].
func (c *comparison) Write(p []byte) (int, error) {
	rest, ok := bytes.CutPrefix(c.rest, p)
	if !ok {
		return 0, errDiffers
	}
	c.rest = rest
	return len(p), nil
}
