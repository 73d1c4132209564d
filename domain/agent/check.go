package agent

import (
	"fmt"

	"github.com/karatum/mystery/domain"
)

// Check returns nil if one command, decided in state s, can have given these events,
// of which there is at least one.
func Check(s State, events []Event) error {
	e, err := domain.Alone(events)
	if err != nil {
		return err
	}
	if e, ok := e.(Registered); ok {
		if _, err := ParseRef(string(e.Agent)); err != nil {
			return err
		}
	}
	return Decider.Gives(s, CommandOf(e), events)
}

// CommandOf returns the command that asks for e.
func CommandOf(e Event) Command {
	switch e := e.(type) {
	case Registered:
		return Register(e)
	case IdentityVerified:
		return VerifyIdentity(e)
	case IdentityWithdrawn:
		return WithdrawIdentity(e)
	case OwnerChanged:
		return ChangeOwner{To: e.To, Reason: e.Reason, At: e.At, Signed: e.Signed}
	case CertificateRecorded:
		return RecordCertificate(e)
	case CertificateWithdrawn:
		return WithdrawCertificate(e)
	case SurfaceObserved:
		return ObserveSurface(e)
	}
	panic(fmt.Sprintf("agent: unreachable event %T", e))
}
