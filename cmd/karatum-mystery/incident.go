package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/projections"
)

var incidentID = regexp.MustCompile(`\Ainc_[a-z2-7]{20}\z`)

func (p *program) incident() *cobra.Command {
	c := &cobra.Command{
		Use:   "incident",
		Short: "Look into incidents, and take them to their end",
		Long: `Look into incidents, and take them to their end.

A confirmed finding that an agent does worse in production than in its exam opens an
incident. It is reported and private: triage it as confirmed or rejected. What is
rejected is closed, and nobody hears of it. What is confirmed is disclosed, seven days
after it was opened or once the owner has replied. What is disclosed can be corrected,
closed and, if it is rated high or critical, be the reason to recall the certificate,
which takes two maintainers.

Each step is signed with a maintainer's key and says why; both are public once the
incident is.`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(p.incidentList(), p.incidentShow(), p.incidentTriage(),
		p.incidentStep("disclose", "Make a confirmed incident public", incident.Disclose),
		p.incidentStep("close", "Close an incident that was rejected or disclosed", incident.Close),
		p.incidentStep("correct", "Set something right that was disclosed", incident.Correct),
		p.incidentStep("recall", "Recall the certificate for a high or critical incident that was disclosed", incident.Recall))
	return c
}

// An incidentLine is an incident for the operator, public or not.
type incidentLine struct {
	Incident   string            `json:"incident"`
	Agent      string            `json:"agent"`
	Consent    string            `json:"consent"`
	Finding    string            `json:"finding"`
	Demo       bool              `json:"demo,omitempty"`
	Severity   incident.Severity `json:"severity"`
	Stage      incident.Stage    `json:"stage"`
	Recalled   bool              `json:"recalled,omitempty"`
	Public     bool              `json:"public"`
	Version    uint64            `json:"version"`
	Replies    int               `json:"replies"`
	ReplyUntil time.Time         `json:"replyUntil"`
	OpenedAt   time.Time         `json:"openedAt"`
}

func lineOf(i projections.DueIncident) incidentLine {
	return incidentLine{
		Incident: i.Incident, Agent: string(i.Agent), Consent: i.Consent, Finding: finding.ID(i.Consent, i.Look), Demo: i.Demo,
		Severity: i.Severity, Stage: i.Stage, Recalled: i.Recalled, Public: i.Stage == incident.StageDisclosed || i.Stage == incident.StageResolved,
		Version: i.Version, Replies: i.Replies, ReplyUntil: i.ReplyUntil, OpenedAt: i.Opened,
	}
}

func (l incidentLine) text() string {
	stage, private := string(l.Stage), ", private"
	if l.Recalled {
		stage += ", certificate recalled"
	}
	if l.Public {
		private = ""
	}
	return fmt.Sprintf("%s  %s  %s %s  %s%s", l.Incident, l.Agent, l.Severity.Score, l.Severity.Rating, stage, private)
}

func (p *program) incidentList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all incidents, public or not, the latest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prog, list, err := p.incidents(cmd)
			if err != nil {
				return err
			}
			defer prog.Close()
			lines, text := make([]incidentLine, len(list)), make([]string, len(list))
			for i, one := range list {
				lines[i] = lineOf(one)
				text[i] = lines[i].text()
			}
			if len(list) == 0 {
				text = []string{"there are no incidents"}
			}
			return p.print(map[string]any{"incidents": lines}, strings.Join(text, "\n"))
		},
	}
}

// incidents opens the programme and returns its incidents.
func (p *program) incidents(cmd *cobra.Command) (prog *assembly.Programme, list []projections.DueIncident, err error) {
	if prog, err = p.join(cmd.Context()); err != nil {
		return nil, nil, err
	}
	if err = prog.CatchUp(cmd.Context()); err == nil {
		list, err = prog.Incidents(cmd.Context())
	}
	if err != nil {
		prog.Close()
		return nil, nil, err
	}
	return prog, list, nil
}

// An incidentStory is an incident with all that is recorded of it.
type incidentStory struct {
	incidentLine

	Records []json.RawMessage `json:"records"`
}

func (p *program) incidentShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show an incident with its records, public or not",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prog, list, err := p.incidents(cmd)
			if err != nil {
				return err
			}
			defer prog.Close()
			for _, one := range list {
				if one.Incident == args[0] {
					return p.tell(cmd, prog, lineOf(one))
				}
			}
			return fmt.Errorf("there is no incident %q; incident list names them: %w", args[0], domain.ErrNotFound)
		},
	}
}

