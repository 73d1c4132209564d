// Package httpsig signs and verifies HTTP requests as of RFC 9421, with Ed25519, as far
// as producers of events need it.
//
// # Profile
//
// A request has the header fields Content-Digest (RFC 9530, sha-256), Signature-Input
// and Signature. The signature that counts is the only one with the tag of the
// [Profile]. Its parameters are created, expires, nonce, keyid, alg="ed25519" and tag;
// it covers at least
//
//	"@method" "@authority" "@path" "content-digest" "content-type" "idempotency-key"
//
// each once and none of them with parameters of its own, and may cover other fields.
// It holds from created to expires, which lie a minute apart at most.
//
// The base is made as in section 2.5 of the RFC. @authority is what the verifier is
// called, whatever the request says: a request that was sent to somebody else does
// not verify.
package httpsig

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/karatum/mystery/domain"
)

// A Profile says what a signature must be like.
type Profile struct {
	Tag     string
	Covered []string      // components that it covers at least
	MaxAge  time.Duration // between created and expires
}

// Producers is the profile of requests of producers.
var Producers = Profile{
	Tag:     "karatum-producer",
	Covered: []string{"@method", "@authority", "@path", "content-digest", "content-type", "idempotency-key"},
	MaxAge:  time.Minute,
}

const (
	algorithm = "ed25519"

	// maxNonce bounds what has to be remembered of a request.
	minNonce = 16
	maxNonce = 64

	maxKeyID = 100

	// early is how much a clock may be fast, and wrong is when it is broken.
	early = 5 * time.Second
	wrong = 5 * time.Minute
)

// Header fields.
const (
	headerDigest    = "Content-Digest"
	headerInput     = "Signature-Input"
	headerSignature = "Signature"
)

// Params are the parameters of a signature that are not the same for all of a profile.
type Params struct {
	Created time.Time // whole seconds
	Expires time.Time
	Nonce   string
	KeyID   string
}

// A Signature is one that a request carries. It is nothing before it is verified.
type Signature struct {
	Params

	base      []byte
	signature []byte
}

func refuse(code domain.Code, format string, args ...any) error {
	return domain.WithCode(code, fmt.Errorf(format+": %w", append(args, domain.ErrUnauthenticated)...))
}

func refuseForm(format string, args ...any) error {
	return refuse(domain.RequestSignature, format, args...)
}

// Parse returns the signature of a request that is of profile p and was made for an
// authority, such as karatum.com. Errors have the code [domain.RequestSignature].
func (p Profile) Parse(r *http.Request, authority string) (*Signature, error) {
	inputs, err := httpsfv.UnmarshalDictionary(r.Header.Values(headerInput))
	if err != nil {
		return nil, refuseForm("the header Signature-Input cannot be read (RFC 9421, section 4.1)")
	}
	signatures, err := httpsfv.UnmarshalDictionary(r.Header.Values(headerSignature))
	if err != nil {
		return nil, refuseForm("the header Signature cannot be read (RFC 9421, section 4.2)")
	}
	label, input, err := p.pick(inputs)
	if err != nil {
		return nil, err
	}
	s := new(Signature)
	member, _ := signatures.Get(label)
	item, _ := member.(httpsfv.Item)
	if s.signature, _ = item.Value.([]byte); len(s.signature) != ed25519.SignatureSize {
		return nil, refuseForm("the header Signature has no Ed25519 signature %s", label)
	}
	if s.Params, err = p.params(input.Params); err != nil {
		return nil, err
	}
	if s.base, err = p.base(r, authority, input); err != nil {
		return nil, err
	}
	return s, nil
}

