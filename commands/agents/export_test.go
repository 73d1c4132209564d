package agents

import (
	"crypto/x509"
	"time"
)

// Trusting returns n with the certificates in pool in place of the system's.
func (n Net) Trusting(pool *x509.CertPool) Net {
	n.roots = pool
	return n
}

// ReadAll is how bodies are read.
var ReadAll = readAll

// GateTimeout is how long a gate is held at most.
const GateTimeout = gateTimeout

// Within returns h with another limit of one fetch.
func (h Hosts) Within(limit time.Duration) Hosts {
	h.limit = limit
	return h
}
