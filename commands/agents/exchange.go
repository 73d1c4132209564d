package agents

import (
	"errors"

	"github.com/karatum/mystery/domain"
)

// An Exchange is one request of a conversation and what answered it. It holds the
// hashes of what went over the wire and nothing of it, such that a salted hash of
// it, H(… ‖ salt ‖ Sent ‖ Received), can be published while the task is secret.
//
// A request that was refused on our side, by the gate or for a mark in it, is no
// exchange. One that found no connection is.
type Exchange struct {
	N        int         // its place in the conversation, from 0
	Method   string      // GET or POST
	URL      string      // what was asked for, before any redirect
	RPC      string      // the JSON-RPC method; empty for a document or a stream
	Sent     domain.Hash // of the body of the request
	Status   int         // of the answer; 0 if none came or none was waited for
	Received domain.Hash // of the document or the message that answered, decoded; of nothing if none did
}

// Record lets f be called with each exchange of l when it is over, in order, from
// the goroutine that uses l. It is called before the first request.
func (l *Line) Record(f func(Exchange)) *Line {
	l.exchanged = f
	return l
}

// record reports an exchange that ended with err: if that is an [Error], it says
// what came in place of an answer, and any other that nothing was carried out.
func (l *Line) record(x Exchange, received []byte, err error) {
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return
		}
		x.Status, received = e.Status, e.Raw
	}
	x.N, x.Received = l.exchanges, domain.Sum(received)
	l.exchanges++
	if l.exchanged != nil {
		l.exchanged(x)
	}
}
