package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/verify"
)

// logFlags are the flags of log.
type logFlags struct {
	json      bool
	key       string
	state     string
	witnesses []string
	quorum    int
}

func newLog() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "log URL",
		Short: "Check the public log as a whole, and that it only grows",
		Long: `Log reads the whole public log of a service again. The URL is that of the service,
such as https://karatum.com.

It fetches the signed checkpoint and holds it against the last one that it saw, which
it keeps: the log may have grown since, and nothing else. Then it reads every record
and every entry: each record has the hash that is its entry, the hashes of each stream
lead from record to record, over sealed records where a reveal opens them, what
producers and maintainers signed is theirs and was signed with keys that held then, and
all entries make the tree that was signed, now and the last time.

The first time it takes the key that the service names, unless --key has one that you
got elsewhere; from then on the log must keep it. With --witness, as often as there are
witnesses that you trust, --quorum of them must have cosigned the checkpoint.

A log that was set back, rewritten, signed by another key, or that lacks cosignatures is
exit code 3, and what was kept stays as it was.

` + exitCodes,
		Example: `  karatum-verify log https://karatum.com
  karatum-verify log https://karatum.com --key karatum.com/ledger+8f7a2c51+AX… --witness witness.example+1c25f8a4+BA…`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isURL(args[0]) {
				return usageError{cmd.CommandPath(), fmt.Errorf("%s is not the URL of a service, such as https://karatum.com", args[0])}
			}
			if !cmd.Flags().Changed("quorum") {
				f.quorum = len(f.witnesses)
			}
			report, err := f.check(cmd.Context(), strings.TrimSuffix(args[0], "/"))
			if report == nil {
				return err
			}
			if f.json {
				err = errors.Join(printJSON(cmd.OutOrStdout(), report), err)
			} else if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "log %s: ok\n%d records of %d streams, %d more than the last time, %d cosignatures\nroot %s\nkey  %s\n",
					report.Log, report.Size, report.Streams, report.Size-report.Seen, report.Cosignatures, report.Root, report.Key)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "the `vkey` that the log must have")
	flags.StringVar(&f.state, "state", "", "the `file` that keeps the last checkpoint (default one for each host, below the user's configuration)")
	flags.StringArrayVar(&f.witnesses, "witness", nil, "the `vkey` of a witness (C2SP tlog-cosignature)")
	flags.IntVar(&f.quorum, "quorum", 0, "how many witnesses must have cosigned (default all)")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// A logReport is what came of checking a log.
type logReport struct {
	Log          string         `json:"log"`
	Key          string         `json:"key"`
	Verdict      verify.Verdict `json:"verdict"`
	Detail       string         `json:"detail,omitempty"` // of what does not hold
	Size         uint64         `json:"size"`
	Root         domain.Hash    `json:"root"`
	Seen         uint64         `json:"seen"` // size of the checkpoint that was kept, 0 if there was none
	Streams      int            `json:"streams"`
	Cosignatures int            `json:"cosignatures"`
}

// A kept is what is remembered of a log from one time to the next.
type kept struct {
	Key        string `json:"key"`
	Checkpoint string `json:"checkpoint"` // signed
}

// check checks a log. There is a report unless something hindered that; the error is
// that of the whole.
func (f logFlags) check(ctx context.Context, base string) (*logReport, error) {
	file, err := f.stateFile(base)
	if err != nil {
		return nil, err
	}
	was, err := readKept(file)
	if err != nil {
		return nil, err
	}
	r := &logReport{Verdict: verify.VerdictOK}
	signed, err := f.read(ctx, base, was, r)
	if errors.Is(err, verify.ErrFailed) {
		r.Verdict, r.Detail = verify.VerdictFail, domain.Sentence(err)
		return r, err
	}
	if err != nil {
		return nil, err
	}
	return r, kept{r.Key, string(signed)}.write(file)
}

