package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// openStore opens the ledger as the environment says, to look after it.
func (p *program) openStore(ctx context.Context) (*assembly.Store, error) {
	return assembly.OpenStore(ctx, assembly.ConfigFrom(p.getenv), assembly.Options{Log: p.logger(), Join: true})
}

func (p *program) ledgerVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Read the whole store again and check everything in it",
		Long: `Read the whole store again: the chain of each stream, the id of each record, whether
each event is one that can have been decided there, the public log, and the read
models, which are made anew and compared. Nothing is changed, and the service may run.
The first place that is wrong is named, and the exit code is 3.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			bar := p.bar("verified")
			v, err := s.Verify(cmd.Context(), bar.show)
			bar.end()
			if err != nil {
				return err
			}
			if err := p.print(v, verification(v)); err != nil {
				return err
			}
			if n := len(v.Findings); n > 0 {
				return fmt.Errorf("found wrong: %d; the store is %w", n, ledger.ErrDamaged)
			}
			return nil
		},
	}
}

// verification returns v as text.
func verification(v assembly.Verification) string {
	var text strings.Builder
	for _, f := range v.Findings {
		fmt.Fprintf(&text, "%s: ", strings.ReplaceAll(f.Check, "_", " "))
		if f.Stream != "" {
			fmt.Fprintf(&text, "position %d, version %d of %s: ", f.Position, f.Version, f.Stream)
		}
		text.WriteString(f.Detail + "\n")
	}
	if len(v.Findings) == 0 {
		text.WriteString("all is well: ")
	}
	fmt.Fprintf(&text, "%d records of %d streams read", v.Records, v.Streams)
	return text.String()
}

func (p *program) ledgerExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export FILE",
		Short: "Write all records to a new file, a line of JSON each (- is standard output)",
		Long: `Write all records to a new file, a line of JSON each: the record as it is hashed, and
its hash. Sealed records are among them, so keep the file as secret as the database.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if args[0] == "-" {
				_, err := s.Export(cmd.Context(), p.stdout)
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("export into a new file: %w", err)
			}
			n, err := s.Export(cmd.Context(), f)
			if err == nil {
				err = f.Sync()
			}
			if closing := f.Close(); err == nil {
				err = closing
			}
			if err != nil {
				_ = os.Remove(args[0]) // half an export is none
				return fmt.Errorf("export: %w", err)
			}
			return p.print(map[string]any{"file": args[0], "records": n}, fmt.Sprintf("%s: %d records", args[0], n))
		},
	}
}

func (p *program) ledgerImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Fill an empty ledger from an export (- is standard input)",
		Long: `Fill an empty ledger from an export, byte for byte: all of it, or nothing if a record
is not as it must be. The database must be new, and no service may run on it yet. Replies
lie beside the ledger and are not in an export.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("import: %w", err)
				}
				defer f.Close()
				in = f
			}
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			n, err := s.Import(cmd.Context(), in)
			if err != nil {
				return err
			}
			return p.print(map[string]any{"records": n}, fmt.Sprintf("imported: %d records", n))
		},
	}
}

// A statistic is what ledger stat tells.
type statistic struct {
	Records  uint64         `json:"records"`
	Streams  map[string]int `json:"streams"` // by the part of their name before the slash
	Bytes    uint64         `json:"bytes"`   // of events
	Types    []typeCount    `json:"types"`
	Position uint64         `json:"position"` // of the last record
	Last     time.Time      `json:"last,omitzero"`
}

type typeCount struct {
	Type       domain.Type `json:"type"`
	Visibility string      `json:"visibility"`
	Records    uint64      `json:"records"`
	Bytes      uint64      `json:"bytes"`
}

func (p *program) ledgerStat() *cobra.Command {
	return &cobra.Command{
		Use:   "stat",
		Short: "Count the records of the ledger by type",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			st, err := count(cmd.Context(), s)
			if err != nil {
				return err
			}
			var text strings.Builder
			w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
			for _, t := range st.Types {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%d records\t%d bytes\n", t.Type, t.Visibility, t.Records, t.Bytes)
			}
			_ = w.Flush() // into memory
			for _, category := range slices.Sorted(maps.Keys(st.Streams)) {
				fmt.Fprintf(&text, "%d streams %s\n", st.Streams[category], category)
			}
			fmt.Fprintf(&text, "%d records, %d bytes of events, the last at position %d", st.Records, st.Bytes, st.Position)
			return p.print(st, text.String())
		},
	}
}

func count(ctx context.Context, s *assembly.Store) (statistic, error) {
	st := statistic{Streams: make(map[string]int), Types: []typeCount{}}
	types := make(map[domain.Type]typeCount)
	for r, err := range s.Log.After(ctx, 0) {
		if err != nil {
			return st, err
		}
		n := uint64(len(r.Data))
		st.Records, st.Bytes, st.Position, st.Last = st.Records+1, st.Bytes+n, r.Position, r.Time
		if r.Version == 1 {
			st.Streams[r.Stream.Category()]++
		}
		t := types[r.Type]
		types[r.Type] = typeCount{r.Type, visibility(s, r), t.Records + 1, t.Bytes + n}
	}
	for _, t := range slices.Sorted(maps.Keys(types)) {
		st.Types = append(st.Types, types[t])
	}
	return st, nil
}

func visibility(s *assembly.Store, r ledger.Record) string {
	if s.Catalog.Visibility(r.Type) == domain.Public {
		return "public"
	}
	return "sealed"
}

// tailEvery is how often tail --follow looks for more.
const tailEvery = 500 * time.Millisecond

func (p *program) ledgerTail() *cobra.Command {
	var follow, sealed bool
	var lines int
	c := &cobra.Command{
		Use:   "tail",
		Short: "Print the last records of the ledger",
		Long: `Print the last records of the ledger, public ones only. With --sealed the others are
