// Package domain holds the language of the ledger: events, the catalog that
// reads them, the decider that turns commands into events, and the few
// primitives (Hash, Enc) that every byte format of the ledger is built from.
//
// It imports nothing of ours and performs no I/O, reads no clock and draws no
// randomness. Each aggregate lives in a package of its own below it, named so
// that its events read as sentences: consent.Granted, shop.Sent, plan.Sealed.
package domain
