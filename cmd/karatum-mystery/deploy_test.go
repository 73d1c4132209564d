package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Where the repository begins, seen from this package.
var repository = filepath.Join("..", "..")

// read returns a file of the repository.
func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{repository}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// parse reads YAML, of which JSON is a part, into v; fields that v has not are an error if
// it is a struct.
func parse(t *testing.T, text string, v any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

var variable = regexp.MustCompile(`MYSTERY_[A-Z0-9_]*[A-Z0-9]`)

// known reports whether the manual explains a variable.
func known(name string) bool {
	if chain, ok := strings.CutPrefix(name, "MYSTERY_RPC_"); ok {
		return regexp.MustCompile(`\A[1-9][0-9]*\z`).MatchString(chain)
	}
	return slices.Contains(variable.FindAllString(manual, -1), name)
}

// What files of deploy/ name exists: variables, commands with their flags, and metrics.
func TestDeployNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	metrics := regexp.MustCompile("(?m)^\\| `(mystery_\\w+)").FindAllStringSubmatch(read(t, "docs", "OPERATIONS.md"), -1)
	if len(metrics) == 0 {
		t.Fatal("the manual lists no metric")
	}
	series := make(map[string]bool)
	for _, m := range metrics {
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			series[m[1]+suffix] = true
		}
	}
	err := filepath.WalkDir(filepath.Join(repository, "deploy"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range variable.FindAllString(string(data), -1) {
			if !known(name) {
				t.Errorf("%s names %s, which the manual does not", path, name)
			}
		}
		for _, name := range regexp.MustCompile(`\bmystery_[a-z_]+`).FindAllString(string(data), -1) {
			if !series[name] {
				t.Errorf("%s names %s, which is no metric", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"karatum-mystery-serve.service", "karatum-mystery-work.service"} {
		unit := read(t, "deploy", "systemd", f)
		m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/karatum-mystery (.*)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("%s starts nothing", f)
		}
		understood(t, f, strings.Fields(m[1]))
	}
	var command []string
	image := read(t, "deploy", "Dockerfile")
	m := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindStringSubmatch(image)
	if m == nil || json.Unmarshal([]byte(m[1]), &command) != nil {
		t.Fatalf("the image runs no command: %q", m)
	}
	understood(t, "Dockerfile", command)
}

// understood fails the test unless there is a command with these flags.
func understood(t *testing.T, where string, args []string) {
	t.Helper()
	c, rest, err := new(program).root().Find(args)
	if err == nil && !c.Runnable() {
		t.Errorf("%s runs %q, which is no command", where, args)
		return
	}
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err != nil {
		t.Errorf("%s runs %q: %v", where, args, err)
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	parse(t, read(t, "deploy", "prometheus", "alerts.yaml"), &rules)
	runbook := strings.ToLower(read(t, "docs", "OPERATIONS.md"))
	seen := make(map[string]bool)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			seen[r.Alert] = true
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
				t.Errorf("alert %s says too little: %+v", r.Alert, r)
			}
			heading, anchor := "\n### "+strings.ToLower(r.Alert)+"\n", "docs/OPERATIONS.md#"+strings.ToLower(r.Alert)
			if r.Annotations["runbook"] != anchor || !strings.Contains(runbook, heading) {
				t.Errorf("alert %s leads to %s, want a heading of its name in the manual", r.Alert, r.Annotations["runbook"])
			}
			if open, shut := strings.Count(r.Expr, "("), strings.Count(r.Expr, ")"); open != shut || !strings.Contains(r.Expr, "mystery_") {
				t.Errorf("alert %s: %q is no expression over a metric of ours", r.Alert, r.Expr)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(read(t, "docs", "OPERATIONS.md"), -1) {
		if !seen[m[1]] {
			t.Errorf("the manual has a page on the alert %s, which there is not", m[1])
		}
	}
	var scrape struct {
		Configs []struct {
			Job     string `yaml:"job_name"`
			Every   string `yaml:"scrape_interval"`
			Targets []struct {
				Targets []string
				Labels  map[string]string
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
		Rules []string `yaml:"rule_files"`
	}
	parse(t, read(t, "deploy", "prometheus", "scrape.yaml"), &scrape)
	for _, unit := range []string{"karatum-mystery-serve.service", "karatum-mystery-work.service"} {
		m := regexp.MustCompile(`MYSTERY_OPERATOR_ADDR=(\S+)`).FindStringSubmatch(read(t, "deploy", "systemd", unit))
		if m == nil || !slices.ContainsFunc(scrape.Configs[0].Targets, func(s struct {
			Targets []string
			Labels  map[string]string
		},
		) bool {
			return slices.Contains(s.Targets, m[1])
		}) {
			t.Errorf("%s is not scraped at %v", unit, m)
		}
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	var board struct {
		Title, UID string
		Panels     []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy", "grafana", "dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	ids := make(map[int]bool)
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %+v has no number of its own, no title, or shows nothing", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, "mystery_") && !strings.Contains(target.Expr, `job="karatum-mystery"`) {
				t.Errorf("panel %q shows %q, which is not of this service", p.Title, target.Expr)
			}
		}
	}
	if len(ids) < 10 || board.Title == "" || board.UID == "" {
		t.Errorf("the dashboard %q has %d panels", board.Title, len(ids))
	}
}

// What stands on one machine must be reached from that machine alone.
func TestCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Name     string
		Cluster  map[string]string `yaml:"x-cluster"`
		Node     map[string]any    `yaml:"x-node"`
		Services map[string]struct {
			Image       string
			Restart     string
			Grace       string `yaml:"stop_grace_period"`
			Profiles    []string
			Entrypoint  []string
			Environment map[string]string
			Ports       []string
			Networks    map[string]any
			Volumes     []string
			Healthcheck map[string]any
		}
		Networks map[string]any
		Volumes  map[string]any
	}
	parse(t, read(t, "deploy", "compose.yaml"), &file)
	for _, name := range []string{"node1", "node2", "node3", "postgres", "anvil"} {
		s, ok := file.Services[name]
		if !ok || len(s.Ports) == 0 {
			t.Errorf("there is no service %s that can be reached: %+v", name, s)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("service %s is open to other machines at %s", name, p)
			}
		}
		if _, tag, ok := strings.Cut(filepath.Base(s.Image), ":"); !ok || tag == "latest" {
			t.Errorf("service %s is of any version: %s", name, s.Image)
		}
	}
}

func TestImageHoldsNothingElse(t *testing.T) {
	t.Parallel()
	image := read(t, "deploy", "Dockerfile")
	_, last, _ := strings.Cut(image[strings.LastIndex(image, "\nFROM "):], "FROM ")
	for _, want := range []string{"gcr.io/distroless/static", "USER nonroot:nonroot", `ENTRYPOINT ["/usr/local/bin/karatum-mystery"]`} {
		if !strings.Contains(last, want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	m := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	if !strings.Contains(image, "FROM golang:"+m[1]+"-") {
		t.Errorf("the image is not built with Go %s", m[1])
	}
	for _, path := range regexp.MustCompile(`\./cmd/[\w-]+`).FindAllString(image, -1) {
		if _, err := os.Stat(filepath.Join(repository, path)); err != nil {
			t.Errorf("the image is built from %v", err)
		}
	}
}

// What goreleaser is told is checked by itself too: goreleaser check --config FILE.
func TestReleases(t *testing.T) {
	t.Parallel()
	var file struct {
		Version int
		Project string `yaml:"project_name"`
		Before  map[string][]string
		Builds  []struct {
			ID, Main, Binary         string
			Env, Goos, Goarch, Flags []string
			Ldflags                  []string
			Timestamp                string `yaml:"mod_timestamp"`
		}
		Archives []map[string]any
		Nfpms    []struct {
			ID, Vendor, Maintainer, Homepage, Description, License, Bindir string
			IDs                                                            []string
			Package                                                        string `yaml:"package_name"`
			Formats                                                        []string
			Contents                                                       []struct {
				Src, Dst, Type string
				Info           map[string]any `yaml:"file_info"`
			}
		}
		Checksum  map[string]string
		Changelog map[string]bool
	}
	parse(t, read(t, "deploy", "goreleaser.yaml"), &file)
	if len(file.Builds) != 3 {
		t.Fatalf("%d programs are released, want three", len(file.Builds))
	}
	for _, b := range file.Builds {
		if _, err := os.Stat(filepath.Join(repository, b.Main, "main.go")); err != nil || b.ID != b.Binary {
			t.Errorf("%s is built from %v", b.ID, err)
		}
		if stamped := strings.Contains(strings.Join(b.Ldflags, " "), "main.version="); stamped != (b.ID == "karatum-mystery") {
			t.Errorf("%s has its version: %t", b.ID, stamped)
		}
	}
	for _, p := range file.Nfpms {
		for _, c := range p.Contents {
			if _, err := os.Stat(filepath.Join(repository, c.Src)); err != nil {
				t.Errorf("package %s: %v", p.ID, err)
			}
		}
	}
}

// Where systemd is, it judges the units: 0 would be a service that can do nothing, 10 one
// that can do everything.
func TestUnitsAreHardened(t *testing.T) {
	t.Parallel()
	const most = "20" // 2.0
	units, err := filepath.Glob(filepath.Join(repository, "deploy", "systemd", "*.service"))
	if err != nil || len(units) != 2 {
		t.Fatalf("units: %v, %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n", "User=karatum-mystery", "UMask=0077"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", unit, want)
			}
		}
		judge, err := exec.LookPath("systemd-analyze")
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(t.Context(), judge, "security", "--offline=yes", "--no-pager", "--threshold="+most, unit).CombinedOutput()
		if strings.Contains(string(out), "unrecognized option") {
			continue // an older one
		}
		if err != nil {
			t.Errorf("systemd-analyze security %s: %v\n%s", unit, err, out)
		}
	}
}