listed too, by what they are and not by what is in them: that stays closed until an
event opens it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lines < 0 {
				return fmt.Errorf("--lines must not be negative: %w", domain.ErrInvalid)
			}
			s, err := p.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			return p.tail(cmd.Context(), s, lines, sealed, follow)
		},
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on with what comes")
	c.Flags().BoolVar(&sealed, "sealed", false, "list sealed records too")
	c.Flags().IntVar(&lines, "lines", 20, "`number` of records to begin with")
	return c
}

func (p *program) tail(ctx context.Context, s *assembly.Store, lines int, sealed, follow bool) error {
	var last []ledger.Record
	position := uint64(0)
	for r, err := range s.Log.After(ctx, 0) {
		if err != nil {
			return err
		}
		position = r.Position
		if sealed || s.Catalog.Visibility(r.Type) == domain.Public {
			if last = append(last, r); len(last) > lines {
				last = last[1:]
			}
		}
	}
	for _, r := range last {
		if err := p.show(s, r); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // as asked
		case <-tick.C:
		}
		for r, err := range s.Log.After(ctx, position) {
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			position = r.Position
			if sealed || s.Catalog.Visibility(r.Type) == domain.Public {
				if err := p.show(s, r); err != nil {
					return err
				}
			}
		}
	}
}

// show prints a record. What is in a sealed one is not shown.
func (p *program) show(s *assembly.Store, r ledger.Record) error {
	var shown struct {
		Time    time.Time       `json:"time"`
		Stream  ledger.Stream   `json:"stream"`
		Version uint64          `json:"version"`
		Type    domain.Type     `json:"type"`
		Actor   string          `json:"actor"`
		Data    json.RawMessage `json:"data,omitempty"`
	}
	shown.Time, shown.Stream, shown.Version, shown.Type, shown.Actor = r.Time, r.Stream, r.Version, r.Type, r.Actor
	if s.Catalog.Visibility(r.Type) == domain.Public {
		shown.Data = r.Data
	}
	return p.print(shown, strings.TrimSpace(fmt.Sprintf("%s %s %d %s %s", r.Time.Format(time.RFC3339), r.Stream, r.Version, r.Type, shown.Data)))
}

// A bar shows how far a command has come, to somebody who looks on.
type bar struct {
	w    io.Writer // nil: nobody does
	what string
}

// bar returns a bar for a terminal, and one that shows nothing for anything else.
func (p *program) bar(what string) bar {
	f, ok := p.stderr.(*os.File)
	if !ok || p.json {
		return bar{}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return bar{}
	}
	return bar{f, what}
}

const barWidth = 30

func (b bar) show(records, position, end uint64) {
	if b.w == nil {
		return
	}
	if end == 0 {
		_, _ = fmt.Fprintf(b.w, "\r%d records %s", records, b.what)
		return
	}
	done := min(position, end)
	full := int(done * barWidth / end) //nolint:gosec // up to barWidth
	_, _ = fmt.Fprintf(b.w, "\r[%s%s] %3d %%, %d records %s",
		strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), done*100/end, records, b.what)
}

func (b bar) end() {
	if b.w != nil {
		_, _ = fmt.Fprint(b.w, "\r\x1b[K")
	}
}
