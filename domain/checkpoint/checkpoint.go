// Package checkpoint reads and writes what the public log signs: checkpoints, the
// cosignatures of witnesses under them, and proofs that carry one.
//
// # Formats
//
// The text of a checkpoint is that of C2SP tlog-checkpoint without extension lines,
//
//	origin \n size in decimal \n base64(root) \n
//
// signed as a C2SP signed-note by a key that has the origin as its name, with
// Ed25519. A witness adds a cosignature/v1 of C2SP tlog-cosignature to it: eight
// bytes of Unix time and an Ed25519 signature over
//
//	cosignature/v1 \n time T \n text of the checkpoint
//
// There is one spelling of each checkpoint; [Parse] refuses all others. Whose
// signatures make a checkpoint good is said by a [Policy], which demands that of the
// log by name: a note that only a witness has signed is not one of the log.
package checkpoint

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/domain"
)

// MaxSize is the largest size of a log, far beyond any. The hashes of a larger tree
// could not all be numbered in 64 bits.
const MaxSize = 1 << 62

// A Checkpoint says that the log named by Origin has Size leaves, and what they are.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   domain.Hash
}

// Text returns what is signed.
func (c Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatUint(c.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Root[:]) + "\n"
}

// Parse reads the text of a checkpoint. It returns [domain.ErrInvalid] for everything
// that [Checkpoint.Text] does not write.
func Parse(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] == "" {
		return c, fmt.Errorf("a checkpoint is three lines: origin, size and root: %w", domain.ErrInvalid)
	}
	size, sizeErr := strconv.ParseUint(lines[1], 10, 64)
	root, rootErr := base64.StdEncoding.DecodeString(lines[2])
	if sizeErr != nil || size > MaxSize {
		return c, fmt.Errorf("the second line of a checkpoint is a size: %w", domain.ErrInvalid)
	}
	if rootErr != nil || len(root) != len(c.Root) {
		return c, fmt.Errorf("the third line of a checkpoint is a hash in base64: %w", domain.ErrInvalid)
	}
	c = Checkpoint{lines[0], size, domain.Hash(root)}
	if c.Text() != text {
		return Checkpoint{}, fmt.Errorf("the checkpoint is not written in its one form: %w", domain.ErrInvalid)
	}
	return c, nil
}

// Sign returns c as a note signed by s, whose name must be the origin.
func Sign(c Checkpoint, s note.Signer) ([]byte, error) {
	if s.Name() != c.Origin {
		return nil, fmt.Errorf("the key of %s cannot sign for the log %s: %w", s.Name(), c.Origin, domain.ErrInvalid)
	}
	if _, err := Parse(c.Text()); err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: c.Text()}, s)
}

// A Policy says whose signatures make a checkpoint good: that of the log, and those
// of at least Quorum of the witnesses.
type Policy struct {
	Log       note.Verifier
	Witnesses []note.Verifier
	Quorum    int
}

// Open returns the checkpoint in a signed note, and the lines of all witnesses of the
// policy that have cosigned it, in the order of the policy. It returns
// [domain.ErrInvalid] for what is not signed by the log, is not of the log, or is
// malformed, and [domain.ErrForbidden] if too few witnesses have cosigned it.
func (p Policy) Open(signed []byte) (c Checkpoint, cosignatures []string, err error) {
	n, err := note.Open(signed, note.VerifierList(append([]note.Verifier{p.Log}, p.Witnesses...)...))
	if err != nil {
		return c, nil, fmt.Errorf("the checkpoint is not signed by %s: %w: %w", p.Log.Name(), err, domain.ErrInvalid)
	}
	for _, sig := range slices.Concat(n.Sigs, n.UnverifiedSigs) {
		if _, ok := decode(sig.Base64); !ok {
			return c, nil, fmt.Errorf("the signature of %s is not written in its one form: %w", sig.Name, domain.ErrInvalid)
		}
	}
	// Open is content with any one of them.
	if _, ok := lineOf(n, p.Log); !ok {
		return c, nil, fmt.Errorf("the checkpoint is not signed by %s: %w", p.Log.Name(), domain.ErrInvalid)
	}
	if c, err = Parse(n.Text); err != nil {
		return c, nil, err
	}
	if c.Origin != p.Log.Name() {
		return Checkpoint{}, nil, fmt.Errorf("the checkpoint is of the log %s and not of %s: %w", c.Origin, p.Log.Name(), domain.ErrInvalid)
	}
	for _, w := range p.Witnesses {
		if line, ok := lineOf(n, w); ok && !slices.Contains(cosignatures, line) {
			cosignatures = append(cosignatures, line)
		}
	}
	if len(cosignatures) < p.Quorum {
		return c, cosignatures, fmt.Errorf("%d witnesses have cosigned the checkpoint of %d leaves, %d must: %w",
			len(cosignatures), c.Size, p.Quorum, domain.ErrForbidden)
	}
	return c, cosignatures, nil
}

// Bare returns a signed note with the signature of the log alone, so that whoever has
// the log's key can check all of it. It returns [domain.ErrInvalid] for a note that the
// log has not signed.
func Bare(signed []byte, log note.Verifier) ([]byte, error) {
	n, err := note.Open(signed, note.VerifierList(log))
	if err != nil {
		return nil, fmt.Errorf("the checkpoint is not signed by %s: %w: %w", log.Name(), err, domain.ErrInvalid)
	}
	line, _ := lineOf(n, log)
	return []byte(n.Text + "\n" + line), nil
}

