package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// taskFlags are the flags of task.
type taskFlags struct {
	list, json           bool
	template, seed, path string
	version              uint32
}

func newTask() *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Make the task that a seed stands for",
		Long: `Task makes a task again from its template, its version, its seed and the entry, the
skill or tool that it was put to, all of which a revealed shop has. It prints the
prompt, what was asked on the wire, and the right answer.

Without --entry the task is the one for an A2A agent whose skill is not mentioned.
The file of --entry holds one JSON object:

  kind    "a2a" or "mcp"
  name    id of the skill, or name of the tool
  label   a2a: what people call the skill
  text    mcp: the property that takes the whole prompt, or
  fields  mcp: the properties that take its parts, each {role, property, type, enum}

With --list it prints the catalogue: id, family, version and an example of each
template.

` + exitCodes,
		Example: `  karatum-verify task --list
  karatum-verify task --template unit.convert --seed 7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				for _, other := range []string{"template", "seed", "version", "entry"} {
					if cmd.Flags().Changed(other) {
						return usageError{cmd.CommandPath(), fmt.Errorf("--list lists all templates, so it goes without --%s", other)}
					}
				}
				return listTemplates(cmd.OutOrStdout(), f.json)
			}
			made, err := f.make(cmd)
			if err != nil {
				return err
			}
			return printTask(cmd.OutOrStdout(), made, f.json)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.list, "list", false, "list the templates")
	flags.StringVar(&f.template, "template", "", "id of the template")
	flags.StringVar(&f.seed, "seed", "", "seed of the task, 64 lower-case hex digits")
	flags.Uint32Var(&f.version, "version", 0, "version of the template (default the current one)")
	flags.StringVar(&f.path, "entry", "", "file with the skill or tool that the task was put to")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// make makes the task that the flags describe. What is wrong with a flag is a
// usage error that names it.
func (f taskFlags) make(cmd *cobra.Command) (task.Task, error) {
	usage := func(flag string, err error) error {
		return usageError{cmd.CommandPath(), fmt.Errorf("--%s: %w", flag, err)}
	}
	if f.template == "" {
		return task.Task{}, usage("template", errors.New("the id of a template is needed; --list has them"))
	}
	version, ok := currentVersion(f.template)
	if !ok {
		return task.Task{}, usage("template", fmt.Errorf("%q is not in the catalogue; --list has what is", f.template))
	}
	if cmd.Flags().Changed("version") {
		version = f.version
	}
	seed, err := domain.ParseHash(f.seed)
	if err != nil {
		return task.Task{}, usage("seed", err)
	}
	entry := task.Entry{Kind: task.A2A, Name: f.template}
	if f.path != "" {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return task.Task{}, err
		}
		entry = task.Entry{}
		if err := domain.Unmarshal(data, &entry); err != nil {
			return task.Task{}, usage("entry", err)
		}
	}
	made, err := task.Generate(f.template, version, seed, entry)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return task.Task{}, usage("version", err)
	case errors.Is(err, domain.ErrInvalid):
		return task.Task{}, usage("entry", err)
	}
	return made, err
}

func currentVersion(id string) (version uint32, ok bool) {
	for _, t := range task.Catalogue() {
		if t.ID == id {
			return t.Version, true
		}
	}
	return 0, false
}

func listTemplates(out io.Writer, asJSON bool) error {
	type row struct {
		ID      string `json:"id"`
		Family  string `json:"family"`
		Version uint32 `json:"version"`
		Example string `json:"example"`
	}
	var rows []row
	for _, t := range task.Catalogue() {
		rows = append(rows, row{t.ID, t.Family, t.Version, t.Example})
	}
	if asJSON {
		return printJSON(out, rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tFAMILY\tVERSION\tEXAMPLE") // Flush has the error
	for _, r := range rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", r.ID, r.Family, r.Version, oneLine(r.Example))
	}
	return w.Flush()
}

// oneLine writes the newlines of a prompt as \n, so that a row of the table stays
// a line.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

func printTask(out io.Writer, t task.Task, asJSON bool) error {
	if asJSON {
		return printJSON(out, t)
	}
	ask, err := domain.Canonical(t.Ask)
	if err != nil {
		return err
	}
	expected, err := domain.Canonical(t.Expected)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"template", fmt.Sprintf("%s version %d", t.Template, t.Version)},
		{"family", t.Family},
		{"answer", t.Expected.Value},
		{"expected", string(expected)},
		{"ask", string(ask)},
		{"prompt", ""},
	} {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", line[0], line[1]) // Flush has the error
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s\n", t.Prompt)
	return err
}
