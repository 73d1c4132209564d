package assembly

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections/publiclog"
)

// A publicLog is what this process does for the public log.
type publicLog struct {
	integrator *publiclog.Integrator
	publisher  *publiclog.Publisher // nil without the key: others sign
}

// checkpointEvery is the cadence of checkpoints, unless configured otherwise. On a
// virtual clock there is none: a checkpoint is signed when one is asked for, if
// anything is new, and so at moments that the program chooses.
const (
	checkpointEvery        = 10 * time.Minute
	checkpointEveryVirtual = time.Microsecond
	minCheckpointEvery     = time.Second
	maxCheckpointEvery     = 24 * time.Hour
)

// CheckpointEvery returns the cadence of checkpoints.
func (c Config) CheckpointEvery() (time.Duration, error) {
	if c.CheckpointInterval == "" {
		return checkpointEvery, nil
	}
	d, err := time.ParseDuration(c.CheckpointInterval)
	if err != nil || d < minCheckpointEvery || d > maxCheckpointEvery {
		return 0, fmt.Errorf("MYSTERY_CHECKPOINT_INTERVAL %q is not a duration from %s to %s, such as 10m: %w",
			c.CheckpointInterval, minCheckpointEvery, maxCheckpointEvery, domain.ErrInvalid)
	}
	return d, nil
}

// LogKeyPath returns where the key of the public log is, and whether it may be made.
func (c Config) LogKeyPath() (path string, ours bool) {
	if c.LogKeyFile != "" {
		return c.LogKeyFile, false
	}
	return filepath.Join(c.StateDir, "log.key"), true
}

// LogKey reads the private key of the public log. It returns "" if no file was named
// and none was made here.
func (c Config) LogKey() (skey string, err error) {
	path, ours := c.LogKeyPath()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && ours:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("the key of the public log: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("the key of the public log %s can be read by others; chmod 600 it: %w", path, domain.ErrForbidden)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("the key of the public log: %w", err)
	}
	skey = strings.TrimSpace(string(text))
	if _, err := checkpoint.VerifierKey(skey); err != nil {
		return "", fmt.Errorf("the key of the public log %s: %w", path, err)
	}
	return skey, nil
}

// makeLogKey puts a new key for the domain of the public URL where none is.
func (c Config) makeLogKey() (skey string, err error) {
	signedDomain, err := c.Domain()
	if err != nil {
		return "", err
	}
	var seed domain.Hash
	_, _ = rand.Read(seed[:]) // never fails, see crypto/rand
	if skey, err = checkpoint.PrivateKey(signedDomain+"/ledger", seed); err != nil {
		return "", err
	}
	path, _ := c.LogKeyPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the database's account must enter it; the key itself is 0600
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // as configured
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(skey + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return skey, nil
}

// Witnesses reads the list of witnesses.
func (c Config) Witnesses() (list []publiclog.Witness, quorum int, err error) {
	if c.WitnessFile == "" {
		return nil, 0, nil
	}
	f, err := os.Open(c.WitnessFile)
	if err != nil {
		return nil, 0, fmt.Errorf("MYSTERY_WITNESSES: %w", err)
	}
	defer f.Close()
	if list, quorum, err = publiclog.ParseWitnesses(f); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", c.WitnessFile, err)
	}
	return list, quorum, nil
}

// openPublicLog makes this process ready to extend the public log and, if it holds
// the key, to sign it. The first process makes the key.
func (p *Programme) openPublicLog(ctx context.Context, o Options) error {
	p.Ledger = publiclog.Reader{Pool: p.pool}
	p.public.integrator = &publiclog.Integrator{Log: p.ledger, Catalog: p.Service.Catalog, Pool: p.pool}
	skey := o.LogKey
	if skey == "" && !p.keyless {
		var err error
		if skey, err = p.config.LogKey(); err != nil {
			return err
		}
	}
	vkey, err := publiclog.Claim(ctx, p.pool, func() (_ string, err error) {
		if p.keyless {
			return "", fmt.Errorf("the public log is not begun, and its key is not for this process to make; start karatum-mystery work first: %w", domain.ErrUnavailable)
		}
		if skey == "" {
			if skey, err = p.config.makeLogKey(); err != nil {
				return "", err
			}
		}
		return checkpoint.VerifierKey(skey)
	})
	if err != nil {
		return err
	}
	if p.keyless {
		return nil
	}
	if skey == "" {
		path, _ := p.config.LogKeyPath()
		p.log.WarnContext(ctx, "the key of the public log is not here; checkpoints are signed where it is, or not at all", "path", path, "key", vkey)
		return nil
	}
	if own, err := checkpoint.VerifierKey(skey); err != nil || own != vkey {
		return fmt.Errorf("the public log was begun with the key %s, and here is another one; restore the first from its copy: %w", vkey, domain.ErrForbidden)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return fmt.Errorf("the key of the public log: %w", err)
	}
	p.public.publisher = &publiclog.Publisher{Pool: p.pool, Signer: signer, Now: p.Now}
	w := p.public.publisher
	if w.Every, err = p.config.CheckpointEvery(); err != nil {
		return err
	}
	if o.Now != nil {
		w.Every, w.Now = checkpointEveryVirtual, time.Now
	}
	w.Witnesses, w.Quorum, err = p.config.Witnesses()
	return err
}

// PublishLedger brings the public log to the end of the ledger, and signs and
// publishes a checkpoint if one is due.
func (p *Programme) PublishLedger(ctx context.Context) error {
	if err := p.public.integrator.Integrate(ctx); err != nil {
		return err
	}
	if p.public.publisher == nil {
		return nil
	}
	return p.public.publisher.Publish(ctx)
}

// FollowLedger keeps the public log going until ctx ends. What hinders it is logged
// once, and tried again. Of all processes one extends the log, and of those with the key
// one signs, which reads all of it before its first signature; the others wait until that
// one is gone.
func (p *Programme) FollowLedger(ctx context.Context) {
	extends, signs := p.duty("integrator"), p.duty("publisher")
	defer extends.yield(ctx)
	defer signs.yield(ctx)
	follow := func() error {
		if extends.has(ctx) {
			if err := p.public.integrator.Integrate(ctx); err != nil {
				extends.yield(ctx) // a newer program may know what this one does not
				return err
			}
		}
		if p.public.publisher == nil || !signs.has(ctx) {
			return nil
		}
		err := p.public.publisher.Publish(ctx)
		if err != nil {
			signs.yield(ctx)
		}
		return err
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	said := ""
	for {
		switch err := follow(); {
		case err == nil:
			said = ""
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			p.log.ErrorContext(ctx, "the public log does not go on", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// duty returns what one process does for all, by name.
func (p *Programme) duty(name string) *duty {
	return &duty{name: name, leases: &tables.Leases{Pool: p.pool}, now: time.Now, log: p.log}
}

// Erase deletes the reply of a revealed shop for good and records that and why.
func (p *Programme) Erase(ctx context.Context, m ledger.Meta, shop, reason string) error {
	if err := p.Service.Erase(ctx, m, shop, reason, p.bodies); err != nil {
		return err
	}
	return p.CatchUp(ctx)
}

// EraseReply does the same with what an owner replied to a finding.
func (p *Programme) EraseReply(ctx context.Context, m ledger.Meta, finding, reason string) error {
	if err := p.Service.EraseReply(ctx, m, finding, reason, p.bodies); err != nil {
		return err
	}
	return p.CatchUp(ctx)
}