// read reads the log again and returns its signed checkpoint.
func (f logFlags) read(ctx context.Context, base string, was kept, r *logReport) (signed []byte, err error) {
	policy, err := f.policy(ctx, base, was, r)
	if err != nil {
		return nil, err
	}
	var seen checkpoint.Checkpoint
	if was.Checkpoint != "" {
		if seen, _, err = (checkpoint.Policy{Log: policy.Log}).Open([]byte(was.Checkpoint)); err != nil {
			return nil, fmt.Errorf("the checkpoint that was kept: %w: %w", err, verify.ErrFailed)
		}
	}
	if signed, err = fetch(ctx, base+"/ledger/checkpoint"); err != nil {
		return nil, err
	}
	now, cosignatures, err := policy.Open(signed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, verify.ErrFailed)
	}
	r.Log, r.Size, r.Root, r.Seen, r.Cosignatures = now.Origin, now.Size, now.Root, seen.Size, len(cosignatures)
	if err := verify.Grown(seen, now); err != nil {
		return nil, err
	}
	if err := proveGrowth(ctx, base, seen, now); err != nil {
		return nil, err
	}
	l := verify.NewLogCheck(seen)
	for l.Size() < now.Size {
		if err := readPage(ctx, base, l, now.Size); err != nil {
			return nil, err
		}
	}
	r.Streams = l.Streams()
	return signed, l.End(now)
}

// policy returns whose signatures the checkpoint must have.
func (f logFlags) policy(ctx context.Context, base string, was kept, r *logReport) (p checkpoint.Policy, err error) {
	r.Key = f.key
	if was.Key != "" {
		if f.key != "" && f.key != was.Key {
			return p, fmt.Errorf("the log had the key %s when it was last looked at: %w", was.Key, verify.ErrFailed)
		}
		r.Key = was.Key
	}
	if r.Key == "" {
		text, err := fetch(ctx, base+"/ledger/key")
		if err != nil {
			return p, err
		}
		r.Key = strings.TrimSuffix(string(text), "\n")
	}
	if p.Log, err = checkpoint.NewLog(r.Key); err != nil {
		return p, err
	}
	p.Quorum = f.quorum
	for i, vkey := range f.witnesses {
		w, err := checkpoint.NewWitness(vkey)
		if err != nil {
			return p, err
		}
		if slices.Contains(f.witnesses[:i], vkey) { // which has one form
			return p, fmt.Errorf("the witness %s is named twice, and counts once; leave one out: %w", w.Name(), domain.ErrInvalid)
		}
		p.Witnesses = append(p.Witnesses, w)
	}
	return p, nil
}

// proveGrowth asks for the proof that the log has only grown. That every record is read
// again shows the same; but what a log serves to others must hold as well.
func proveGrowth(ctx context.Context, base string, seen, now checkpoint.Checkpoint) error {
	if seen.Size == 0 || seen.Size == now.Size {
		return nil
	}
	data, err := fetch(ctx, fmt.Sprintf("%s/v1/ledger/proofs/consistency?from=%d&to=%d", base, seen.Size, now.Size))
	if err != nil {
		return err
	}
	var answer struct {
		Path []domain.Hash `json:"path"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("the proof of consistency cannot be read: %w: %w", err, verify.ErrFailed)
	}
	return verify.GrownBy(answer.Path, seen, now)
}

// readPage reads the next records, a tile of entries at most.
func readPage(ctx context.Context, base string, l *verify.LogCheck, size uint64) error {
	path, from, n := l.Next(size)
	tile, err := fetch(ctx, base+"/ledger/"+path)
	if err != nil {
		return err
	}
	data, err := fetch(ctx, fmt.Sprintf("%s/v1/ledger/records?from=%d&limit=%d", base, from, n))
	if err != nil {
		return err
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &page); err != nil || uint64(len(page.Items)) != n {
		return fmt.Errorf("the log does not show the %d records from %d on: %w", n, from, verify.ErrFailed)
	}
	return l.Add(tile, page.Items)
}

// stateFile returns where the last checkpoint of a log is kept.
func (f logFlags) stateFile(base string) (string, error) {
	if f.state != "" {
		return f.state, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%s is not the URL of a service: %w", base, domain.ErrInvalid)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place to keep the last checkpoint, name one with --state: %w", err)
	}
	return filepath.Join(dir, "karatum-verify", url.PathEscape(u.Host+u.Path)+".json"), nil
}

func readKept(file string) (k kept, err error) {
	data, err := os.ReadFile(file) //nolint:gosec // the caller names it
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	if err := domain.Unmarshal(data, &k); err != nil {
		return k, fmt.Errorf("%s does not hold what was kept of the log; remove it to begin anew: %w: %w", file, err, domain.ErrInvalid)
	}
	return k, nil
}

// write puts k in place of what was kept, whole or not at all.
func (k kept) write(file string) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = t.Write(append(data, '\n'))
	if err = errors.Join(err, t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(t.Name()))
	}
	return nil
}
