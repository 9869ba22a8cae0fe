package judge

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object.
type object = map[string]any

// at returns the value at a path; nil if absent. part returns an object, text a text, number or truth, and items a list.
func at(v any, path ...string) any {
	for _, name := range path {
		o, _ := v.(object)
		v = o[name]
	}
	return v
}

func part(v any, path ...string) object {
	o, _ := at(v, path...).(object)
	return o
}

func text(v any, path ...string) string {
	switch v := at(v, path...).(type) {
	case string, bool:
		return fmt.Sprint(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

func items(v any, path ...string) []any {
	list, _ := at(v, path...).([]any)
	return list
}

// event is a request to the API server or to the cloud that perhaps had an effect.
type event struct {
	at          time.Time // of the answer
	line        string    // for people
	user, agent string    // the effective account, and the User-Agent
	groups      []any
	in, out     object
	code        int // 404 or 5xx of the API server, else 0
	// Of the API server: what was done to what. Empty for the cloud.
	verb, group, resource, sub, namespace, name string
	// Of the cloud: the method, and the path as Azure writes it, or "ec2/CreateTags". Empty for the API server.
	method, path string
}

// logs are the logs of a sandbox, in the order of the answers.
type logs struct {
	events          []event
	audited, called int
}

// readLogs reads the logs of every start of a sandbox. Incomplete logs are an error.
func readLogs(dir string) (l logs, err error) {
	starts, _ := filepath.Glob(filepath.Join(dir, "record", "*")) // the pattern is legal
	for _, start := range starts {
		if err := l.read(start); err != nil {
			return l, fmt.Errorf("the logs in %s are incomplete: %w", start, err)
		}
	}
	l.sort()
	if len(l.events) == 0 {
		err = fmt.Errorf("%s has no logs: pass the directory of a stopped sandbox", dir)
	}
	return l, err
}

// sort orders the events by the time of the answer.
func (l *logs) sort() {
	slices.SortStableFunc(l.events, func(a, b event) int { return a.at.Compare(b.at) })
}

// read reads the logs of one start, and compares the numbers of lines with the numbers that the sandbox counted.
func (l *logs) read(start string) error {
	var want struct{ Events, Requests int }
	raw, err := os.ReadFile(filepath.Join(start, "complete.json"))
	if err = cmp.Or(err, json.Unmarshal(raw, &want)); err != nil {
		return fmt.Errorf("stop the sandbox before the check; the logs of a killed sandbox have no end: %w", err)
	}
	parts, _ := filepath.Glob(filepath.Join(start, "audit*.log"))
	events, answers := 0, map[string]object{}
	for _, part := range parts {
		err = errors.Join(err, each(part, func(o object) error { events++; return l.addAudit(o) }))
	}
	err = errors.Join(err, each(filepath.Join(start, "cloud.log.gz"), func(o object) error { l.called++; return l.addCloud(o, answers) }))
	if l.audited += events; events < max(want.Events, 1) || len(answers) != want.Requests {
		err = errors.Join(err, fmt.Errorf("%d of %d events of the API server, %d of %d requests to the cloud",
			events, want.Events, len(answers), want.Requests))
	}
	return err
}

// each reads a file of JSON objects.
func each(path string, add func(object) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	from := io.Reader(file)
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for d := json.NewDecoder(from); err == nil; {
		var o object
		if err = d.Decode(&o); err == nil {
			err = add(o)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%s: %w", filepath.Base(path), err)
}

// addAudit keeps a request without an error, one whose client left before the answer, and "not found". A dry run changes nothing.
// A request without an answer may have its effect from its arrival on.
func (l *logs) addAudit(o object) error {
	code, _ := strconv.Atoi(text(o, "responseStatus", "code"))
	when, err := time.Parse(time.RFC3339Nano, cmp.Or(map[bool]string{true: text(o, "requestReceivedTimestamp")}[code >= 500], text(o, "stageTimestamp")))
	if err != nil || code >= 300 && code < 500 && code != 404 || strings.Contains(text(o, "requestURI"), "dryRun=All") {
		return err
	}
	ref, who, out := part(o, "objectRef"), part(o, "user"), part(o, "responseObject")
	if as := part(o, "impersonatedUser"); as != nil {
		who = as
	}
	e := event{
		at: when, user: text(who, "username"), groups: items(who, "groups"), agent: text(o, "userAgent"), verb: text(o, "verb"),
		group: text(ref, "apiGroup"), resource: text(ref, "resource"), sub: text(ref, "subresource"), namespace: text(ref, "namespace"),
		name: cmp.Or(text(ref, "name"), text(out, "metadata", "name")), in: part(o, "requestObject"), out: out,
	}
	if code >= 300 {
		e.code = code
	}
	e.line = fmt.Sprintf("%s %s %s/%s %s/%s by %s, audit %s", when.Format("15:04:05.000"), e.verb, e.resource, e.sub, e.namespace, e.name,
		e.user, text(o, "auditID"))
	l.events = append(l.events, e)
	return nil
}

// addCloud keeps a request that had an effect, perhaps with a lost answer. answers has the answers by number.
func (l *logs) addCloud(o object, answers map[string]object) error {
	began, err := time.Parse(time.RFC3339Nano, text(o, "time"))
	took, wrong := strconv.ParseInt(text(o, "took"), 10, 64)
	e := event{at: began.Add(time.Duration(took)), user: text(o, "principal"), agent: text(o, "agent"), method: text(o, "method"),
		path: strings.Trim(text(o, "path"), "/"), in: part(o, "in"), out: part(o, "out")}
	if earlier, same := answers[text(o, "same")]; same {
		e.out = earlier
	}
	answers[text(o, "seq")] = e.out
	e.line = fmt.Sprintf("%s %s %s by %s, request %s", e.at.Format("15:04:05.000"), e.method, e.path, e.agent, text(o, "seq"))
	if code, _ := strconv.Atoi(text(o, "status")); (code < 300 || code >= 500) && text(e.in, "DryRun") != "true" && text(o, "class") != "login" {
		l.events = append(l.events, e)
	}
	return errors.Join(err, wrong)
}