// pick returns the one signature with the tag of p.
func (p Profile) pick(inputs *httpsfv.Dictionary) (label string, input httpsfv.InnerList, err error) {
	for _, name := range inputs.Names() {
		member, _ := inputs.Get(name)
		list, ok := member.(httpsfv.InnerList)
		if !ok || list.Params == nil {
			return "", input, refuseForm("a member of Signature-Input is a list of components (RFC 9421, section 4.1)")
		}
		if tag, _ := list.Params.Get("tag"); p.Tag != "" && tag != p.Tag {
			continue
		}
		if label != "" {
			return "", input, refuseForm("the request has two signatures with the tag %s", p.Tag)
		}
		label, input = name, list
	}
	if label == "" {
		return "", input, refuseForm(`the request has no signature with tag=%q (RFC 9421)`, p.Tag)
	}
	return label, input, nil
}

func (p Profile) params(given *httpsfv.Params) (s Params, err error) {
	created, _ := given.Get("created")
	expires, _ := given.Get("expires")
	from, ok1 := created.(int64)
	to, ok2 := expires.(int64)
	alg, hasAlg := given.Get("alg")
	nonce, _ := given.Get("nonce")
	keyID, _ := given.Get("keyid")
	s.Nonce, _ = nonce.(string)
	s.KeyID, _ = keyID.(string)
	if p.Tag == "" && !hasAlg {
		alg = algorithm
	}
	switch {
	case alg != algorithm:
		return s, refuseForm("the signature is made with alg=%q", algorithm)
	case s.KeyID == "" || len(s.KeyID) > maxKeyID:
		return s, refuseForm("the signature has a parameter keyid of up to %d characters", maxKeyID)
	case p.MaxAge == 0:
		s.Created = time.Unix(from, 0).UTC()
		return s, nil
	case !ok1 || !ok2:
		return s, refuseForm("the signature has whole parameters created and expires")
	case to <= from || to-from > int64(p.MaxAge/time.Second):
		return s, refuseForm("a signature expires up to %s after it is created", p.MaxAge)
	case len(s.Nonce) < minNonce || len(s.Nonce) > maxNonce:
		return s, refuseForm("the signature has a parameter nonce of %d to %d characters", minNonce, maxNonce)
	}
	s.Created, s.Expires = time.Unix(from, 0).UTC(), time.Unix(to, 0).UTC()
	return s, nil
}