// decode reads base64 in its one form: package base64 passes over line feeds, and over
// bits at the end that mean nothing.
func decode(s string) (data []byte, ok bool) {
	data, err := base64.StdEncoding.DecodeString(s)
	return data, err == nil && base64.StdEncoding.EncodeToString(data) == s
}

// lineOf returns the verified signature of v under n, as its line in the note.
func lineOf(n *note.Note, v note.Verifier) (line string, ok bool) {
	for _, s := range n.Sigs {
		if s.Name == v.Name() && s.Hash == v.KeyHash() {
			return "— " + s.Name + " " + s.Base64 + "\n", true
		}
	}
	return "", false
}

const (
	algEd25519     = 1
	algCosignature = 4
	timestampSize  = 8
)

// PrivateKey returns the Ed25519 key with the given seed as package note writes
// private keys down:
//
//	PRIVATE+KEY+name+hash+base64(0x01 ‖ seed)
//
// It returns [domain.ErrInvalid] for a name that no key can have: empty, or with a
// space or a plus in it.
func PrivateKey(name string, seed domain.Hash) (skey string, err error) {
	key := ed25519.NewKeyFromSeed(seed[:])
	vkey, err := note.NewEd25519VerifierKey(name, key.Public().(ed25519.PublicKey)) //nolint:errcheck,forcetypeassert // always of this type
	if err != nil {
		return "", fmt.Errorf("the name of the key: %w: %w", err, domain.ErrInvalid)
	}
	hash := strings.Split(vkey, "+")[1]
	skey = "PRIVATE+KEY+" + name + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{algEd25519}, seed[:]...))
	if _, err := VerifierKey(skey); err != nil {
		return "", err
	}
	return skey, nil
}

// VerifierKey returns the public half of a private key of package note, as others
// write it down: a vkey of C2SP signed-note. It returns [domain.ErrInvalid] for what is
// no such key.
func VerifierKey(skey string) (string, error) {
	malformed := fmt.Errorf("this is not the private key of a note, PRIVATE+KEY+name+hash+base64: %w", domain.ErrInvalid)
	fields := strings.SplitN(skey, "+", 5)
	if _, err := note.NewSigner(skey); err != nil || len(fields) != 5 {
		return "", malformed
	}
	key, ok := decode(fields[4])
	if !ok || len(key) != 1+ed25519.SeedSize {
		return "", malformed
	}
	public := ed25519.NewKeyFromSeed(key[1:]).Public().(ed25519.PublicKey) //nolint:errcheck,forcetypeassert // always of this type
	return note.NewEd25519VerifierKey(fields[2], public)
}

// NewLog returns the verifier of the signatures of a log, from its vkey. It takes just
// the one spelling that a key has.
func NewLog(vkey string) (note.Verifier, error) {
	malformed := fmt.Errorf("the key of a log is name+hash+base64, and this is not the spelling of one: %w", domain.ErrInvalid)
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, malformed
	}
	key64, ok := strings.CutPrefix(vkey, fmt.Sprintf("%s+%08x+", v.Name(), v.KeyHash()))
	if _, one := decode(key64); !ok || !one {
		return nil, malformed
	}
	return v, nil
}

// witness verifies cosignatures.
type witness struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

// NewWitness returns the verifier of the cosignatures of a witness, from its vkey:
// name, hash and key, as C2SP signed-note writes them, with the algorithm of
// cosignature/v1.
func NewWitness(vkey string) (note.Verifier, error) {
	malformed := func(why string) error {
		return fmt.Errorf("the key of a witness is name+hash+base64, and %s: %w", why, domain.ErrInvalid)
	}
	name, rest, _ := strings.Cut(vkey, "+")
	hash16, key64, ok := strings.Cut(rest, "+")
	if !ok || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r > '~' }) {
		return nil, malformed("this one has not three such parts")
	}
	key, ok := decode(key64)
	if !ok || len(key) != 1+ed25519.PublicKeySize {
		return nil, malformed("this one does not hold a key of 32 bytes")
	}
	if key[0] != algCosignature {
		return nil, malformed(fmt.Sprintf("this one is of algorithm %d and not of cosignature/v1", key[0]))
	}
	w := &witness{name: name, key: key[1:]}
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	w.hash = binary.BigEndian.Uint32(sum[:])
	if hash16 != fmt.Sprintf("%08x", w.hash) {
		return nil, malformed("this one is damaged: its hash does not fit")
	}
	return w, nil
}

func (w *witness) Name() string    { return w.name }
func (w *witness) KeyHash() uint32 { return w.hash }

// Verify implements [note.Verifier].
func (w *witness) Verify(text, sig []byte) bool {
	if len(sig) != timestampSize+ed25519.SignatureSize {
		return false
	}
	if _, err := Parse(string(text)); err != nil {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	signed := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text)
	return ed25519.Verify(w.key, signed, sig[timestampSize:])
}

// A Proof is a C2SP tlog-proof: that an entry stands in the log at Index, as of a
// checkpoint. Everything needed to check it offline is in it, but for the entry and
// the keys that one trusts.
type Proof struct {
	Index uint64
	Path  []domain.Hash
	Note  []byte // the signed checkpoint
}

// Text returns the proof as c2sp.org/tlog-proof@v1.
func (p Proof) Text() []byte {
	text := fmt.Appendf(nil, "c2sp.org/tlog-proof@v1\nindex %d\n", p.Index)
	for _, h := range p.Path {
		text = append(base64.StdEncoding.AppendEncode(text, h[:]), '\n')
	}
	return append(append(text, '\n'), p.Note...)
}
