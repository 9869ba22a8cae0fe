package realcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/scrub"
)

// Report is what a run writes. It has no secrets, account numbers and IDs.
type Report struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
	Cloud   string `json:"cloud"`
	Region  string `json:"region"`
	Run     string `json:"run"`
	// Simulated: the cloud was the sandbox's.
	Simulated bool      `json:"simulated,omitempty"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended,omitzero"`
	Checks    []Check   `json:"checks"`
	// Unchecked are the assumptions that no run tries, with the reason.
	Unchecked map[string]string `json:"unchecked"`
	Measured  []Measure         `json:"measured"`
	Refusals  []Refusal         `json:"refusals"`
	Calls     []Call            `json:"calls"`
}

// Refusal is an error of the cloud.
type Refusal struct {
	Action string `json:"action"`
	Code   string `json:"code"`
	Text   string `json:"text"`
}

// reportFormat is the version of the file's format.
const reportFormat = 1

// Outcomes of a check.
const (
	AsAssumed = "as assumed"
	Differs   = "differs"
	// Unclear: an error, or nothing in the time of the check.
	Unclear = "unclear"
)

// Check is an assumption that was tried.
type Check struct {
	Name string `json:"name"`
	// Sentence is of the page of the cloud.
	Sentence string `json:"sentence"`
	Expected string `json:"expected"`
	// Seen has no IDs and no times, so that two clouds can be compared.
	Seen    string  `json:"seen"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
}

// Measure is a time that was measured.
type Measure struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

func newReport(cloud *Cloud, run, region string, now time.Time) *Report {
	return &Report{Format: reportFormat, Version: build.Version, Cloud: cloud.Name, Region: region, Run: run, Began: now.UTC().Truncate(time.Second),
		Unchecked: cloud.Unchecked}
}

// ClusterReport is the report of a capture in a user's cluster, which has no calls.
func ClusterReport(checks []Check, cloud string, began, ended time.Time) *Report {
	return &Report{Format: reportFormat, Version: build.Version, Cloud: cloud, Run: "cluster", Began: began.UTC().Truncate(time.Second),
		Ended: ended.UTC().Truncate(time.Second), Checks: checks}
}

// inCluster: the report is of a capture in a user's cluster, whose checks expect the same of every cluster.
func (r *Report) inCluster() bool { return r.Run == "cluster" }

func (r *Report) has(name string) bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == name })
}

// finish ends the report.
func (r *Report) finish(now time.Time, w *wire) {
	r.Ended = now.UTC().Truncate(time.Second)
	r.record(w)
}

// record adds the calls of the session, and the refusals among them.
func (r *Report) record(w *wire) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Calls = append(r.Calls, w.calls...)
	w.calls = nil
	for _, c := range r.Calls {
		one := Refusal{c.Action, c.Code, strings.ReplaceAll(anonymous(c.Text), r.Run, "RUN")}
		if c.Code != "" && !slices.Contains(r.Refusals, one) {
			r.Refusals = append(r.Refusals, one)
		}
	}
}

// Read reads a report.
func Read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is no report: %w", path, err)
	}
	if r.Format != reportFormat {
		return nil, fmt.Errorf("%s has the format %d, and this program reads %d", path, r.Format, reportFormat)
	}
	return r, nil
}

// continued is the report of an interrupted run, if the file has it. Without it, all checks run again.
func continued(path, cloud, run string) (*Report, error) {
	r, err := Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case r.Run != run || r.Cloud != cloud:
		return nil, fmt.Errorf("%s is the report of the run %s on %s; name another file with --report", path, r.Run, r.Cloud)
	}
	return r, nil
}

// Write stores the report, whole or not at all.
func (r *Report) Write(path string) error {
	text, err := r.clean()
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// clean is the report as JSON without secrets and IDs.
func (r *Report) clean() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	n := numbers{}
	calls, _ := tree["calls"].([]any)
	for i := range calls {
		calls[i] = n.value(scrub.Value("", calls[i]))
	}
	for _, key := range []string{"checks", "refusals"} {
		tree[key] = n.value(tree[key])
	}
	return json.MarshalIndent(tree, "", " ")
}

// Forms of what names an account, a person or a resource.
var (
	uuidForm      = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	idForm        = regexp.MustCompile(`\b([a-z]+(?:-[a-z]+)*)-([0-9a-f]{17}|[0-9a-f]{8})\b`)
	digestForm    = regexp.MustCompile(`[0-9a-f]{32}\b`)
	accountForm   = regexp.MustCompile(`\b[0-9]{12}\b`)
	principalForm = regexp.MustCompile(`\b(arn:aws[\w-]*:(?:iam|sts)::[^:\s]*:)[^\s"',<]+`)
	personForm    = regexp.MustCompile(`\bA[A-Z]{2}A[A-Z0-9]{12,}\b`)
	mailForm      = regexp.MustCompile(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)
	encodedForm   = regexp.MustCompile(`(Encoded authorization failure message: )\S+`)
)

// numbers give each resource a number in place of its ID, so that calls about the same resource stay together.
type numbers map[string]string

func (n numbers) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = n.value(v[key])
		}
		return v
	case []any:
		for i := range v {
			v[i] = n.value(v[i])
		}
		return v
	case string:
		return n.text(v)
	}
	return v
}

func (n numbers) text(text string) string {
	text = principalForm.ReplaceAllString(text, "${1}"+scrub.Removed)
	text = encodedForm.ReplaceAllString(text, "${1}"+scrub.Removed)
	text = digestForm.ReplaceAllString(uuidForm.ReplaceAllString(text, "UUID"), "HEX")
	text = idForm.ReplaceAllStringFunc(text, func(id string) string {
		if n[id] == "" {
			n[id] = idForm.FindStringSubmatch(id)[1] + "-" + strconv.Itoa(len(n)+1)
		}
		return n[id]
	})
	text = personForm.ReplaceAllString(text, scrub.Removed)
	text = mailForm.ReplaceAllString(text, scrub.Removed)
	return accountForm.ReplaceAllString(text, "ACCOUNT")
}

// anonymous is a text in one line without IDs, which two clouds can be compared by.
func anonymous(text string) string {
	text = numbers{}.text(scrub.Text(strings.Join(strings.Fields(text), " ")))
	return regexp.MustCompile(`RequestID: [^,\s]+`).ReplaceAllString(numbered.ReplaceAllString(text, "$1-ID"), "RequestID: REMOVED")
}

// numbered is a resource after its ID was replaced.
var numbered = regexp.MustCompile(`\b(vpc|subnet|lt|i|vol|snap|ami|replacevol|eni|sg)-[0-9]+\b`)