// base returns the signature base of RFC 9421, section 2.5.
func (p Profile) base(r *http.Request, authority string, input httpsfv.InnerList) ([]byte, error) {
	var b bytes.Buffer
	seen := make(map[string]bool)
	for _, item := range input.Items {
		name, ok := item.Value.(string)
		if !ok || seen[name] || item.Params == nil || len(item.Params.Names()) > 0 {
			return nil, refuseForm("a signature covers components by their names, each once and without parameters")
		}
		seen[name] = true
		value, err := component(r, authority, name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q: %s\n", name, value)
	}
	for _, name := range p.Covered {
		if !seen[name] {
			return nil, refuseForm("the signature does not cover %q", name)
		}
	}
	params, err := httpsfv.Marshal(input)
	if err != nil {
		return nil, refuseForm("the parameters of the signature cannot be written (RFC 9651)")
	}
	b.WriteString(`"@signature-params": ` + params)
	return b.Bytes(), nil
}

// component returns the value of a component of a request (RFC 9421, sections 2.1 and
// 2.2).
func component(r *http.Request, authority, name string) (string, error) {
	switch name {
	case "@method":
		return r.Method, nil
	case "@authority":
		return strings.ToLower(authority), nil
	case "@path":
		path := r.URL.EscapedPath()
		if path == "" {
			path = "/"
		}
		return path, nil
	}
	if name != strings.ToLower(name) || !isToken(name) {
		return "", refuseForm("the signature covers a component %.40q, which is not taken here", name)
	}
	values := slices.Clone(r.Header.Values(name))
	if len(values) == 0 {
		return "", refuseForm("the signature covers the header %s, which the request does not have", name)
	}
	for i, v := range values {
		values[i] = strings.Trim(v, " \t")
	}
	return strings.Join(values, ", "), nil
}

// AuthorityOf returns the authority of a URL, without the port that goes without saying
// (RFC 9421, section 2.2.3).
func AuthorityOf(u *url.URL) string {
	if u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" {
		return strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	return u.Host
}

// isToken reports whether name can be that of a header field; those that begin with @
// are no fields.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// Check returns nil if s holds at a moment. Errors have the code [domain.SignatureExpired],
// or [domain.ClockSkew] if a clock must be wrong.
func (s *Signature) Check(now time.Time) error {
	off := now.Sub(s.Created)
	switch {
	case off > wrong || off < -wrong:
		return domain.WithCode(domain.ClockSkew, fmt.Errorf("the signature was created at %s, and it is %s; set your clock: %w",
			s.Created.Format(time.RFC3339), now.UTC().Format(time.RFC3339), domain.ErrMalformed))
	case off < -early || !now.Before(s.Expires):
		return refuse(domain.SignatureExpired, "the signature holds from %s to %s, and it is %s; sign again",
			s.Created.Format(time.RFC3339), s.Expires.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// Verify returns nil if s is the signature of a key.
func (s *Signature) Verify(key ed25519.PublicKey) error {
	if !ed25519.Verify(key, s.base, s.signature) {
		return refuseForm("the signature is not that of the key over this request, for @authority as it is called here")
	}
	return nil
}

// CheckDigest returns nil if the body is the one that the header Content-Digest is of.
// The error has the code [domain.DigestMismatch].
func CheckDigest(h http.Header, body []byte) error {
	fail := func(text string) error {
		return domain.WithCode(domain.DigestMismatch, fmt.Errorf("%s: %w", text, domain.ErrMalformed))
	}
	digests, err := httpsfv.UnmarshalDictionary(h.Values(headerDigest))
	if err != nil {
		return fail("the header Content-Digest cannot be read (RFC 9530)")
	}
	member, _ := digests.Get("sha-256")
	item, _ := member.(httpsfv.Item)
	given, ok := item.Value.([]byte)
	if sum := sha256.Sum256(body); !ok || !bytes.Equal(given, sum[:]) {
		return fail("the header Content-Digest is not the sha-256 of this body (RFC 9530)")
	}
	return nil
}

// label names the signature of a producer among others of a request.
const label = "karatum"

// Sign signs a request with the given body, for an authority. The other header fields
// that the profile covers must be set.
func (p Profile) Sign(r *http.Request, authority string, body []byte, params Params, key ed25519.PrivateKey) error {
	sum := sha256.Sum256(body)
	digests := httpsfv.NewDictionary()
	digests.Add("sha-256", httpsfv.NewItem(sum[:]))
	digest, err := httpsfv.Marshal(digests)
	if err != nil {
		return err
	}
	r.Header.Set(headerDigest, digest)

	input := httpsfv.InnerList{Params: httpsfv.NewParams()}
	for _, name := range p.Covered {
		input.Items = append(input.Items, httpsfv.NewItem(name))
	}
	input.Params.Add("created", params.Created.Unix())
	input.Params.Add("expires", params.Expires.Unix())
	input.Params.Add("nonce", params.Nonce)
	input.Params.Add("keyid", params.KeyID)
	input.Params.Add("alg", algorithm)
	input.Params.Add("tag", p.Tag)
	base, err := p.base(r, authority, input)
	if err != nil {
		return err
	}
	inputs, signatures := httpsfv.NewDictionary(), httpsfv.NewDictionary()
	inputs.Add(label, input)
	signatures.Add(label, httpsfv.NewItem(ed25519.Sign(key, base)))
	if digest, err = httpsfv.Marshal(inputs); err != nil {
		return err
	}
	r.Header.Set(headerInput, digest)
	if digest, err = httpsfv.Marshal(signatures); err != nil {
		return err
	}
	r.Header.Set(headerSignature, digest)
	return nil
}
