// Package judge judges a run of a sandbox by its logs alone: the audit log of the API server, and the requests to the cloud. The
// package knows Kamino's public names and promises, and shares no code with Kamino or with the rest of the sandbox.
package judge

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed facts.json
var factsFile []byte

//go:embed published.json
var publishedFile []byte

// knowledge has the sentences and the clouds' requests with an effect on something that exists from facts.json. The rights in pages
// and chart are in published.json.
type knowledge struct {
	// Published are the actions in a cloud.
	Sentences, Published []string
	AzureActs            map[string]string
	// AWSActs have the effect, and the parameter with the IDs.
	AWSActs map[string][]string
	// Rules of the published roles, and of the account for Cluster API. People need more: for copies of customData, restore and doctor.
	Rules, Management, People []object
}

var facts = func() (k knowledge) {
	if err := errors.Join(json.Unmarshal(factsFile, &k), json.Unmarshal(publishedFile, &k)); err != nil {
		panic(err) // the files are part of the program
	}
	return k
}()

// Report is the result: how often each sentence was tested, a line for each broken test, and the numbers of objects and requests. Accounts
// are those that Kamino had, each with a request.
type Report struct {
	Tests    [9]int
	Broken   [9][]string
	Counted  string
	Accounts map[string]string
}

// Print writes the report. The error says that a sentence is broken.
func (r *Report) Print(out io.Writer) error {
	all, broken := "", 0
	for i, sentence := range facts.Sentences {
		all += fmt.Sprintf("%9s  %d  %s (%s)\n", map[bool]string{true: "ok", false: "BROKEN"}[r.Broken[i] == nil], i+1, sentence, count(r.Tests[i], "test"))
		for _, line := range r.Broken[i] {
			all += "              " + line + "\n"
			broken++
		}
	}
	if _, err := fmt.Fprintf(out, "%s           %s\n", all, r.Counted); err != nil || broken == 0 {
		return err
	}
	return fmt.Errorf("the logs break Kamino's promises %s", count(broken, "time"))
}

// count writes a number with its noun; a noun of several words has the plural in its first.
func count(n int, noun string) string {
	if first, rest, _ := strings.Cut(noun, " "); n != 1 {
		noun = strings.TrimSpace(first + "s " + rest)
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// judge replays the logs.
type judge struct {
	logs
	Report
	limit      int // of reserved nodes
	azure      bool
	things     things
	nodes      map[string]object
	known      map[string]bool       // what Kamino ever created; roles, accounts and namespaces of the engine; proofs by UID of the Prototype
	prototypes map[string]*prototype // by UID
	holds      map[string]*hold      // by the Lease
	past       int                   // holds that have ended
	made       map[string]string     // what Kamino created, until the deletion, with the request
	orders     map[string]object     // specifications by UID
	open       map[string][]event    // what Kamino asked without an answer, by the object
}

// prototype is a capture. ended is zero before the end.
type prototype struct {
	name, pool, instance string
	spec                 object
	ended                time.Time
}

// copies: the capture copies the disk of a running node.
func (p *prototype) copies() bool { return text(p.spec, "settings", "donor", "method") == "Copy" }

// hold is a reservation: a Lease with the label kamino.dev/holder.
type hold struct {
	node, instance, holder, pool, guard string
	cordoned                            time.Time
	limit                               time.Duration
	before                              map[string]string // former values of fields that Kamino changed
}

// Run checks the logs in the directory of a stopped sandbox. limit is how many nodes may be reserved at once if no policy allows
// more. An error says that the logs are incomplete.
func Run(dir string, limit int) (*Report, error) {
	var sandbox struct{ Cloud string }
	raw, err := os.ReadFile(filepath.Join(dir, "sandbox.json"))
	l, incomplete := readLogs(dir)
	if err = errors.Join(err, json.Unmarshal(raw, &sandbox), incomplete); err != nil {
		return nil, err
	}
	return report(l, limit, sandbox.Cloud != "aws"), nil
}

func report(l logs, limit int, azure bool) *Report {
	j := &judge{
		logs: l, limit: limit, azure: azure, things: things{}, nodes: map[string]object{}, known: map[string]bool{}, prototypes: map[string]*prototype{},
		holds: map[string]*hold{}, Report: Report{Accounts: map[string]string{}}, made: map[string]string{}, orders: map[string]object{}, open: map[string][]event{},
	}
	for _, e := range l.events {
		kamino := slices.ContainsFunc([]string{"kamino/", "kamino ", "kamino-generalize"},
			func(agent string) bool { return strings.HasPrefix(e.agent, agent) }) ||
			strings.HasPrefix(e.agent, "aws-sdk-go-v2/") && strings.Contains(e.agent, " app/kamino")
		if kamino {
			j.Accounts[e.user] = e.line
		}
		if e.method == "" {
			j.request(e, kamino)
		} else {
			j.call(e, kamino)
		}
	}
	j.end(event{at: l.events[len(l.events)-1].at, line: "at the end of the logs"})
	j.Counted = strings.Join([]string{count(len(j.prototypes), "capture"), count(j.past+len(j.holds), "reservation"), count(len(j.nodes), "node"),
		count(len(j.things), "resource of the cloud"), count(l.audited, "event of the API server"), count(l.called, "request to the cloud")}, ", ")
	return &j.Report
}

// expect counts a test of a sentence, and keeps a broken one.
func (j *judge) expect(sentence int, kept bool, e event, format string, args ...any) {
	if j.Tests[sentence-1]++; !kept {
		j.Broken[sentence-1] = append(j.Broken[sentence-1], fmt.Sprintf(format, args...)+": "+e.line)
	}
}

// end judges what is left.
func (j *judge) end(last event) {
	open := slices.ContainsFunc(slices.Collect(maps.Values(j.prototypes)), func(p *prototype) bool { return p.ended.IsZero() })
	for uid, p := range j.prototypes {
		if !p.ended.IsZero() {
			left := j.left(uid, strings.ReplaceAll(p.name, ".", "-"), open)
			j.expect(5, len(left) == 0, last, "capture %s has ended, and left %s", p.name, strings.Join(left, ", "))
		}
	}
	for _, h := range j.holds {
		j.serves(h, last)
	}
}

// left is what belongs to a capture. Pods of trials have no name of a capture: they are left when no capture is open.
func (j *judge) left(uid, name string, open bool) (all []string) {
	for _, t := range j.things {
		storage := t.kind == "snapshot" && t.backs != "" && !j.thing(t.backs).gone
		if t.tags["kamino-uid"] == uid && !t.gone && !storage && (t.kind != "image" || !t.complete) {
			all = append(all, t.id)
		}
	}
	for key, line := range j.made {
		key = strings.ReplaceAll(key, ".", "-")
		if strings.Contains(key, name) && !strings.HasSuffix(key, "-recipe") || strings.Contains(key, "/trial-") && !open {
			all = append(all, line)
		}
	}
	if h := j.held(func(h *hold) bool { return h.holder == uid }); h != nil {
		all = append(all, "the reservation of "+h.node)
	}
	slices.Sort(all)
	return all
}