func (p *program) tell(cmd *cobra.Command, prog *assembly.Programme, l incidentLine) error {
	story := incidentStory{l, []json.RawMessage{}}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nfinding %s, version %d, %s\n", l.text(), l.Finding, l.Version, l.Severity.Vector)
	if l.Stage == incident.Reported || l.Stage == incident.StageConfirmed {
		fmt.Fprintf(&b, "the owner may reply until %s; %d replies so far\n", l.ReplyUntil.Format(time.RFC3339), l.Replies)
	}
	for r, err := range prog.Service.Log.Stream(cmd.Context(), incident.StreamOf(l.Incident), 0) {
		if err != nil {
			return err
		}
		story.Records = append(story.Records, r.AppendCanonical(nil))
		fmt.Fprintf(&b, "%s  %s  %s\n", r.Time.Format(time.RFC3339), r.Type, r.Actor)
	}
	return p.print(story, strings.TrimRight(b.String(), "\n"))
}

func (p *program) incidentTriage() *cobra.Command {
	var confirm, reject bool
	var s step
	c := &cobra.Command{
		Use:   "triage ID --confirm|--reject --text TEXT --key FILE",
		Short: "Say what looking into an incident came to",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			do := incident.Confirm
			if reject {
				do = incident.Reject
			}
			return p.actOn(cmd, args[0], do, s)
		},
	}
	c.Flags().BoolVar(&confirm, "confirm", false, "it is as the finding says")
	c.Flags().BoolVar(&reject, "reject", false, "it is not, or not the agent's doing")
	c.MarkFlagsMutuallyExclusive("confirm", "reject")
	c.MarkFlagsOneRequired("confirm", "reject")
	s.bind(c)
	return c
}

// A step is what all steps of maintainers take.
type step struct{ text, key, second string }

func (s *step) bind(c *cobra.Command) {
	c.Flags().StringVar(&s.text, "text", "", "why, in one `line`; it is public once the incident is (required)")
	c.Flags().StringVar(&s.key, "key", "", "`file` with your key (required)")
	must(c.MarkFlagRequired("text"))
	must(c.MarkFlagRequired("key"))
}

func (p *program) incidentStep(name, short string, do incident.Verb) *cobra.Command {
	var s step
	c := &cobra.Command{
		Use:   name + " ID --text TEXT --key FILE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return p.actOn(cmd, args[0], do, s) },
	}
	s.bind(c)
	if do == incident.Recall {
		c.Use += " --second-key FILE"
		c.Flags().StringVar(&s.second, "second-key", "", "`file` with the key of another maintainer (required)")
		must(c.MarkFlagRequired("second-key"))
	}
	return c
}

// actOn signs a step on an incident as it stands, and carries it out.
func (p *program) actOn(cmd *cobra.Command, id string, do incident.Verb, s step) error {
	if !incidentID.MatchString(id) {
		return fmt.Errorf("%q is not the id of an incident, such as inc_mfzwizlsmjrxg43vmvzc: %w", id, domain.ErrInvalid)
	}
	ctx := cmd.Context()
	prog, err := p.join(ctx)
	if err != nil {
		return err
	}
	defer prog.Close()
	now, err := prog.Service.Incident(ctx, id)
	if err != nil {
		return err
	}
	if now.Stage == incident.None {
		return fmt.Errorf("there is no incident %s; incident list names them: %w", id, domain.ErrNotFound)
	}
	state, err := prog.Service.CurrentProgramme(ctx)
	if err != nil {
		return err
	}
	files := []string{s.key}
	if s.second != "" {
		files = append(files, s.second)
	}
	c := incident.Act{Incident: id, Version: now.Version, Do: do, Text: s.text}
	if c.By, err = approve(state, c.Action(), files...); err != nil {
		return err
	}
	if err := prog.Service.ActOnIncident(ctx, c); err != nil {
		return err
	}
	if now, err = prog.Service.Incident(ctx, id); err != nil {
		return err
	}
	return p.print(map[string]any{"incident": id, "stage": now.Stage, "recalled": now.Recalled, "version": now.Version},
		fmt.Sprintf("incident %s: %s done, it is %s now", id, do, now.Stage))
}

func (p *program) finding() *cobra.Command {
	c := &cobra.Command{
		Use:   "finding",
		Short: "Set findings right",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(p.findingCorrect())
	return c
}

func (p *program) findingCorrect() *cobra.Command {
	var s step
	c := &cobra.Command{
		Use:   "correct ID --text TEXT --key FILE",
		Short: "Correct a finding; the correction is shown wherever the finding is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			consentID, look, err := finding.ParseID(args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			prog, err := p.join(ctx)
			if err != nil {
				return err
			}
			defer prog.Close()
			if err := prog.CatchUp(ctx); err != nil {
				return err
			}
			f, err := prog.Reader.Finding(ctx, consentID, look)
			if err != nil {
				return err
			}
			state, err := prog.Service.CurrentProgramme(ctx)
			if err != nil {
				return err
			}
			c := finding.Correct{Consent: consentID, Look: look, Version: len(f.Corrections), Text: s.text}
			if c.By, err = approve(state, c.Action(), s.key); err != nil {
				return err
			}
			if err := prog.Service.CorrectFinding(ctx, c); err != nil {
				return err
			}
			return p.print(map[string]any{"finding": args[0], "corrections": c.Version + 1}, "finding "+args[0]+" is corrected")
		},
	}
	s.bind(c)
	return c
}
