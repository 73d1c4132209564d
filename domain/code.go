package domain

import "errors"

// A Code names the reason of a refusal more closely than its kind does, for
// programs that have to tell one refusal from another of the same kind. Codes
// are stable: the api package makes each the type of a problem, and a client may
// decide on it.
type Code string

// Codes of what owners may do wrong, or find in their way.
const (
	AlreadyReplied     Code = "already-replied"      // one reply to a finding
	ActiveConsent      Code = "active-consent"       // the agent has one already
	BadSignature       Code = "bad-signature"        // no encoding that is accepted
	ChainNotConfigured Code = "chain-not-configured" // no node of the chain that would have to be asked
	ChainUnavailable   Code = "chain-unavailable"    // its node does not answer
	ChallengeExpired   Code = "challenge-expired"
	ChallengeForeign   Code = "challenge-foreign" // not issued here, or for something else
	ChallengeUsed      Code = "challenge-used"
	ConsentOver        Code = "consent-over"
	EndpointRefused    Code = "endpoint-refused" // may not be shopped by anybody's leave
	HostNotProven      Code = "host-not-proven"
	HostStopped        Code = "host-stopped"     // it wants no tasks, whoever owns it
	HostUnreachable    Code = "host-unreachable" // its proof could not be read
	KeysUnavailable    Code = "keys-unavailable" // the process that holds the operator secret does not answer
	NoCertificate      Code = "no-certificate"
	NotRegistered      Code = "not-registered"
	OwnerChanged       Code = "owner-changed"
	OwnerNotListed     Code = "owner-not-listed"    // the host's document names others
	OwnerNonceMissing  Code = "owner-nonce-missing" // a contract wallet has to commit to one
	OwnerNonceMismatch Code = "owner-nonce-mismatch"
	PayloadChanged     Code = "payload-changed" // not the one that was issued
	PaymentRules       Code = "payment-rules"
	PrivateAddress     Code = "private-address"  // a host is not on the public internet
	ProofMalformed     Code = "proof-malformed"  // the host's document is not what it should be
	ProofMissing       Code = "proof-missing"    // the host has no document
	ProofRedirected    Code = "proof-redirected" // it leads to another host
	ProofTooLarge      Code = "proof-too-large"
	WrongChain         Code = "wrong-chain"
	WrongDomain        Code = "wrong-domain"
	WrongSigner        Code = "wrong-signer"
)

// Codes of what producers may do wrong.
const (
	ClockSkew           Code = "clock-skew"             // a clock that is minutes off
	DigestMismatch      Code = "digest-mismatch"        // the body is not the one that was signed
	EventSignature      Code = "event-signature"        // the event is not the producer's
	IdempotencyMismatch Code = "idempotency-mismatch"   // an id that stands for something else
	NonceUsed           Code = "nonce-used"             // the request came before
	ProducerRevoked     Code = "producer-revoked"       // nothing is taken from it any more
	RequestSignature    Code = "request-signature"      // missing, in another form, or of another key
	SignatureExpired    Code = "signature-expired"      // not made just now
	StreamNotAllowed    Code = "stream-not-allowed"     // for this producer
	TypeNotAllowed      Code = "type-not-allowed"       // for this producer
	UnknownProducer     Code = "unknown-producer"       // no such producer or key
	WrongVersion        Code = "wrong-expected-version" // the stream is at another one
)

// WithCode returns err with a code to be found by [CodeOf]. Its text and its kind
// stay as they are.
func WithCode(c Code, err error) error { return &codedError{c, err} }

// CodeOf returns the code of err, or "" if it has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*codedError](err); ok {
		return e.code
	}
	return ""
}

type codedError struct {
	code Code
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }
